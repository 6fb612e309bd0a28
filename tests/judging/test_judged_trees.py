"""Where the trees stand that judges read."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging.judged_trees import JudgedTrees, hold_judged_trees


class Judging:
    """Reviews of the newest commit of one clone, by judges that do nothing."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.own = folder / "own"
        self.environ = environ | {"XDG_STATE_HOME": str(folder / "state")}
        self.repo = Repo(folder / "repo", environ)
        self.before = self.repo.commit(**{"a.py": "one\n", "b.py": "one\n"})
        self.after = self.repo.commit(**{"a.py": "two\n"})

    def open(self) -> Repository:
        return open_repository(self.repo.path, read_environment(self.environ))

    @property
    def kept_export(self) -> Path:
        with self.open() as repository:
            return repository.workspaces / "kept-export"

    def hold(self, wire: str = "live") -> JudgedTrees:
        """The trees as one review has them, and compared when it is over."""
        model = SimpleNamespace(wire=SimpleNamespace(mode=wire))
        with self.open() as repository:
            before, after = map(repository.tree_of, (self.before, self.after))
            change = repository.between(before, after)
            with hold_judged_trees(change, repository, model, self.own) as trees:
                assert (trees.folder / "after/a.py").read_text() == "two\n"
                assert (trees.folder / "before/a.py").read_text() == "one\n"
                assert not (trees.folder / "before/b.py").exists()
                assert trees.are_unchanged()
        return trees


@pytest.fixture
def judging(tmp_path: Path, environ: dict[str, str]) -> Judging:
    return Judging(tmp_path, environ)


def test_the_next_review_finds_them_where_the_last_one_left_them(judging: Judging) -> None:
    first = judging.hold()
    inode = (first.folder / "after/b.py").stat().st_ino
    second = judging.hold()
    assert first.folder == second.folder == judging.kept_export / "trees"
    assert (second.folder / "after/b.py").stat().st_ino == inode


def test_a_cassette_is_given_a_folder_of_the_runs_own(judging: Judging) -> None:
    assert judging.hold("replay").folder == judging.own


def test_of_two_reviews_at_once_one_has_a_folder_of_its_own(judging: Judging) -> None:
    with judging.open() as repository, repository.kept_export():
        assert judging.hold().folder == judging.own


def test_what_lies_beside_them_is_removed_before_and_refused_afterwards(judging: Judging) -> None:
    trees = judging.hold()
    (trees.folder / ".ignore").write_text("after/a.py")
    (trees.folder / ".claude").mkdir()
    (trees.folder / "more").symlink_to(judging.own.parent)
    assert not trees.are_unchanged()
    assert sorted(path.name for path in judging.hold().folder.iterdir()) == ["after", "before"]


@pytest.mark.parametrize("place", [".", "trees", "trees/after", "trees/before"])
def test_a_link_planted_in_the_kept_export_leads_nowhere(judging: Judging, place: str) -> None:
    judging.hold()
    mine = judging.own.parent / "mine"
    for name in ("after", "before"):
        (mine / name).mkdir(parents=True)
        (mine / name / "a.py").write_text("my own work")
    (mine / "a.py").write_text("my own work")
    mine.chmod(0o755)
    contents = {path: path.read_text() for path in mine.rglob("*.py")}
    planted = judging.kept_export / place
    shutil.rmtree(planted)
    planted.symlink_to(mine)
    trees = judging.hold()
    assert not trees.folder.resolve().is_relative_to(mine)
    assert {path: path.read_text() for path in mine.rglob("*.py")} == contents
    assert mine.stat().st_mode & 0o777 == 0o755


def test_what_cannot_be_replaced_is_given_up(judging: Judging) -> None:
    after = judging.hold().folder / "after"
    after.rename(judging.own.parent / "moved")
    after.write_text("in the way")
    assert judging.hold().folder == judging.own
    assert not judging.kept_export.exists()
