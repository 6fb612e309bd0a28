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
from hooked import BIN, ROOT, WAYS_IN, Hooked, copy_template, install_gate, start_repository

pytestmark = pytest.mark.slow

Way = Callable[[Hooked], Hooked | None]
WAYS: dict[str, Way] = {}
UNHOOKED: dict[str, str] = {"no-verify": "", "cherry-pick": "cherry-pick", "revert": "revert"}
"""Ways for which git runs no pre-commit hook -> what the record of the bypass says that git was
doing.
"""


STASHED = {
    "pre-commit": {"commit", "only", "linked-worktree"},
    "prek": {"commit", "commit-patch"},
}
"""Ways in which a framework, which puts aside what is not staged, could show the gate another tree.
For the others it only calls the hook that `install git` calls as well.
"""


def register_way(function: Way) -> Way:
    WAYS[function.__name__.replace("_", "-")] = function
    return function


@pytest.fixture(params=WAYS_IN)
def repository(
    request: pytest.FixtureRequest, templates: Path, tmp_path: Path, environ: dict[str, str]
) -> Hooked:
    if request.param != "install git" and not (BIN / request.param).exists():
        pytest.skip(f"{request.param} is not installed here (the extra `test` brings it)")
    template = templates / request.param
    return copy_template(
        template,
        tmp_path / "repository",
        environ,
        lambda repository: install_gate(repository, request.param),
    )


@register_way
def commit(repository):
    repository.write(a="staged\n")
    repository.git("add", "a")
    repository.write(
        a="staged\nand then edited\n", b="only in the working tree\n", new="untracked\n"
    )
    repository.git("commit", "-m", "x")


@register_way
def commit_patch(repository):
    lines = (repository.path / "a").read_text().splitlines()
    repository.write(a="\n".join(["first", *lines, "last"]) + "\n")
    repository.git("commit", "-p", "-m", "x", stdin="y\nn\n")
    assert repository.git("show", "HEAD:a").splitlines()[0] == "first"
    assert repository.git("show", "HEAD:a").splitlines()[-1] != "last"


@register_way
def only(repository):
    repository.write(a="only this\n", b="staged, and left out\n")
    repository.git("add", "b")
    repository.git("commit", "--only", "a", "-m", "x")
    assert repository.git("show", "HEAD:b") == "b"


@register_way
def amend(repository):
    repository.write(a="amended\n")
    repository.git("add", "a")
    repository.git("commit", "--amend", "--no-edit")


@register_way
def no_verify(repository):
    repository.write(a="unseen\n")
    repository.git("commit", "-a", "--no-verify", "-m", "x")


@register_way
def linked_worktree(repository):
    repository.git("worktree", "add", "-q", "../linked", "-b", "topic")
    linked = Hooked(repository.path.parent / "linked", repository.environ, repository.more)
    linked.write(a="in the linked worktree\n", b="unstaged\n")
    linked.git("add", "a")
    linked.git("commit", "-m", "x")
    return linked


@register_way
def rebase_edit_and_amend(repository):
    _three_commits(repository)
    repository.git("rebase", "-q", "-i", "HEAD~1", GIT_SEQUENCE_EDITOR="sed -i s/^pick/edit/")
    repository.write(c="edited on the way\n")
    repository.git("commit", "-a", "--amend", "--no-edit")
    repository.git("rebase", "--continue")


@register_way
def rebase_reword(repository):
    repository.write(a="worded\n")
    repository.git("commit", "-a", "-m", "x")
    before = repository.judged_trees()
    repository.git(
        "rebase",
        "-q",
        "-i",
        "HEAD~1",
        GIT_SEQUENCE_EDITOR="sed -i s/^pick/reword/",
        GIT_EDITOR="sed -i 1s/x/y/",
    )
    assert repository.git("log", "-1", "--format=%s") == "y"
    assert repository.judged_trees() == before


@register_way
def merge_without_conflict(repository):
    _topic(repository, c="topic\n")
    repository.write(b="main\n")
    repository.git("commit", "-a", "--no-verify", "-q", "-m", "main")
    repository.git("merge", "--no-ff", "-q", "topic", "-m", "merge")


@register_way
def merge_with_conflict(repository):
    _topic(repository, b="topic\n")
    repository.write(b="main\n")
    repository.git("commit", "-a", "--no-verify", "-q", "-m", "main")
    assert repository.run("git", "merge", "-q", "topic").code == 1
    repository.write(b="both\n")
    repository.git("commit", "-a", "-m", "merge")


@register_way
def cherry_pick(repository):
    _topic(repository, c="picked\n")
    _three_commits(repository)
    repository.git("cherry-pick", "topic")


@register_way
def revert(repository):
    repository.git("revert", "--no-edit", _three_commits(repository))


@register_way
def another_index(repository):
    other = str(repository.path / ".git" / "other-index")
    shutil.copy(repository.path / ".git" / "index", other)
    repository.write(a="in the other index\n", b="in the usual index\n")
    repository.git("add", "b")
    repository.git("add", "a", GIT_INDEX_FILE=other)
    repository.git("commit", "-m", "x", GIT_INDEX_FILE=other)
    assert repository.git("show", "HEAD:a") == "in the other index"
    assert repository.git("show", "HEAD:b") == "b"


