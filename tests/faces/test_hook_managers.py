"""vibe-gate beside programs that manage git hooks: found, installed, not gone around, and away
again.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import vibe_gate
from hook_managers import MANAGERS, Manager, run_manager
from hooked import Hooked, ProgramResult, start_repository

from vibe_gate.faces.git_hook.frameworks import REVIEWING, find_hooks

CONFLICT = "<<<<<<< a\n=======\n>>>>>>> b\n"

OFF = {
    "HUSKY": "0",
    "LEFTHOOK": "0",
    "SKIP_SIMPLE_GIT_HOOKS": "1",
    "SKIP": "vibe-gate,vibe-gate-msg",
}
"""Variables by which each of the programs leaves its hooks out."""


@pytest.fixture(params=MANAGERS, ids=[manager.name for manager in MANAGERS])
def manager(request: pytest.FixtureRequest) -> Manager:
    chosen: Manager = request.param
    return chosen


@pytest.fixture
def repository(tmp_path: Path, environ: dict[str, str]) -> Hooked:
    return start_repository(tmp_path / "repository", environ)


def gate(repository: Hooked, *argv: str) -> ProgramResult:
    result = vibe_gate(*argv, cwd=repository.path, environ=repository.environ | repository.more)
    return ProgramResult(result.code, result.out + result.err)


def doctor(repository: Hooked) -> tuple[str, str]:
    """State and sentence of the point about hooks."""
    document = vibe_gate("doctor", "--json", cwd=repository.path, environ=repository.environ).json
    (point,) = [point for point in document["points"] if point["name"] == "hooks"]
    return point["state"], point["what"]


def hooks_folder(repository: Hooked) -> Path:
    return repository.path / repository.git("rev-parse", "--git-path", "hooks")


def set_up(repository: Hooked, manager: Manager) -> str:
    """A repository whose program runs vibe-gate, by what `install git` printed; that text."""
    manager.begin(repository)
    repository.git("add", "-A")
    installation = gate(repository, "install", "git")
    assert installation.code == 2
    assert (
        f"{manager.name} manages the hooks here, and does not run vibe-gate at pre-commit"
        in installation.text
    )
    manager.obey(repository, installation.text)
    repository.git("add", "-A")
    repository.git("commit", "-q", "--no-verify", "-m", "hooks")
    return installation.text


def assert_people_commit_unreviewed(repository: Hooked, remote: Path) -> None:
    """People without the program, in a clone in which nobody installed anything, commit and push,
    and read that nothing was reviewed.
    """
    folders = repository.environ["PATH"].split(os.pathsep)
    path = os.pathsep.join(
        folder for folder in folders if not (Path(folder) / "vibe-gate").exists()
    )
    repository.write(b=CONFLICT)
    repository.git("add", "-A")
    commit = repository.run("git", "commit", "-m", "mine", PATH=path)
    repository.git("init", "-q", "--bare", str(remote))
    push = repository.run("git", "push", str(remote), "HEAD:main", PATH=path)
    assert (commit.code, push.code) == (0, 0), commit.text + push.text
    assert "vibe-gate is not installed: this commit is not reviewed" in commit.text


def assert_claude_is_held(repository: Hooked) -> None:
    """`install claude` refuses an agent a way around hooks that are managed."""
    installation = gate(repository, "install", "claude")
    assert installation.code == 0
    assert "No gate at commits yet" not in installation.text
    assert "reference-transaction" in installation.text
    repository.write(b="an agent's without hooks\n")
    commit = repository.run("git", "commit", "-a", "-n", "-m", "x", CLAUDECODE="1")
    assert "was not moved" in commit.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "manager",
    [manager for manager in MANAGERS if manager.name != "pre-commit"],  # prek takes its settings
    ids=lambda manager: manager.name,
    indirect=True,
)
def test_installed_as_told_it_reviews_refuses_and_leaves(repository, manager, tmp_path):
    set_up(repository, manager)
    everywhere = f"vibe-gate runs at each of them; {manager.name} manages them"
    assert doctor(repository) == ("ok", everywhere)
    second = gate(repository, "install", "git")
    assert (second.code, "manages the hooks. vibe-gate runs at pre-commit, " in second.text) == (
        0,
        True,
    )

    repository.write(a="good\n")
    repository.git("commit", "-a", "-m", "good")
    assert repository.records()[-1]["tree"] == repository.tree()
    assert {record["kind"] for record in repository.records()[-1:]} == {"reviewed"}

    repository.write(b=CONFLICT)
    bad = repository.run("git", "commit", "-a", "-m", "bad")
    assert (bad.code, "no-conflict-markers failed" in bad.text) == (1, True)

    repository.write(b="an agent's\n")
    for words, variables in ((["--no-verify"], {}), ([], OFF)):
        commit = repository.run(
            "git", "commit", "-a", "-m", "x", *words, CLAUDECODE="1", **variables
        )
        assert (commit.code, "was not moved: no hook let these commits through" in commit.text) == (
            128,
            True,
        )

    run_manager(repository, *manager.reinstall)
    assert doctor(repository) == ("ok", everywhere)

    settings = (repository.path / manager.settings).read_bytes()
    removal = gate(repository, "uninstall", "git")
    assert removal.code == 0, removal.text
    assert "Removed from" in removal.text
    assert f"{manager.name} still runs vibe-gate: remove its lines from " in removal.text
    assert (repository.path / manager.settings).read_bytes() == settings
    assert not (hooks_folder(repository) / "reference-transaction").exists()
    state, sentence = doctor(repository)
    assert (state, sentence.endswith("; not at reference-transaction")) == ("warning", True)

    if manager.is_plain:
        assert_people_commit_unreviewed(repository, tmp_path / "remote")
    assert_claude_is_held(repository)


@pytest.mark.slow
def test_a_program_that_comes_after_install_git_is_told_of_and_nothing_of_ours_is_left_behind(
    repository, manager
):
    before = repository.path / ".git" / "hooks" / "pre-commit"
    before.write_text("#!/bin/sh\necho my own\n")
    before.chmod(0o755)
    assert gate(repository, "install", "git").code == 0
    manager.begin(repository)
    _, sentence = doctor(repository)
    assert manager.name in sentence
    # pre-commit and prek run the hook that was there before; the others put theirs in its place.
    runs_first = manager.name in ("pre-commit", "prek")
    assert (
        "not at pre-commit" in sentence or "does not run vibe-gate" in sentence
    ) is not runs_first
    removal = gate(repository, "uninstall", "git")
    assert removal.code == 0, removal.text
    for folder in {hooks_folder(repository), repository.path / ".git" / "hooks"}:
        texts = {file.name: file.read_text() for file in folder.iterdir() if file.is_file()}
        assert [
            name for name, text in texts.items() if "written by `vibe-gate install git`" in text
        ] == []
        own_hooks = [name for name, text in texts.items() if "echo my own" in text]
        if own_hooks:
            assert own_hooks[0] in removal.text or "Your hook pre-commit is back." in removal.text


@pytest.mark.slow
def test_husky_of_a_package_in_a_folder_of_a_monorepo(repository):
    (repository.path / "web").mkdir()
    run_manager(repository, "husky", "web/.husky")
    assert repository.git("config", "core.hooksPath") == "web/.husky/_"
    installation = gate(repository, "install", "git")
    assert ">>web/.husky/$hook" in installation.text
    loop = installation.text.partition("commit web/.husky:\n")[2]
    assert repository.run("sh", "-c", loop).code == 0
    assert doctor(repository)[0] == "ok"
    repository.write(b=CONFLICT)
    assert repository.run("git", "commit", "-a", "-m", "bad").code == 1


@pytest.mark.slow
def test_simple_git_hooks_that_would_delete_the_hook_of_ours_is_told_of(repository):
    repository.write(
        package__json='{"simple-git-hooks": {"pre-commit": "vibe-gate hook pre-commit"}}'
    )
    run_manager(repository, "simple-git-hooks")
    assert (
        "simple-git-hooks deletes reference-transaction"
        in gate(repository, "install", "claude").text
    )
    run_manager(repository, "simple-git-hooks")
    assert "reference-transaction" in doctor(repository)[1]


HUSKY = '#!/usr/bin/env sh\n. "$(dirname "$0")/h"'
OLD_HUSKY = '#!/usr/bin/env sh\n. "${0%/*}/h"'
LEFTHOOK = (
    '#!/bin/sh\n\ncall_lefthook()\n{\n  lefthook "$@"\n}\n\ncall_lefthook run "pre-push" "$@"\n'
)
SIMPLE = '#!/bin/sh\nif [ "$SKIP_SIMPLE_GIT_HOOKS" = "1" ]; then\n    exit 0\nfi\n'
OLD_SIMPLE = '#!/bin/sh\n\nif [ "$SKIP_SIMPLE_GIT_HOOKS" = "1" ]; then\n    exit 0\nfi\n'
PRE_COMMIT = "#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\nARGS=(hook-impl {})\n"
PREK = "#!/bin/sh\n# File generated by prek: https://github.com/j178/prek\n"
LINE = 'vibe-gate hook pre-push -- "$@"\n'

CASES = [
    ("husky", HUSKY, {".husky/pre-push": f"npm test\n{LINE}"}, True),
    ("husky", OLD_HUSKY, {".husky/pre-push": f"npx {LINE}"}, True),
    ("husky", HUSKY, {".husky/pre-push": "uv run python -m vibe_gate hook pre-push\n"}, True),
    ("husky", HUSKY, {".husky/pre-push": f"# {LINE}npm test\n"}, False),
    ("husky", HUSKY, {}, False),
    ("lefthook", LEFTHOOK, {"lefthook.yml": f"pre-push:\n  jobs:\n    - run: {LINE}"}, True),
    (
        "lefthook",
        LEFTHOOK,
        {".config/lefthook.toml": f"[pre-push.commands.g]\nrun = '{LINE.strip()}'"},
        True,
    ),
    (
        "lefthook",
        LEFTHOOK,
        {"lefthook.yml": "pre-commit: {commands: {g: {run: vibe-gate hook pre-commit}}}"},
        False,
    ),
    ("simple-git-hooks", SIMPLE + LINE, {}, True),
    ("simple-git-hooks", OLD_SIMPLE + f"npm test && {LINE}", {}, True),
    ("simple-git-hooks", SIMPLE + "npm test", {}, False),
    (
        "pre-commit",
        PRE_COMMIT.format("--config=x/c.yaml"),
        {"x/c.yaml": "    hooks: [{id: vibe-gate-push}]"},
        True,
    ),
    (
        "pre-commit",
        PRE_COMMIT,
        {".pre-commit-config.yaml": "hooks:\n - id: vibe-gate-push\n"},
        True,
    ),
    ("pre-commit", PRE_COMMIT, {".pre-commit-config.yaml": "hooks:\n - id: vibe-gate\n"}, False),
    (
        "pre-commit",
        PRE_COMMIT,
        {".pre-commit-config.yaml": "hooks:\n # - id: vibe-gate-push\n"},
        False,
    ),
    ("prek", PREK, {"prek.toml": '[[repos.hooks]]\nid = "vibe-gate-push"\n'}, True),
    ("prek", PREK, {".pre-commit-config.yaml": f"- id: own\n  entry: {LINE}"}, True),
    ("other", f"#!/bin/sh\n{LINE}", {}, True),
    ("other", "#!/bin/sh\nnpm test # for husky, lefthook and vibe-gate\n", {}, False),
]
"""Owner, hook file, settings, whether vibe-gate runs: what each program writes, as it was seen."""


@pytest.mark.parametrize(("owner", "text", "settings", "runs"), CASES)
def test_whose_a_hook_is_and_whether_it_runs_vibe_gate(tmp_path, owner, text, settings, runs):
    folder = tmp_path / (".husky/_" if owner == "husky" else "hooks")
    for name, content in {**settings, str(folder.relative_to(tmp_path) / "pre-push"): text}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (folder / "pre-push").chmod(0o755)
    hooks = find_hooks(tmp_path, folder)
    (hook,) = [file for file in hooks.files if file.name == "pre-push"]
    assert (hook.owner, hook.runs_gate) == (owner, runs)
    assert hooks.framework == (owner if owner != "other" else None)
    assert hooks.running == (("pre-push",) if runs else ())
    assert len(hooks.missing) == len(REVIEWING) - runs


def test_a_hook_that_git_cannot_start_runs_nothing(tmp_path):
    (tmp_path / "pre-push").write_text(f"#!/bin/sh\n{LINE}")
    (tmp_path / "pre-push").chmod(0o644)
    assert find_hooks(tmp_path, tmp_path).running == ()


def test_hooks_of_a_persons_own_that_call_vibe_gate_are_told_of(repository):
    hook = repository.path / ".git" / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\n{LINE}")
    hook.chmod(0o755)
    assert doctor(repository) == ("ok", "your own hooks run vibe-gate at pre-push")


def huskys_scripts(repository: Hooked) -> Path:
    """The lines for vibe-gate in each of husky's scripts, and git's folder without husky's own
    files.
    """
    folder = repository.path / ".husky" / "_"
    folder.mkdir(parents=True)
    repository.git("config", "core.hooksPath", ".husky/_")
    for name in REVIEWING:
        (folder.parent / name).write_text(f'vibe-gate hook {name} -- "$@"\n')
    return folder


def test_a_working_tree_in_which_husky_did_not_run_yet_is_told_of(repository):
    huskys_scripts(repository)
    assert doctor(repository) == (
        "warning",
        "husky has not written its hooks in this working tree, so git runs none",
    )
    installation = gate(repository, "install", "git")
    assert (installation.code, "Run `npx husky` there." in installation.text) == (2, True)
    assert "printf" not in installation.text


def test_an_outdated_hook_of_ours_beside_a_framework_is_told_of_and_renewed(repository):
    folder = huskys_scripts(repository)
    for name in REVIEWING:
        (folder / name).write_text(HUSKY)
        (folder / name).chmod(0o755)
    assert gate(repository, "install", "git").code == 0
    hook = folder / "reference-transaction"
    original = hook.read_text()
    hook.write_text(original.replace("exit 0", "true; exit 0"))
    assert doctor(repository) == ("warning", "husky manages them; outdated: reference-transaction")
    assert gate(repository, "install", "git").code == 0
    assert hook.read_text() == original
