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
from command import started as fresh
from command import vibe_gate
from hooked import BIN, ROOT, STAGES, Done, Hooked, started

from vibe_gate.domain import provenance
from vibe_gate.faces.git_hook.install import HINTS, HOOKS

LOGGING = '#!/bin/sh\necho "{name} ran with $# arguments" >> "$LOG"\ncat >> "$LOG"\n'


@pytest.fixture
def here(tmp_path: Path, environ: dict[str, str]) -> Hooked:
    made = started(tmp_path / "repository", environ)
    made.more["LOG"] = str(tmp_path / "log")
    return made


def gate(here: Hooked, *argv: str) -> Done:
    done = vibe_gate(*argv, cwd=here.path, environ=here.environ | here.more)
    return Done(done.code, done.out + done.err)


def installed(here: Hooked) -> Hooked:
    done = gate(here, "install", "git")
    assert done.code == 0, done.text
    return here


def installed_for_real(here: Hooked) -> Hooked:
    """The same by a Python that was started: the hooks name the interpreter itself."""
    done = fresh("install", "git", cwd=here.path, environ=here.environ | here.more)
    assert done.code == 0, done.err
    return here


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        f.name: (f.read_bytes(), stat.S_IMODE(f.lstat().st_mode))
        for f in folder.iterdir()
        if f.is_file()
    }


def before(here: Hooked, *names: str) -> None:
    """Hooks of the user's own: they write down that they ran, and what they read."""
    for name in names:
        hook = here.path / ".git" / "hooks" / name
        hook.write_text(LOGGING.format(name=name))
        hook.chmod(0o700)


def log(here: Hooked) -> str:
    path = Path(here.more["LOG"])
    return path.read_text() if path.exists() else ""


def test_twice_is_once_and_away_again_every_byte_is_as_it_was(here):
    before(here, "pre-commit", "pre-push")
    (here.path / ".git" / "hooks" / "commit-msg").symlink_to("commit-msg.sample")
    was = files(here.path / ".git" / "hooks")
    installed(here)
    assert (once := files(here.path / ".git" / "hooks")) != was
    assert "unchanged" in gate(here, "install", "git").text
    assert files(here.path / ".git" / "hooks") == once
    done = gate(here, "uninstall", "git")
    assert done.code == 0, done.text
    assert files(here.path / ".git" / "hooks") == was
    assert (here.path / ".git" / "hooks" / "commit-msg").is_symlink()
    assert not (here.path / ".git" / "vibe-gate").exists()


def test_uninstalling_says_what_stays(here):
    installed(here)
    here.write(a="x\n")
    here.git("commit", "-a", "-m", "x")
    done = gate(here, "uninstall", "git")
    assert done.code == 0, done.text
    assert (here.path / ".git" / "vibe-gate" / "state.db").exists()
    assert f"paid answers and spending stay in {here.path}/.git/vibe-gate" in done.text


def test_a_hook_that_cannot_run_any_more_is_mended(here):
    installed(here)
    (here.path / ".git" / "hooks" / "pre-commit").chmod(0o644)
    assert "unchanged" not in gate(here, "install", "git").text
    here.write(a="x\n")
    here.git("commit", "-a", "-m", "x")
    assert here.judged() == {here.tree()}


def test_nothing_is_written_where_one_of_the_hooks_has_no_room(here):
    before(here, "post-commit", "post-commit.before-vibe-gate")
    was = files(here.path / ".git" / "hooks")
    done = gate(here, "install", "git")
    assert done.code == 3
    assert "exists, and" in done.text
    assert files(here.path / ".git" / "hooks") == was


def test_the_path_of_hooks_is_read_as_git_reads_it(here):
    here.environ["HOME"] = str(here.path.parent / "home")
    (here.path.parent / "home").mkdir()
    here.git("config", "core.hooksPath", "~/../repository/hooks here")
    assert "do not commit them" in gate(here, "install", "git").text
    assert {path.name for path in (here.path / "hooks here").iterdir()} == set(HOOKS)
    here.write(a="x\n")
    here.git("commit", "-a", "-m", "x")
    assert here.judged() == {here.tree()}


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_outside_a_repository_a_sentence_says_so(here, tmp_path, command):
    done = gate(Hooked(tmp_path, here.environ, here.more), command, "git")
    assert (done.code, "not inside a git repository" in done.text) == (2, True)


def test_uninstalling_what_is_not_there_says_so(here):
    before(here, "pre-commit")
    was = files(here.path / ".git" / "hooks")
    done = gate(here, "uninstall", "git")
    assert (done.code, files(here.path / ".git" / "hooks")) == (0, was)
    assert "No hooks of vibe-gate are installed." in done.text
    assert "The hook pre-commit is not vibe-gate's; kept." in done.text


