"""`install git`: beside what is there, in the folder that git uses, and away again without a
trace.
"""

from __future__ import annotations

import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from command import run_unforked, vibe_gate
from hooked import BIN, ROOT, STAGES, Hooked, ProgramResult, start_repository

from vibe_gate.domain import provenance
from vibe_gate.faces.git_hook.install import HINTS, HOOKS

LOGGING = '#!/bin/sh\necho "{name} ran with $# arguments" >> "$LOG"\ncat >> "$LOG"\n'


@pytest.fixture
def repository(tmp_path: Path, environ: dict[str, str]) -> Hooked:
    repository = start_repository(tmp_path / "repository", environ)
    repository.more["LOG"] = str(tmp_path / "log")
    return repository


def gate(repository: Hooked, *argv: str) -> ProgramResult:
    result = vibe_gate(*argv, cwd=repository.path, environ=repository.environ | repository.more)
    return ProgramResult(result.code, result.out + result.err)


def install_hooks(repository: Hooked) -> Hooked:
    result = gate(repository, "install", "git")
    assert result.code == 0, result.text
    return repository


def install_started_hooks(repository: Hooked) -> Hooked:
    """`install git` by a Python that was started: the hooks name the interpreter itself."""
    result = run_unforked(
        "install", "git", cwd=repository.path, environ=repository.environ | repository.more
    )
    assert result.code == 0, result.err
    return repository


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        f.name: (f.read_bytes(), stat.S_IMODE(f.lstat().st_mode))
        for f in folder.iterdir()
        if f.is_file()
    }


def write_logging_hooks(repository: Hooked, *names: str) -> None:
    """Hooks of the user's own: they write down that they ran, and what they read."""
    for name in names:
        hook = repository.path / ".git" / "hooks" / name
        hook.write_text(LOGGING.format(name=name))
        hook.chmod(0o700)


def read_log(repository: Hooked) -> str:
    path = Path(repository.more["LOG"])
    return path.read_text() if path.exists() else ""


def test_twice_is_once_and_away_again_every_byte_is_as_it_was(repository):
    write_logging_hooks(repository, "pre-commit", "pre-push")
    (repository.path / ".git" / "hooks" / "commit-msg").symlink_to("commit-msg.sample")
    was = files(repository.path / ".git" / "hooks")
    install_hooks(repository)
    assert (once := files(repository.path / ".git" / "hooks")) != was
    assert "unchanged" in gate(repository, "install", "git").text
    assert files(repository.path / ".git" / "hooks") == once
    result = gate(repository, "uninstall", "git")
    assert result.code == 0, result.text
    assert files(repository.path / ".git" / "hooks") == was
    assert (repository.path / ".git" / "hooks" / "commit-msg").is_symlink()
    assert not (repository.path / ".git" / "vibe-gate").exists()


def test_uninstalling_says_what_stays(repository):
    install_hooks(repository)
    repository.write(a="x\n")
    repository.git("commit", "-a", "-m", "x")
    result = gate(repository, "uninstall", "git")
    assert result.code == 0, result.text
    assert (repository.path / ".git" / "vibe-gate" / "state.db").exists()
    assert f"paid answers and spending stay in {repository.path}/.git/vibe-gate" in result.text


def test_a_hook_that_cannot_run_any_more_is_mended(repository):
    install_hooks(repository)
    (repository.path / ".git" / "hooks" / "pre-commit").chmod(0o644)
    assert "unchanged" not in gate(repository, "install", "git").text
    repository.write(a="x\n")
    repository.git("commit", "-a", "-m", "x")
    assert repository.judged_trees() == {repository.tree()}


def test_nothing_is_written_where_one_of_the_hooks_has_no_room(repository):
    write_logging_hooks(repository, "post-commit", "post-commit.before-vibe-gate")
    was = files(repository.path / ".git" / "hooks")
    result = gate(repository, "install", "git")
    assert result.code == 3
    assert "exists, and" in result.text
    assert files(repository.path / ".git" / "hooks") == was