def _topic(repository: Hooked, **files: str) -> None:
    repository.git("checkout", "-q", "-b", "topic")
    repository.write(**files)
    repository.git("commit", "-a", "--no-verify", "-q", "-m", "topic")
    repository.git("checkout", "-q", "main")


def _three_commits(repository: Hooked) -> str:
    for text in ("one\n", "two\n"):
        repository.write(b=text)
        repository.git("commit", "-a", "--no-verify", "-q", "-m", text.strip())
    first = repository.git("rev-parse", "HEAD")
    repository.write(a="three\n")
    repository.git("commit", "-a", "--no-verify", "-q", "-m", "three")
    return first


@pytest.mark.parametrize(
    ("repository", "name"),
    [(way_in, name) for way_in in WAYS_IN for name in WAYS if name in STASHED.get(way_in, WAYS)],
    indirect=["repository"],
)
def test_what_was_judged_is_the_tree_that_was_committed(repository, name):
    worktree = WAYS[name](repository) or repository
    tree, commit = worktree.tree(), worktree.git("rev-parse", "HEAD")
    worktree.run("vibe-gate", "verify", commit)  # records what the scripts only left marks of
    commit_records = [record for record in worktree.records() if record.get("commit") == commit]
    tree_kinds = {record["kind"] for record in worktree.records() if record["tree"] == tree}
    if name in UNHOOKED:
        assert worktree.judged_trees() == set()
        assert [
            (record["kind"], record["tree"], record.get("during", "")) for record in commit_records
        ] == [("bypassed", tree, UNHOOKED[name])]
        return
    assert repository.judged_trees() == {tree}  # the store of the main working tree
    assert {(record["kind"], record["tree"]) for record in commit_records} <= {
        ("reviewed", tree),
        ("rewritten", tree),
    }
    assert tree_kinds <= {"reviewed", "rewritten"}
    assert "reviewed" in tree_kinds


def test_a_commit_in_a_submodule_is_judged_there(tmp_path, environ):
    library = start_repository(tmp_path / "library", environ)
    outer = start_repository(tmp_path / "outer", environ)
    outer.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "library"
    )
    outer.git("commit", "-q", "-m", "library")
    inner = install_gate(Hooked(outer.path / "library", outer.environ, outer.more), "install git")
    inner.write(a="in the submodule\n", b="unstaged\n")
    inner.git("add", "a")
    inner.git("commit", "-m", "x")
    assert inner.judged_trees() == {inner.tree()}
    assert outer.judged_trees() == set()


@pytest.mark.parametrize("tool", ["pre-commit", "prek"])
def test_the_manifest_is_valid(tool, environ):
    if not (BIN / tool).exists():
        pytest.skip(f"{tool} is not installed here")
    manifest = str(ROOT / ".pre-commit-hooks.yaml")
    result = Hooked(ROOT, environ).run(str(BIN / tool), "validate-manifest", manifest)
    assert result.code == 0, result.text


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
    repository = start_repository(tmp_path / "repository", environ)
    repository.write(a="<<<<<<< ours\n")
    repository.git("add", "a")
    offline = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_COMPILE": "1",
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
    result = repository.run(
        str(BIN / "pre-commit"), "try-repo", str(source), "vibe-gate", **offline, **lent, **without
    )
    assert result.code == 1, result.text
    assert "✗ FAIL · safety: no-conflict-markers failed (must)" in result.text
    assert repository.judged_trees() == {repository.git("write-tree")}
    program = re.search(r"not on your PATH; type this in its place: (\S+)", result.text)
    assert program is not None
    assert re.search(r"/py_env-[^/]+/bin/vibe-gate\Z", program[1])


@pytest.mark.parametrize("repository", ["pre-commit"], indirect=True)
@pytest.mark.parametrize("claim", ["amend", "rebase"])
def test_a_variable_that_speaks_of_a_rewrite_makes_no_bypass_innocent(repository, claim):
    repository.write(a="past\n")
    output = repository.git(
        "commit", "-a", "--no-verify", "-m", "x", PRE_COMMIT_REWRITE_COMMAND=claim
    )
    assert "went past the hooks" in output
    assert [record["kind"] for record in repository.records()] == ["bypassed"]


@pytest.mark.parametrize("repository", ["install git", "prek"], indirect=True)
def test_a_rebase_that_applies_patches_by_itself_is_no_bypass_by_hand(repository):
    repository.git("checkout", "-q", "-b", "topic")
    repository.write(a="mine\n" + "".join(f"line {n}\n" for n in range(1, 30)))
    repository.git("commit", "-q", "-a", "-m", "mine")
    repository.git("checkout", "-q", "-")
    repository.write(a="".join(f"line {n}\n" for n in range(29)) + "theirs\n")
    repository.git("commit", "-q", "-a", "-m", "theirs")
    repository.git("checkout", "-q", "topic")
    assert "not what git makes" not in repository.git("rebase", "--apply", "@{-1}")
    assert [
        record
        for record in repository.records()
        if record["kind"] == "bypassed" and "during" not in record
    ] == []