def test_a_hook_that_was_there_runs_first_and_can_stop_git(here):
    before(here, "pre-commit")
    installed(here)
    here.write(a="x\n")
    here.git("commit", "-a", "-m", "x")
    assert log(here) == "pre-commit ran with 0 arguments\n"
    assert here.judged() == {here.tree()}
    (here.path / ".git" / "hooks" / "pre-commit.before-vibe-gate").write_text("#!/bin/sh\nexit 7\n")
    here.write(a="y\n")
    assert here.run("git", "commit", "-a", "-m", "y").code == 1
    assert len(here.judged()) == 1


def test_what_an_earlier_hook_adds_to_the_index_is_judged_too(here):
    hook = here.path / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho formatted > b\ngit add b\n")
    hook.chmod(0o755)
    installed(here)
    here.write(a="x\n")
    here.git("add", "a")
    here.git("commit", "-m", "x")
    assert here.git("show", "HEAD:b") == "formatted"
    assert here.judged() == {here.tree()}


@pytest.mark.slow
def test_both_hooks_read_what_git_writes(here, tmp_path):
    before(here, "pre-push", "post-rewrite")
    installed(here)
    here.git("init", "-q", "--bare", str(tmp_path / "remote"))
    here.git("push", "-q", str(tmp_path / "remote"), "main")
    head = here.git("rev-parse", "HEAD")
    assert (
        f"pre-push ran with 2 arguments\nrefs/heads/main {head} refs/heads/main {'0' * 40}\n"
        in log(here)
    )
    assert [record["commit"] for record in here.records()] == [head]
    here.git("commit", "-q", "--amend", "-m", "again")
    assert log(here).endswith(f"{head} {here.git('rev-parse', 'HEAD')}\n")
    assert [record["old"] for record in here.records() if record["kind"] == "rewritten"] == [head]


def test_a_folder_outside_is_never_written_to(here, tmp_path):
    shared = tmp_path / "everybodys"
    shared.mkdir()
    here.git("config", "--global", "core.hooksPath", str(shared))
    done = gate(here, "install", "git")
    assert done.code == 2
    assert "core.hooksPath" in done.text
    assert 'vibe-gate hook NAME -- "$@"' in done.text
    assert list(shared.iterdir()) == []


def test_a_link_that_leads_outside_is_not_followed(here, tmp_path):
    shared = tmp_path / "everybodys"
    shared.mkdir()
    shutil.rmtree(here.path / ".git" / "hooks")
    (here.path / ".git" / "hooks").symlink_to(shared)
    assert gate(here, "install", "git").code == 2
    assert list(shared.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["pre-commit", "prek"])
def test_where_a_framework_looks_after_hooks_the_lines_for_its_file_are_said(here, tool):
    if not (BIN / tool).exists():
        pytest.skip(f"{tool} is not installed here")
    (here.path / ".pre-commit-config.yaml").write_text("repos: []\n")
    assert here.run(str(BIN / tool), "install").code == 0
    was = files(here.path / ".git" / "hooks")
    done = gate(here, "install", "git")
    assert done.code == 2
    assert f"{tool} manages the hooks here, and does not run vibe-gate at pre-commit, " in done.text
    assert "id: vibe-gate" in done.text
    written = files(here.path / ".git" / "hooks")
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
def test_a_hook_of_a_persons_own_that_names_us_is_kept_and_comes_back(here):
    hook = here.path / ".git" / "hooks" / "pre-commit"
    hook.write_text(OWN.format(gate=shlex.quote(str(BIN / "vibe-gate"))))
    hook.chmod(0o755)
    was = files(here.path / ".git" / "hooks")
    assert gate(here, "uninstall", "git").code == 0
    assert files(here.path / ".git" / "hooks") == was
    installed(here)
    here.write(a="x\n")
    here.git("commit", "-a", "-m", "x")
    assert log(here) == "mine\n"
    assert gate(here, "uninstall", "git").code == 0
    assert files(here.path / ".git" / "hooks") == was


def test_lines_that_were_added_to_ours_are_not_lost(here):
    installed(here)
    added = '# see also: exec python -m vibe_gate hook pre-commit -- "$@" \n'
    hook = here.path / ".git" / "hooks" / "pre-commit"
    hook.write_text(hook.read_text() + added)
    was = files(here.path / ".git" / "hooks")
    done = gate(here, "install", "git")
    assert (done.code, files(here.path / ".git" / "hooks")) == (3, was)
    assert "vibe-gate's with lines added" in done.text
    assert "pre-commit is not vibe-gate's; kept" in gate(here, "uninstall", "git").text
    assert hook.read_text().endswith(added)


def test_husky_gets_a_line_of_its_own(here):
    (here.path / ".husky" / "_").mkdir(parents=True)
    here.git("config", "core.hooksPath", ".husky/_")
    done = gate(here, "install", "git")
    assert done.code == 2
    assert ">>.husky/$hook" in done.text
    assert [file.name for file in (here.path / ".husky" / "_").iterdir()] == [
        "reference-transaction"
    ]