def test_the_path_of_hooks_is_read_as_git_reads_it(repository):
    repository.environ["HOME"] = str(repository.path.parent / "home")
    (repository.path.parent / "home").mkdir()
    repository.git("config", "core.hooksPath", "~/../repository/hooks here")
    assert "do not commit them" in gate(repository, "install", "git").text
    assert {path.name for path in (repository.path / "hooks here").iterdir()} == set(HOOKS)
    repository.write(a="x\n")
    repository.git("commit", "-a", "-m", "x")
    assert repository.judged_trees() == {repository.tree()}


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_outside_a_repository_a_sentence_says_so(repository, tmp_path, command):
    result = gate(Hooked(tmp_path, repository.environ, repository.more), command, "git")
    assert (result.code, "not inside a git repository" in result.text) == (2, True)


def test_uninstalling_what_is_not_there_says_so(repository):
    write_logging_hooks(repository, "pre-commit")
    was = files(repository.path / ".git" / "hooks")
    result = gate(repository, "uninstall", "git")
    assert (result.code, files(repository.path / ".git" / "hooks")) == (0, was)
    assert "No hooks of vibe-gate are installed." in result.text
    assert "The hook pre-commit is not vibe-gate's; kept." in result.text


def test_a_hook_that_was_there_runs_first_and_can_stop_git(repository):
    write_logging_hooks(repository, "pre-commit")
    install_hooks(repository)
    repository.write(a="x\n")
    repository.git("commit", "-a", "-m", "x")
    assert read_log(repository) == "pre-commit ran with 0 arguments\n"
    assert repository.judged_trees() == {repository.tree()}
    (repository.path / ".git" / "hooks" / "pre-commit.before-vibe-gate").write_text(
        "#!/bin/sh\nexit 7\n"
    )
    repository.write(a="y\n")
    assert repository.run("git", "commit", "-a", "-m", "y").code == 1
    assert len(repository.judged_trees()) == 1


def test_what_an_earlier_hook_adds_to_the_index_is_judged_too(repository):
    hook = repository.path / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho formatted > b\ngit add b\n")
    hook.chmod(0o755)
    install_hooks(repository)
    repository.write(a="x\n")
    repository.git("add", "a")
    repository.git("commit", "-m", "x")
    assert repository.git("show", "HEAD:b") == "formatted"
    assert repository.judged_trees() == {repository.tree()}


@pytest.mark.slow
def test_both_hooks_read_what_git_writes(repository, tmp_path):
    write_logging_hooks(repository, "pre-push", "post-rewrite")
    install_hooks(repository)
    repository.git("init", "-q", "--bare", str(tmp_path / "remote"))
    repository.git("push", "-q", str(tmp_path / "remote"), "main")
    head = repository.git("rev-parse", "HEAD")
    assert (
        f"pre-push ran with 2 arguments\nrefs/heads/main {head} refs/heads/main {'0' * 40}\n"
        in read_log(repository)
    )
    assert [record["commit"] for record in repository.records()] == [head]
    repository.git("commit", "-q", "--amend", "-m", "again")
    assert read_log(repository).endswith(f"{head} {repository.git('rev-parse', 'HEAD')}\n")
    assert [record["old"] for record in repository.records() if record["kind"] == "rewritten"] == [
        head
    ]


def test_a_folder_outside_is_never_written_to(repository, tmp_path):
    shared = tmp_path / "everybodys"
    shared.mkdir()
    repository.git("config", "--global", "core.hooksPath", str(shared))
    result = gate(repository, "install", "git")
    assert result.code == 2
    assert "core.hooksPath" in result.text
    assert 'vibe-gate hook NAME -- "$@"' in result.text
    assert list(shared.iterdir()) == []


def test_a_link_that_leads_outside_is_not_followed(repository, tmp_path):
    shared = tmp_path / "everybodys"
    shared.mkdir()
    shutil.rmtree(repository.path / ".git" / "hooks")
    (repository.path / ".git" / "hooks").symlink_to(shared)
    assert gate(repository, "install", "git").code == 2
    assert list(shared.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["pre-commit", "prek"])
