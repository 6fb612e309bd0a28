"""What the door reads of commits that no program expects."""

from __future__ import annotations

import pytest
from gitbench import Bench
from odd_commits import MESSAGES, SIGNATURES, every_odd_commit, write_odd_history

from vibe_gate.errors import GateError, IntegrityError
from vibe_gate.git.commit_content import LAST_SECOND, parse_commit

TREE, PARENT = "1" * 40, "2" * 40
WITHOUT_DATE = {
    "no date", "no zone", "a negative date", "a date of the year 33658", "a date beyond 64 bits",
    "a date of 5,000 digits", "a date in words", "a date in other digits", "a zone in words", "no brackets",
    "an open bracket", "nothing at all", "no author", "neither",
}  # fmt: skip
"""Of the author."""


@pytest.mark.parametrize("name", [*SIGNATURES, *MESSAGES])
def test_a_commit_is_read_whatever_its_header_says(name: str) -> None:
    content = parse_commit("0" * 40, every_odd_commit(TREE, [PARENT])[name])
    assert (content.tree, content.parents) == (TREE, (PARENT,))
    assert content.author.time == (0 if name in WITHOUT_DATE else 1_600_000_000)
    assert "\n" not in content.author.name + content.author.address


@pytest.mark.parametrize(
    ("name", "person"),
    [
        ("as git writes it", ("Ada", "ada@example.org")),
        ("no date", ("Ada", "ada@example.org")),
        ("no name", ("", "ada@example.org")),
        ("no address", ("Ada", "")),
        ("two addresses", ("Ada", "a@example.org")),
        ("no author", ("", "")),
        ("a NUL", ("A\0da", "ada@example.org")),
    ],
)
def test_a_person_is_read_as_far_as_the_commit_names_one(
    name: str, person: tuple[str, str]
) -> None:
    author = parse_commit("0" * 40, every_odd_commit(TREE, [PARENT])[name]).author
    assert (author.name, author.address) == person


def test_dates_end_with_the_last_that_a_calendar_has() -> None:
    for seconds, expected in ((LAST_SECOND, LAST_SECOND), (LAST_SECOND + 1, 0)):
        commit = f"tree {TREE}\nauthor A <a@b> {seconds} +0000\n\n".encode()
        assert parse_commit("0" * 40, commit).author.time == expected


def test_a_date_in_the_message_is_not_the_commits() -> None:
    content = parse_commit(
        "0" * 40, f"tree {TREE}\n\ncommitter Eve <e@x> 1700000000 +0000\n".encode()
    )
    assert content.committer.time == 0


def test_a_parent_behind_the_author_is_none_to_git_and_to_us() -> None:
    header = f"tree {TREE}\nparent {PARENT}\nauthor A <a@b> 1 +0000\nparent {TREE}\n\n"
    assert parse_commit("0" * 40, header.encode()).parents == (PARENT,)


@pytest.mark.parametrize(
    "data", [b"", b"object 1\n", b"tree short\n", b"tree " + b"\xff" * 40 + b"\n\n"]
)
def test_what_is_no_commit_is_called_damaged(data: bytes) -> None:
    with pytest.raises(IntegrityError, match="is not a commit, or damaged; run `git fsck`"):
        parse_commit("0" * 40, data)


@pytest.mark.slow
def test_git_and_the_door_agree_about_every_odd_commit(seeded: Bench) -> None:
    base = seeded.git("rev-parse", "HEAD")
    ids = write_odd_history(seeded.git, seeded.write, "odd.py")
    with seeded.open() as repository:
        pushed = repository.unpushed(list(ids.values())[-1], base)
        assert [commit.id for commit in pushed.commits] == list(ids.values())
        assert pushed.bases == (base,)
        for name, commit in ids.items():
            assert repository.tree_of(commit) == seeded.git("rev-parse", f"{commit}^{{tree}}"), name
            assert repository.parents(commit) == seeded.git("rev-parse", f"{commit}^@").split(), (
                name
            )
        last = list(ids.values())[-1]
        rows = repository.blamed(last, "odd.py")
        assert [row.commit for row in rows] == list(ids.values())
        assert repository.blame(last, "odd.py", [3, 5]) == {3: rows[2].commit, 5: rows[4].commit}
        history = repository.history_of(last, "odd.py")
        assert [at.commit for at in history] == list(ids.values())[::-1]
        assert {at.path for at in history} == {"odd.py"}


@pytest.mark.parametrize("kind", ["commit", "tree", "blob", "tag"])
def test_a_tag_in_place_of_a_commit_is_followed_or_refused(seeded: Bench, kind: str) -> None:
    names = {"commit": "HEAD", "tree": "HEAD^{tree}", "blob": "HEAD:a.txt"}
    target = seeded.git("rev-parse", names.get(kind, "HEAD"))
    if kind == "tag":
        text = (
            f"object {target}\ntype commit\ntag inner\n\n"  # without a tagger, as git's oldest are
        )
        target = seeded.git(
            "hash-object", "-t", "tag", "-w", "--stdin", "--literally", stdin=text.encode()
        )
    text = f"object {target}\ntype {kind}\ntag t\ntagger <> -5 nowhere\n\nv1\n"
    tag = seeded.git(
        "hash-object", "-t", "tag", "-w", "--stdin", "--literally", stdin=text.encode()
    )
    seeded.git("update-ref", "refs/tags/t", tag)
    head = seeded.git("rev-parse", "HEAD")
    with seeded.open() as repository:
        if kind in ("commit", "tag"):
            assert repository.resolve("t") == head == repository.resolve(tag)
            assert repository.unpushed(tag, "").commits[0].id == head
        else:
            with pytest.raises(GateError, match="names no"):
                repository.resolve("t")
        if kind == "blob":
            with pytest.raises(GateError, match="is a blob, not a commit or tree"):
                repository.tree(tag)
        else:
            assert repository.tree(tag).id == seeded.git("rev-parse", "HEAD^{tree}")


def test_a_commit_whose_parent_is_a_tag_is_called_damaged(seeded: Bench) -> None:
    head, tree = seeded.git("rev-parse", "HEAD"), seeded.git("rev-parse", "HEAD^{tree}")
    tag = seeded.git(
        "mktag", stdin=f"object {head}\ntype commit\ntag t\ntagger a <a@b> 0 +0000\n\nx\n".encode()
    )
    text = f"tree {tree}\nparent {tag}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n"
    commit = seeded.git(
        "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=text.encode()
    )
    with seeded.open() as repository, pytest.raises(IntegrityError, match="git fsck"):
        repository.unpushed(commit, "")