@pytest.mark.slow
def test_a_vibe_gate_that_moved_stops_the_commit_and_says_how_to_go_on(here):
    installed_for_real(here)
    for name in STAGES:
        hook = here.path / ".git" / "hooks" / name
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    here.write(a="x\n")
    done = here.run("git", "commit", "-a", "-m", "x")
    assert done.code == 1
    assert (
        "it is not at /gone/bin/python any more, so nothing was reviewed. Git was stopped."
        in done.text
    )
    assert "run 'vibe-gate install git' where vibe-gate is now" in done.text
    installed(here)
    here.git("commit", "-a", "-m", "x")


@pytest.mark.slow
def test_with_nothing_staged_no_python_is_started(here):
    installed_for_real(here)
    for name in STAGES:
        hook = here.path / ".git" / "hooks" / name
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    here.git("commit", "--allow-empty", "-m", "x")


@pytest.mark.parametrize(
    "setting",
    [("diff.relative", "true"), ("diff.ignoreSubmodules", "all"), ("diff.external", "true")],
)
def test_no_setting_hides_what_is_staged_from_the_first_look(here, setting):
    installed(here)
    here.git("config", *setting)
    here.write(a="x\n")
    here.git("commit", "-a", "-m", "x")
    assert here.judged() == {here.tree()}


def test_a_program_without_a_terminal_and_a_path_commits(here):
    """As a GUI client does: from another folder, without a terminal, and with next to nothing on
    PATH.
    """
    installed(here)
    here.write(a="x\n")
    done = subprocess.run(
        [shutil.which("git") or "git", "-C", str(here.path), "commit", "-a", "-m", "x"],
        cwd="/",
        env={**{k: v for k, v in here.environ.items() if k != "PATH"}, "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert done.returncode == 0
    assert here.judged() == {here.tree()}


def test_from_a_subfolder_and_a_linked_worktree_the_same_hooks_are_meant(here, tmp_path):
    (here.path / "deep").mkdir()
    done = Hooked(here.path / "deep", here.environ, here.more)
    installed(done)
    here.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = installed(Hooked(tmp_path / "linked", here.environ, here.more))
    linked.write(a="x\n")
    linked.git("commit", "-a", "-m", "x")
    assert here.judged() == {linked.tree()}
    assert not list((here.path / ".git" / "hooks").glob("*.before-vibe-gate"))


def test_a_repository_that_was_moved_keeps_its_gate(here, tmp_path):
    installed(here)
    moved = Hooked(
        here.path.rename(tmp_path / "moved to a place with spaces"), here.environ, here.more
    )
    moved.git("commit", "--allow-empty", "-m", "idle")
    moved.write(a="x\n")
    moved.git("commit", "-a", "-m", "x")
    assert moved.judged() == {moved.tree()}
    assert [record["kind"] for record in moved.records()] == ["reviewed"]


@pytest.mark.slow
def test_code_of_the_reviewed_repository_is_never_imported(here):
    installed_for_real(here)
    for name in ("json", "argparse", "pydantic", "vibe_gate"):
        (here.path / f"{name}.py").write_text("raise SystemExit('hostile')")
    here.git("add", "-A")
    assert "hostile" not in here.git("commit", "-m", "x", PYTHONPATH=str(here.path))
    assert here.judged() == {here.tree()}


@pytest.mark.slow
def test_after_a_human_change_no_python_is_started_again(here):
    installed_for_real(here)
    for name in ("commit-msg", "post-commit"):
        hook = here.path / ".git" / "hooks" / name
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/bin/python"))
    here.write(a="x\n")
    here.git("commit", "-a", "-m", "x")
    assert [record["tree"] for record in here.records()] == [here.tree()]


def test_a_commit_of_another_tree_than_the_one_that_passed_is_a_bypass(here):
    """As if the number of the git process came again."""
    installed(here)
    here.write(a="x\n")
    here.git("commit", "-a", "-m", "x")
    passed = here.path / ".git" / "vibe-gate" / "passed"
    rest = passed.read_text().split(" ", 1)[1]
    hook = here.path / ".git" / "hooks" / "post-commit"
    hook.write_text(
        hook.read_text().replace(
            "#!/bin/sh\n", f'#!/bin/sh\nprintf "%s %s" $PPID {shlex.quote(rest)} >{passed}\n'
        )
    )
    here.write(a="y\n")
    here.git("commit", "-a", "--no-verify", "-m", "y")
    assert here.records()[-1]["kind"] == "bypassed"


def test_sh_looks_for_every_word_that_provenance_knows():
    known = provenance._TRAILER.pattern[2:].split(")")[0].split("|")
    assert len(known) > 4
    assert all(re.search(HINTS, word) for word in known)
    assert re.search(HINTS, provenance._GENERATED.pattern.lower())
    manifest = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert f'"{HINTS}"' in manifest
    assert f"for name in {' '.join(provenance.AGENT_VARIABLES)};" in " ".join(
        manifest.split("\n    ")
    )