def test_where_a_framework_looks_after_hooks_the_lines_for_its_file_are_said(repository, tool):
    if not (BIN / tool).exists():
        pytest.skip(f"{tool} is not installed here")
    (repository.path / ".pre-commit-config.yaml").write_text("repos: []\n")
    assert repository.run(str(BIN / tool), "install").code == 0
    was = files(repository.path / ".git" / "hooks")
    result = gate(repository, "install", "git")
    assert result.code == 2
    assert (
        f"{tool} manages the hooks here, and does not run vibe-gate at pre-commit, " in result.text
    )
    assert "id: vibe-gate" in result.text
    written = files(repository.path / ".git" / "hooks")
    assert written.keys() - was.keys() == {"reference-transaction"}
    assert {name: written[name] for name in was} == was


OWN = """\
#!/bin/sh
# my own hook, years of work, for husky and lefthook, too
echo mine >> "$LOG"
# vibe-gate: hold the change to the gate
exec {gate} hook pre-commit -- "$@"
"""


@pytest.mark.slow
def test_a_hook_of_a_persons_own_that_names_us_is_kept_and_comes_back(repository):
    hook = repository.path / ".git" / "hooks" / "pre-commit"
    hook.write_text(OWN.format(gate=shlex.quote(str(BIN / "vibe-gate"))))
    hook.chmod(0o755)
    was = files(repository.path / ".git" / "hooks")
    assert gate(repository, "uninstall", "git").code == 0
    assert files(repository.path / ".git" / "hooks") == was
    install_hooks(repository)
    repository.write(a="x\n")
    repository.git("commit", "-a", "-m", "x")
    assert read_log(repository) == "mine\n"
    assert gate(repository, "uninstall", "git").code == 0
    assert files(repository.path / ".git" / "hooks") == was


def test_lines_that_were_added_to_ours_are_not_lost(repository):
    install_hooks(repository)
    added = '# see also: exec python -m vibe_gate hook pre-commit -- "$@" \n'
    hook = repository.path / ".git" / "hooks" / "pre-commit"
    hook.write_text(hook.read_text() + added)
    was = files(repository.path / ".git" / "hooks")
    result = gate(repository, "install", "git")
    assert (result.code, files(repository.path / ".git" / "hooks")) == (3, was)
    assert "vibe-gate's with lines added" in result.text
    assert "pre-commit is not vibe-gate's; kept" in gate(repository, "uninstall", "git").text
    assert hook.read_text().endswith(added)


def test_husky_gets_a_line_of_its_own(repository):
    (repository.path / ".husky" / "_").mkdir(parents=True)
    repository.git("config", "core.hooksPath", ".husky/_")
    result = gate(repository, "install", "git")
    assert result.code == 2
    assert ">>.husky/$hook" in result.text
    assert [file.name for file in (repository.path / ".husky" / "_").iterdir()] == [
        "reference-transaction"
    ]


@pytest.mark.slow
def test_a_vibe_gate_that_moved_stops_the_commit_and_says_how_to_go_on(repository):
    install_started_hooks(repository)
    for name in STAGES:
        hook = repository.path / ".git" / "hooks" / name
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    repository.write(a="x\n")
    result = repository.run("git", "commit", "-a", "-m", "x")
    assert result.code == 1
    assert (
        "it is not at /gone/bin/python any more, so nothing was reviewed. Git was stopped."
        in result.text
    )
    assert "run 'vibe-gate install git' where vibe-gate is now" in result.text
    install_hooks(repository)
    repository.git("commit", "-a", "-m", "x")


@pytest.mark.slow
def test_with_nothing_staged_no_python_is_started(repository):
    install_started_hooks(repository)
    for name in STAGES:
        hook = repository.path / ".git" / "hooks" / name
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    repository.git("commit", "--allow-empty", "-m", "x")


@pytest.mark.parametrize(
    "setting",
    [("diff.relative", "true"), ("diff.ignoreSubmodules", "all"), ("diff.external", "true")],
)
def test_no_setting_hides_what_is_staged_from_the_first_look(repository, setting):
    install_hooks(repository)
    repository.git("config", *setting)
    repository.write(a="x\n")
    repository.git("commit", "-a", "-m", "x")
    assert repository.judged_trees() == {repository.tree()}


