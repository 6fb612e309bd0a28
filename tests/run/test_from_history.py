"""Commits that are worth a label, found in the history of a real repository, and labelled at a
terminal.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from command import on_a_terminal, vibe_gate
from repos import GATE, RUBRIC, Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.run.label_proposals import propose_labels

DAY = 86_400
CODE = {
    name: "".join(f"{name}_{line} = {line}\n" for line in range(8))
    for name in ("old", "cut", "size", "seek", "stop")
}


def import_commits(repo: Repo, *commits: tuple[str, float, str, str]) -> list[str]:
    """Commits by message, day, and the path and text that each writes; their ids. One process makes
    all of them.
    """
    stream = (
        ["reset refs/heads/main\nfrom refs/heads/main^0\n"]
        if repo.git("branch", "--list", "main")
        else []
    )
    for message, day, path, text in commits:
        stream.append(
            f"commit refs/heads/main\ncommitter A <a@b.example> {round(1e9 + day * DAY)} +0000\n"
        )
        stream.append(f"data {len(message.encode())}\n{message}\n")
        stream.append(f"M 644 inline {path}\ndata {len(text.encode())}\n{text}\n")
    repo.git("fast-import", "--quiet", stdin="".join(stream).encode())
    return repo.git("rev-list", "--reverse", f"-{len(commits)}", "main").split()


@pytest.fixture
def history(tmp_path: Path, environ: dict[str, str]) -> tuple[Repo, dict[str, str]]:
    """A repository, and its commits by title: modules, of which later commits revert, name or
    repair some.
    """
    repo = Repo(tmp_path / "repo", environ)
    repo.git("symbolic-ref", "HEAD", "refs/heads/main")
    first = [
        ("Gate", 0, ".vibe-gate/gate.toml", GATE),
        ("Rubric", 0, ".vibe-gate/rubrics/quality.toml", RUBRIC),
    ]
    code_commits = [
        (name, day, f"src/{name}.py", CODE[name])
        for name, day in zip(CODE, (1, 500, 510, 520, 530), strict=True)
    ]
    ids = dict(
        zip(("Gate", "Rubric", *CODE), import_commits(repo, *first, *code_commits), strict=True)
    )
    later = [
        (f'Revert "cut"\n\nThis reverts commit {ids["cut"]}.', 531, "src/cut.py", ""),
        (f"Measure again\n\nFixes: {ids['size'][:10]}", 540, "src/size.py", "size = 1\n"),
        ("Fix the offset", 550, "src/seek.py", CODE["seek"].replace("seek_3 = 3", "seek_3 = 4")),
        ("Fix the end", 700, "src/stop.py", CODE["stop"].replace("stop_3 = 3", "stop_3 = 4")),
        ("Fix a typo", 710, "src/old.py", CODE["old"] + "# The end\n"),
    ]
    titles = [message.partition("\n")[0] for message, *_ in later]
    ids |= dict(zip(titles, import_commits(repo, *later), strict=True))
    repo.git("reset", "-q", "--hard", "main")
    return repo, ids


def test_reverted_named_and_soon_repaired_commits_are_suspects_and_long_lived_ones_clean(
    history: tuple[Repo, dict[str, str]],
) -> None:
    repo, ids = history
    with open_repository(repo.path, read_environment(repo.environ)) as opened:
        proposals = propose_labels(opened, ids["Gate"], ids["Fix a typo"], lambda text: None)
    offset, size, revert = (
        ids[title] for title in ("Fix the offset", "Measure again", 'Revert "cut"')
    )
    assert [
        (proposal.kind, proposal.commit, proposal.by, proposal.reason) for proposal in proposals
    ] == [
        (
            "suspect",
            ids["seek"],
            offset,
            f'1 line replaced 30 days later by {offset[:12]} "Fix the offset"',
        ),
        ("suspect", ids["size"], size, f'named by the fix {size[:12]} "Measure again"'),
        ("suspect", ids["cut"], revert, f'reverted by {revert[:12]} "Revert "cut""'),
        ("clean", ids["old"], "", "100% of its 8 lines stand after 1.9 years"),
    ]


@pytest.mark.slow  # processes at a terminal
def test_a_person_labels_each_on_one_screen_and_goes_on_where_they_stopped(
    history: tuple[Repo, dict[str, str]],
) -> None:
    repo, ids = history
    listed = vibe_gate(
        "calibrate",
        "--from-history",
        f"{ids['Gate']}..",
        "--json",
        cwd=repo.path,
        environ=repo.environ,
    )
    assert [proposal["title"] for proposal in listed.json["proposals"]] == [
        "seek",
        "size",
        "cut",
        "old",
    ]
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        repo.git("config", name, value)
    argv = (
        "calibrate",
        "quality",
        "--criterion",
        "errors-not-swallowed",
        "--from-history",
        f"{ids['Gate']}..",
    )
    code, text = on_a_terminal(repo.path, repo.environ, *argv, typed=b"y\nx\ns\nq\n")
    assert (
        code,
        "1 labelled fail, 0 labelled pass, 1 skipped, 2 left: the same command goes on." in text,
    ) == (0, True)
    assert "── 1 of 4 · suspect" in text
    assert "errors-not-swallowed: Does every new handler" in text
    assert "+seek_3 = 3" in text
    code, text = on_a_terminal(repo.path, repo.environ, *argv, typed=b"n\nn\n")
    assert (code, "0 labelled fail, 2 labelled pass, 0 skipped, 0 left." in text) == (0, True)
    assert "── 1 of 2 · suspect" in text
    case = repo.path / f".vibe-gate/cases/errors-not-swallowed-{ids['seek'][:8]}/case.toml"
    assert tomllib.loads(case.read_text()) == {
        "schema": 1, "rubric": "quality", "base": repo.git("rev-parse", f"{ids['seek']}~1"),
        "head": ids["seek"], "expect": {"errors-not-swallowed": "fail"},
    }  # fmt: skip
    assert "# labelled by Ada <ada@example.org>\n" in case.read_text()
    unclear = vibe_gate(*argv[:2], *argv[4:], "--json", cwd=repo.path, environ=repo.environ)
    assert [proposal["cases"] for proposal in unclear.json["proposals"]] == [
        [case.parent.name],
        [],
        *[[f"errors-not-swallowed-{ids[name][:8]}"] for name in ("cut", "old")],
    ]
    tested = vibe_gate("test", cwd=repo.path, environ=repo.environ)
    assert tested.out.endswith("3 cases: 3 no cassette\n")
    code, text = on_a_terminal(repo.path, repo.environ, "calibrate", *argv[4:], typed=b"\n")
    assert (code, "several questions could be meant" in " ".join(text.split())) == (2, True)
