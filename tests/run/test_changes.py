"""What a turn made of its workspace, as its bundle shows it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from bundle_words import Clock, Ended, OneSecretRedactor, summary_of
from repos import Repo

from vibe_gate.domain.document import plain
from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.run.turn_changes import TurnChanges
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import open_store


@pytest.mark.slow
def test_a_turns_bundle_has_its_patch_contents_states_and_trees(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("first", **{"a.py": "one = 1\n", "gone.py": "gone = 1\n", "same.py": "same = 1\n"})
    huge = b"\0" * 10_000_001
    with open_repository(repo.path, read_environment(environ)) as repository:
        begun = repository.snapshot()
        workspace = repository.workspace(repository.workspaces / "run", begun)
        run = open_store(repo.path, OneSecretRedactor(), Clock()).begin(
            f"tree-{begun}", Clock()(), {}
        )
        turn = run.turn("fix")
        (workspace.root / "a.py").write_text("one = 2\n")
        (workspace.root / "gone.py").unlink()
        (workspace.root / "huge").write_bytes(huge)
        turn_changes = TurnChanges(workspace, begun)
        turn.seal(Ended(change=turn_changes(turn)))
        run.seal(summary_of(run))
        assert turn_changes.after == workspace.tree()
        assert (
            workspace.folder / "kept.git/refs/turns/fix/turn-001"
        ).read_text().strip() == turn_changes.after
        (read,) = read_bundle(run.directory).turns()
        assert {file.path: file.change_type for file in read.files.changed()} == {
            "a.py": "modified", "gone.py": "deleted", "huge": "added",
        }  # fmt: skip
        changed = read.files.get("a.py")
        assert changed is not None and changed.before is not None and changed.after is not None
        assert (changed.before.text(), changed.after.text()) == ("one = 1\n", "one = 2\n")
        large = read.files.get("huge")
        assert large is not None and large.after is not None
        assert (large.after.has_bytes, large.after.size) == (False, len(huge))
        assert large.after.sha256 == hashlib.sha256(huge).hexdigest()
        head = repo.git("rev-parse", "HEAD")
        assert read.git.before is not None and read.git.after is not None
        assert plain(read.git.before) == {"head": head, "dirty": False}
        assert plain(read.git.after) == {"head": head, "dirty": True}
        (completion,) = [
            event
            for event in read_bundle(run.directory)._bundle.events()
            if event.type == "turn.completed"
        ]
        assert (completion.data["before"], completion.data["after"]) == (begun, turn_changes.after)
        patch = run.directory / "nodes/fix/turn-001/turn.patch"
        assert turn_changes.change is not None
        repository.apply(repository.patch(turn_changes.change), begun, patch)
        assert repository.snapshot() == turn_changes.after
        repo.git("apply", "-R", "--exclude=huge", "-", stdin=patch.read_bytes())
        (repo.path / "huge").unlink()
        assert repository.snapshot() == begun
        workspace.remove()
