"""What a turn of an agent's session changed and noted; its documents have the seed's names exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from vibe_gate.domain.change import ChangeType
from vibe_gate.domain.model import Model

TodoStatus = Literal["pending", "in_progress", "completed"]
TODO_STATUSES: tuple[TodoStatus, ...] = ("pending", "in_progress", "completed")


class SeedModel(Model):
    """Held in snake_case, written in the seed's camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class GitState(SeedModel):
    """HEAD's commit id ("" while unborn) and whether the working tree differed from it."""

    head: str
    dirty: bool


class TurnGit(SeedModel):
    """The repository before and after the turn."""

    before: GitState | None = None
    after: GitState | None = None


class Content(SeedModel):
    """One side of a file: sha-256 of the stored bytes (of the bytes themselves above the limit), and its size."""

    sha256: str
    size: int


class TurnFile(SeedModel):
    """A file that the agent changed; `path` as shown (`paths.quote`)."""

    path: str
    old_path: str | None = None
    change_type: ChangeType
    before: Content | None = None
    after: Content | None = None
    added: int = 0
    deleted: int = 0


class TurnTodo(SeedModel):
    """One item of the agent's own list."""

    text: str
    status: TodoStatus


@dataclass(frozen=True, slots=True)
class TurnChange:
    """What the agent changed during a turn; `patch` applies with `git apply`, b"" for nothing.

    `before` and `after` are tree ids, "" of a turn without a workspace.
    """

    patch: bytes = b""
    git: TurnGit | None = None
    files: tuple[TurnFile, ...] = ()
    before: str = ""
    after: str = ""
