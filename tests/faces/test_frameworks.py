"""The ways to commit, with `install git`, under pre-commit and under prek: what was judged is what
was committed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pydantic
import pytest
from hooked import BIN, ROOT, WAYS_IN, Hooked, again, put_in, started

pytestmark = pytest.mark.slow

Way = Callable[[Hooked], Hooked | None]
WAYS: dict[str, Way] = {}
UNHOOKED: dict[str, str] = {"no-verify": "", "cherry-pick": "cherry-pick", "revert": "revert"}
"""Ways for which git runs no pre-commit hook -> what the record of the bypass says that git was
doing.
"""


STASHED = {
    "pre-commit": {
        "commit",
        "commit-patch",
        "only",
        "linked-worktree",
        "rebase-edit-and-amend",
        "another-index",
    },
    "prek": {"commit", "commit-patch"},
}
"""Ways in which a framework, which puts aside what is not staged, could show the gate another tree.
For the others it only calls the hook that `install git` calls as well.
"""


def way(function: Way) -> Way:
    WAYS[function.__name__.replace("_", "-")] = function
    return function


@pytest.fixture(params=WAYS_IN)
def here(
    request: pytest.FixtureRequest, kept: Path, tmp_path: Path, environ: dict[str, str]
) -> Hooked:
    if request.param != "install git" and not (BIN / request.param).exists():
        pytest.skip(f"{request.param} is not installed here (the extra `test` brings it)")
    made = kept / request.param
    return again(made, tmp_path / "repository", environ, lambda here: put_in(here, request.param))


@way
def commit(here):
    here.write(a="staged\n")
    here.git("add", "a")
    here.write(a="staged\nand then edited\n", b="only in the working tree\n", new="untracked\n")
    here.git("commit", "-m", "x")


@way
def commit_patch(here):
    lines = (here.path / "a").read_text().splitlines()
    here.write(a="\n".join(["first", *lines, "last"]) + "\n")
    here.git("commit", "-p", "-m", "x", stdin="y\nn\n")
    assert here.git("show", "HEAD:a").splitlines()[0] == "first"
    assert here.git("show", "HEAD:a").splitlines()[-1] != "last"


@way
def only(here):
    here.write(a="only this\n", b="staged, and left out\n")
    here.git("add", "b")
    here.git("commit", "--only", "a", "-m", "x")
    assert here.git("show", "HEAD:b") == "b"


@way
def amend(here):
    here.write(a="amended\n")
    here.git("add", "a")
    here.git("commit", "--amend", "--no-edit")


@way
def no_verify(here):
    here.write(a="unseen\n")
    here.git("commit", "-a", "--no-verify", "-m", "x")


@way
def linked_worktree(here):
    here.git("worktree", "add", "-q", "../linked", "-b", "topic")
    there = Hooked(here.path.parent / "linked", here.environ, here.more)
    there.write(a="in the linked worktree\n", b="unstaged\n")
    there.git("add", "a")
    there.git("commit", "-m", "x")
    return there


@way
def rebase_edit_and_amend(here):
    _three_commits(here)
    here.git("rebase", "-q", "-i", "HEAD~1", GIT_SEQUENCE_EDITOR="sed -i s/^pick/edit/")
    here.write(c="edited on the way\n")
    here.git("commit", "-a", "--amend", "--no-edit")
    here.git("rebase", "--continue")


@way
def rebase_reword(here):
    here.write(a="worded\n")
    here.git("commit", "-a", "-m", "x")
    before = here.judged()
    here.git(
        "rebase",
        "-q",
        "-i",
        "HEAD~1",
        GIT_SEQUENCE_EDITOR="sed -i s/^pick/reword/",
        GIT_EDITOR="sed -i 1s/x/y/",
    )
    assert here.git("log", "-1", "--format=%s") == "y"
    assert here.judged() == before


@way
def merge_without_conflict(here):
    _topic(here, c="topic\n")
    here.write(b="main\n")
    here.git("commit", "-a", "--no-verify", "-q", "-m", "main")
    here.git("merge", "--no-ff", "-q", "topic", "-m", "merge")


@way
def merge_with_conflict(here):
    _topic(here, b="topic\n")
    here.write(b="main\n")
    here.git("commit", "-a", "--no-verify", "-q", "-m", "main")
    assert here.run("git", "merge", "-q", "topic").code == 1
    here.write(b="both\n")
    here.git("commit", "-a", "-m", "merge")


@way
def cherry_pick(here):
    _topic(here, c="picked\n")
    _three_commits(here)
    here.git("cherry-pick", "topic")


@way
def revert(here):
    here.git("revert", "--no-edit", _three_commits(here))


@way
def another_index(here):
    other = str(here.path / ".git" / "other-index")
    shutil.copy(here.path / ".git" / "index", other)
    here.write(a="in the other index\n", b="in the usual index\n")
    here.git("add", "b")
    here.git("add", "a", GIT_INDEX_FILE=other)
    here.git("commit", "-m", "x", GIT_INDEX_FILE=other)
    assert here.git("show", "HEAD:a") == "in the other index"
    assert here.git("show", "HEAD:b") == "b"


def _topic(here: Hooked, **files: str) -> None:
    here.git("checkout", "-q", "-b", "topic")
    here.write(**files)
    here.git("commit", "-a", "--no-verify", "-q", "-m", "topic")
    here.git("checkout", "-q", "main")


def _three_commits(here: Hooked) -> str:
    for text in ("one\n", "two\n"):
        here.write(b=text)
        here.git("commit", "-a", "--no-verify", "-q", "-m", text.strip())
    first = here.git("rev-parse", "HEAD")
    here.write(a="three\n")
    here.git("commit", "-a", "--no-verify", "-q", "-m", "three")
    return first


@pytest.mark.parametrize(
    ("here", "name"),
    [(way_in, name) for way_in in WAYS_IN for name in WAYS if name in STASHED.get(way_in, WAYS)],
    indirect=["here"],
)
def test_what_was_judged_is_the_tree_that_was_committed(here, name):
    there = WAYS[name](here) or here
    tree, commit = there.tree(), there.git("rev-parse", "HEAD")
    there.run("vibe-gate", "verify", commit)  # records what the scripts only left marks of
    about = [record for record in there.records() if record.get("commit") == commit]
    told = {record["kind"] for record in there.records() if record["tree"] == tree}
    if name in UNHOOKED:
        assert there.judged() == set()
        assert [(record["kind"], record["tree"], record.get("during", "")) for record in about] == [
            ("bypassed", tree, UNHOOKED[name])
        ]
        return
    assert here.judged() == {tree}  # the store of the main working tree
    assert {(record["kind"], record["tree"]) for record in about} <= {
        ("reviewed", tree),
        ("rewritten", tree),
    }
    assert told <= {"reviewed", "rewritten"}
    assert "reviewed" in told


def test_a_commit_in_a_submodule_is_judged_there(tmp_path, environ):
    library = started(tmp_path / "library", environ)
    outer = started(tmp_path / "outer", environ)
    outer.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "library"
    )
    outer.git("commit", "-q", "-m", "library")
    inner = put_in(Hooked(outer.path / "library", outer.environ, outer.more), "install git")
    inner.write(a="in the submodule\n", b="unstaged\n")
    inner.git("add", "a")
    inner.git("commit", "-m", "x")
    assert inner.judged() == {inner.tree()}
    assert outer.judged() == set()


@pytest.mark.parametrize("tool", ["pre-commit", "prek"])
def test_the_manifest_is_valid(tool, environ):
    if not (BIN / tool).exists():
        pytest.skip(f"{tool} is not installed here")
    manifest = str(ROOT / ".pre-commit-hooks.yaml")
    done = Hooked(ROOT, environ).run(str(BIN / tool), "validate-manifest", manifest)
    assert done.code == 0, done.text


@pytest.mark.timeout(300)
def test_the_real_manifest_installs_and_runs(tmp_path, environ):
    """As `repo: <our address>` would: pre-commit builds and installs this tree. Only what it needs
    is lent to it.
    """
    if not (BIN / "pre-commit").exists():
        pytest.skip("pre-commit is not installed here")
    hatchling = pytest.importorskip(
        "hatchling", reason="building needs hatchling, which is not installed here"
    )
    source = tmp_path / "vibe-gate"
    shutil.copytree(
        ROOT / "vibe_gate", source / "vibe_gate", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in (
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        ".pre-commit-hooks.yaml",
    ):
        shutil.copy(ROOT / name, source / name)
    published = Hooked(source, environ)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "release"]):
        published.git(*command)
    here = started(tmp_path / "repository", environ)
    here.write(a="<<<<<<< ours\n")
    here.git("add", "a")
    offline = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PYTHONNOUSERSITE": "1",
    }
    lent = {
        "PYTHONPATH": os.pathsep.join(
            str(Path(module.__file__).parents[1]) for module in (pydantic, hatchling)
        )
    }
    folders = [
        folder
        for folder in os.environ["PATH"].split(os.pathsep)
        if not (Path(folder) / "vibe-gate").exists()
    ]
    without = {"PATH": os.pathsep.join(folders)}  # nothing of this installation
    done = here.run(
        str(BIN / "pre-commit"), "try-repo", str(source), "vibe-gate", **offline, **lent, **without
    )
    assert done.code == 1, done.text
    assert "✗ FAIL · safety: no-conflict-markers failed (must)" in done.text
    assert here.judged() == {here.git("write-tree")}
    program = re.search(r"not on your PATH; type this in its place: (\S+)", done.text)
    assert program is not None
    assert re.search(r"/py_env-[^/]+/bin/vibe-gate\Z", program[1])


@pytest.mark.parametrize("here", ["pre-commit"], indirect=True)
@pytest.mark.parametrize("claim", ["amend", "rebase"])
def test_a_variable_that_speaks_of_a_rewrite_makes_no_bypass_innocent(here, claim):
    here.write(a="past\n")
    said = here.git("commit", "-a", "--no-verify", "-m", "x", PRE_COMMIT_REWRITE_COMMAND=claim)
    assert "went past the hooks" in said
    assert [record["kind"] for record in here.records()] == ["bypassed"]


@pytest.mark.parametrize("here", WAYS_IN[:2], indirect=True)
def test_a_rebase_that_applies_patches_by_itself_is_no_bypass_by_hand(here):
    here.git("checkout", "-q", "-b", "topic")
    here.write(a="mine\n" + "".join(f"line {n}\n" for n in range(1, 30)))
    here.git("commit", "-q", "-a", "-m", "mine")
    here.git("checkout", "-q", "-")
    here.write(a="".join(f"line {n}\n" for n in range(29)) + "theirs\n")
    here.git("commit", "-q", "-a", "-m", "theirs")
    here.git("checkout", "-q", "topic")
    assert "not what git makes" not in here.git("rebase", "--apply", "@{-1}")
    assert [
        record
        for record in here.records()
        if record["kind"] == "bypassed" and "during" not in record
    ] == []


@pytest.mark.parametrize("here", [way for way in WAYS_IN if way != "install git"], indirect=True)
def test_after_a_persons_change_no_python_is_started_again(here):
    config = here.path / ".pre-commit-config.yaml"
    config.write_text(
        re.sub(
            r"exec vibe-gate hook (commit-msg|post-commit)",
            r"echo \1 started; exit 1",
            config.read_text(),
        )
    )
    here.git("add", "-A")
    here.write(a="x\n")
    assert "started" not in here.git("commit", "-a", "-m", "x")
    assert [record["tree"] for record in here.records()][-1] == here.tree()
    here.write(a="y\n")
    done = here.run("git", "commit", "-a", "-m", "y\n\nAssisted-by: an agent")
    assert (done.code, "commit-msg started" in done.text) == (1, True)
    here.git("commit", "-a", "-m", "y")
    for environ, is_started in (
        ({}, False),
        ({"AIDER_MODEL": "x"}, True),
    ):  # an agent commits what a person had checked
        here.git("reset", "-q", "--soft", "HEAD~1")
        assert ("started" in here.git("commit", "-m", "y", "--no-verify", **environ)) == is_started
    here.write(a="z\n")
    assert "post-commit started" in here.git("commit", "-a", "-m", "z", "--no-verify")


def name_later_starts(here: Hooked, hooks: str) -> None:
    """Have the manifest's entries say that they would start Python at these hooks, and fail."""
    config = here.path / ".pre-commit-config.yaml"
    entries = re.sub(
        rf"exec vibe-gate hook ({hooks})", r"echo \1 started; exit 1", config.read_text()
    )
    config.write_text(entries)
    here.git("commit", "-q", "--no-verify", "-a", "-m", "entries")