def test_a_program_without_a_terminal_and_a_path_commits(repository):
    """As a GUI client does: from another folder, without a terminal, and with next to nothing on
    PATH.
    """
    install_hooks(repository)
    repository.write(a="x\n")
    result = subprocess.run(
        [shutil.which("git") or "git", "-C", str(repository.path), "commit", "-a", "-m", "x"],
        cwd="/",
        env={
            **{k: v for k, v in repository.environ.items() if k != "PATH"},
            "PATH": "/usr/bin:/bin",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert result.returncode == 0
    assert repository.judged_trees() == {repository.tree()}


def test_from_a_subfolder_and_a_linked_worktree_the_same_hooks_are_meant(repository, tmp_path):
    (repository.path / "deep").mkdir()
    subfolder = Hooked(repository.path / "deep", repository.environ, repository.more)
    install_hooks(subfolder)
    repository.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = install_hooks(Hooked(tmp_path / "linked", repository.environ, repository.more))
    linked.write(a="x\n")
    linked.git("commit", "-a", "-m", "x")
    assert repository.judged_trees() == {linked.tree()}
    assert not list((repository.path / ".git" / "hooks").glob("*.before-vibe-gate"))


def test_a_repository_that_was_moved_keeps_its_gate(repository, tmp_path):
    install_hooks(repository)
    moved = Hooked(
        repository.path.rename(tmp_path / "moved to a place with spaces"),
        repository.environ,
        repository.more,
    )
    moved.git("commit", "--allow-empty", "-m", "idle")
    moved.write(a="x\n")
    moved.git("commit", "-a", "-m", "x")
    assert moved.judged_trees() == {moved.tree()}
    assert [record["kind"] for record in moved.records()] == ["reviewed"]


@pytest.mark.slow
def test_code_of_the_reviewed_repository_is_never_imported(repository):
    install_started_hooks(repository)
    for name in ("json", "argparse", "pydantic", "vibe_gate"):
        (repository.path / f"{name}.py").write_text("raise SystemExit('hostile')")
    repository.git("add", "-A")
    assert "hostile" not in repository.git("commit", "-m", "x", PYTHONPATH=str(repository.path))
    assert repository.judged_trees() == {repository.tree()}


@pytest.mark.slow
def test_after_a_human_change_no_python_is_started_again(repository):
    install_started_hooks(repository)
    for name in ("commit-msg", "post-commit"):
        hook = repository.path / ".git" / "hooks" / name
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    repository.write(a="x\n")
    repository.git("commit", "-a", "-m", "x")
    assert [record["tree"] for record in repository.records()] == [repository.tree()]


def test_a_commit_of_another_tree_than_the_one_that_passed_is_a_bypass(repository):
    """As if the number of the git process came again."""
    install_hooks(repository)
    repository.write(a="x\n")
    repository.git("commit", "-a", "-m", "x")
    passed = repository.path / ".git" / "vibe-gate" / "passed"
    passed_tree = passed.read_text().split(" ", 1)[1]
    hook = repository.path / ".git" / "hooks" / "post-commit"
    hook.write_text(
        hook.read_text().replace(
            "#!/bin/sh\n", f'#!/bin/sh\nprintf "%s %s" $PPID {shlex.quote(passed_tree)} >{passed}\n'
        )
    )
    repository.write(a="y\n")
    repository.git("commit", "-a", "--no-verify", "-m", "y")
    assert repository.records()[-1]["kind"] == "bypassed"


def test_sh_looks_for_every_word_that_provenance_knows():
    words = provenance._TRAILER.pattern[2:].split(")")[0].split("|")
    assert len(words) > 4
    assert all(re.search(HINTS, word) for word in words)
    assert re.search(HINTS, provenance._GENERATED.pattern.lower())
    manifest = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert f'"{HINTS}"' in manifest
    assert f"for name in {' '.join(provenance.AGENT_VARIABLES)};" in " ".join(
        manifest.split("\n    ")
    )