@pytest.mark.parametrize("repository", ["prek"], indirect=True)
def test_after_a_persons_change_no_python_is_started_again(repository):
    config = repository.path / ".pre-commit-config.yaml"
    config.write_text(
        re.sub(
            r"exec vibe-gate hook (commit-msg|post-commit)",
            r"echo \1 started; exit 1",
            config.read_text(),
        )
    )
    repository.git("add", "-A")
    repository.write(a="x\n")
    assert "started" not in repository.git("commit", "-a", "-m", "x")
    assert [record["tree"] for record in repository.records()][-1] == repository.tree()
    repository.write(a="y\n")
    result = repository.run("git", "commit", "-a", "-m", "y\n\nAssisted-by: an agent")
    assert (result.code, "commit-msg started" in result.text) == (1, True)
    repository.git("commit", "-a", "-m", "y")
    for environ, is_started in (
        ({}, False),
        ({"AIDER_MODEL": "x"}, True),
    ):  # an agent commits what a person had checked
        repository.git("reset", "-q", "--soft", "HEAD~1")
        assert (
            "started" in repository.git("commit", "-m", "y", "--no-verify", **environ)
        ) == is_started
    repository.write(a="z\n")
    assert "post-commit started" in repository.git("commit", "-a", "-m", "z", "--no-verify")


def name_later_starts(repository: Hooked, hooks: str) -> None:
    """Have the manifest's entries say that they would start Python at these hooks, and fail."""
    config = repository.path / ".pre-commit-config.yaml"
    entries = re.sub(
        rf"exec vibe-gate hook ({hooks})", r"echo \1 started; exit 1", config.read_text()
    )
    config.write_text(entries)
    repository.git("commit", "-q", "--no-verify", "-a", "-m", "entries")


@pytest.mark.parametrize("repository", WAYS_IN, indirect=True)
def test_an_agents_commit_starts_python_once_and_is_recorded_as_an_agents(repository):
    # Beside a framework, the reference-transaction hook alone.
    install_gate(repository, "install git")
    if (repository.path / ".pre-commit-config.yaml").exists():
        name_later_starts(repository, "commit-msg|post-commit")
    for name in ("commit-msg", "post-commit", "reference-transaction"):
        hook = repository.path / ".git" / "hooks" / name
        if "-m vibe_gate hook" in hook.read_text():
            hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    repository.write(a="an agent's\n")
    repository.git("add", "a")
    text = repository.git("commit", "-m", "x\n\nAssisted-by: an agent", CLAUDECODE="1")
    assert not re.search("started|not checked|not at /gone", text)
    [record] = [record for record in repository.records() if record["tree"] == repository.tree()]
    assert (record["kind"], "CLAUDECODE" in str(record["hints"])) == ("reviewed", True)
    repository.git("commit", "--amend", "-m", "a person's", "--no-verify")
    result = repository.run("vibe-gate", "verify", "--json", "HEAD~1..HEAD")
    assert "CLAUDECODE" in result.text


@pytest.mark.parametrize("repository", ["prek"], indirect=True)
def test_what_git_makes_by_itself_starts_no_python_under_a_framework_and_is_recorded_later(
    repository,
):
    name_later_starts(repository, "commit-msg|post-commit|post-rewrite")
    _topic(repository, c="topic\n")
    repository.write(b="main\n")
    repository.git("commit", "-a", "--no-verify", "-q", "-m", "main")
    picked = repository.git("cherry-pick", "topic", CLAUDECODE="1")
    rebased = repository.git("rebase", "main~1", "topic", GIT_COMMITTER_DATE="2031-01-01T00:00:00Z")
    assert "started" not in picked + rebased
    repository.run("vibe-gate", "verify", "main~1..main")
    later = [record for record in repository.records() if record.get("during")]
    kinds = [(record["kind"], record["during"]) for record in later]
    expected = [("bypassed", "cherry-pick"), ("bypassed", "rebase"), ("rewritten", "rebase")]
    assert sorted(kinds) == expected
    [picked_record] = [record for record in later if record["during"] == "cherry-pick"]
    assert "CLAUDECODE" in str(picked_record["hints"])


@pytest.mark.parametrize("repository", ["prek"], indirect=True)
def test_a_tree_that_a_later_review_stopped_is_not_answered_for_any_more(repository):
    repository.write(a="x\n")
    repository.git("add", "a")
    repository.git("commit", "-m", "x")
    repository.git("reset", "-q", "--soft", "HEAD~1")
    passed = repository.path / ".git" / "vibe-gate" / "passed"
    assert repository.git("write-tree") in passed.read_text()
    repository.write(a="<<<<<<< a\n=======\n>>>>>>> b\n")
    repository.git("add", "a")
    assert repository.run("vibe-gate", "hook", "pre-commit").code == 1
    assert not passed.exists()