@pytest.mark.parametrize("here", WAYS_IN, indirect=True)
def test_an_agents_commit_starts_python_once_and_is_recorded_as_an_agents(here):
    put_in(here, "install git")  # beside a framework the reference-transaction hook alone
    if (here.path / ".pre-commit-config.yaml").exists():
        name_later_starts(here, "commit-msg|post-commit")
    for name in ("commit-msg", "post-commit", "reference-transaction"):
        hook = here.path / ".git" / "hooks" / name
        if "-m vibe_gate hook" in hook.read_text():
            hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    here.write(a="an agent's\n")
    here.git("add", "a")
    text = here.git("commit", "-m", "x\n\nAssisted-by: an agent", CLAUDECODE="1")
    assert not re.search("started|not checked|not at /gone", text)
    [record] = [record for record in here.records() if record["tree"] == here.tree()]
    assert (record["kind"], "CLAUDECODE" in str(record["hints"])) == ("reviewed", True)
    here.git("commit", "--amend", "-m", "a person's", "--no-verify")
    done = here.run("vibe-gate", "verify", "--json", "HEAD~1..HEAD")
    assert "CLAUDECODE" in done.text


@pytest.mark.parametrize("here", ["pre-commit", "prek"], indirect=True)
def test_what_git_makes_by_itself_starts_no_python_under_a_framework_and_is_recorded_later(here):
    name_later_starts(here, "commit-msg|post-commit|post-rewrite")
    _topic(here, c="topic\n")
    here.write(b="main\n")
    here.git("commit", "-a", "--no-verify", "-q", "-m", "main")
    picked = here.git("cherry-pick", "topic", CLAUDECODE="1")
    rebased = here.git("rebase", "main~1", "topic", GIT_COMMITTER_DATE="2031-01-01T00:00:00Z")
    assert "started" not in picked + rebased
    here.run("vibe-gate", "verify", "main~1..main")
    later = [record for record in here.records() if record.get("during")]
    kinds = [(record["kind"], record["during"]) for record in later]
    expected = [("bypassed", "cherry-pick"), ("bypassed", "rebase"), ("rewritten", "rebase")]
    assert sorted(kinds) == expected
    [picked_record] = [record for record in later if record["during"] == "cherry-pick"]
    assert "CLAUDECODE" in str(picked_record["hints"])


@pytest.mark.parametrize("here", ["prek"], indirect=True)
def test_a_tree_that_a_later_review_stopped_is_not_answered_for_any_more(here):
    here.write(a="x\n")
    here.git("add", "a")
    here.git("commit", "-m", "x")
    here.git("reset", "-q", "--soft", "HEAD~1")
    passed = here.path / ".git" / "vibe-gate" / "passed"
    assert here.git("write-tree") in passed.read_text()
    here.write(a="<<<<<<< a\n=======\n>>>>>>> b\n")
    here.git("add", "a")
    assert here.run("vibe-gate", "hook", "pre-commit").code == 1
    assert not passed.exists()
