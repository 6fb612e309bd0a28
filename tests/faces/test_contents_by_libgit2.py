"""Reviews read contents with libgit2: git, which would read them by its own settings, is asked for
none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from answers import passes
from command import run_unforked
from repos import SWALLOWS, Repo, gated
from wire import answering

TOKEN = "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"

GIT_WITHOUT_CONTENTS = """\
#!/bin/sh
case " $* " in
  *" diff-tree "*" -W "*) ;;  # enclosing functions, which libgit2 does not show
  *" cat-file "* | *" diff-tree "* | *" show "* | *" ls-tree "*) echo "$*" >>"{log}"; exit 128 ;;
esac
exec "{git}" "$@"
"""


@pytest.fixture
def without_contents(tmp_path: Path, environ: dict[str, str]) -> dict[str, str]:
    """An environment whose git refuses to show contents, trees and differences, and notes that it
    was asked.
    """
    program = tmp_path / "programs" / "git"
    program.parent.mkdir()
    real_git = shutil.which("git", path=environ["PATH"])
    program.write_text(GIT_WITHOUT_CONTENTS.format(log=tmp_path / "asked", git=real_git))
    program.chmod(0o755)
    return {**environ, "PATH": f"{program.parent}:{environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv", [("HEAD~1",), ("HEAD~1..HEAD",), ("--commit", "HEAD"), ("--staged",), ()]
)
def test_a_review_by_checks_finds_a_secret_without_asking_git_for_contents(
    argv: tuple[str, ...], tmp_path: Path, environ: dict[str, str], without_contents: dict[str, str]
) -> None:
    repo = Repo(tmp_path / "r", environ)
    repo.commit("First", README="A project\n")
    repo.write("src/load.py", f'TOKEN = "{TOKEN}"\n')
    repo.git("add", "-A")
    if argv and argv != ("--staged",):
        repo.git("commit", "-q", "-m", "Add a token")
    review = run_unforked("review", "--no-judge", *argv, cwd=repo.path, environ=without_contents)
    assert review.code == 1, review.out + review.err
    assert "src/load.py:1" in review.out
    assert not (tmp_path / "asked").exists()


@pytest.mark.slow
def test_a_judged_review_does_neither(
    tmp_path: Path, environ: dict[str, str], without_contents: dict[str, str]
) -> None:
    repo = gated(tmp_path / "r", environ)
    repo.write("src/load.py", SWALLOWS)
    with answering(passes("errors-not-swallowed", "names-are-clear")) as model:
        review = run_unforked(
            "review",
            cwd=repo.path,
            environ=without_contents | model.environ,
            python=("-X", "importtime"),
        )
    assert review.code == 0, review.out
    assert "pygit2" in {line.rpartition("|")[2].strip() for line in review.err.splitlines()}
    assert not (tmp_path / "asked").exists()
