"""What a turn of an agent's session changed and noted; its documents have the seed's names
exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.change import ChangeType

TodoStatus = Literal["pending", "in_progress", "completed"]
TODO_STATUSES: tuple[TodoStatus, ...] = ("pending", "in_progress", "completed")


class SeedModel(Struct, frozen=True, kw_only=True, rename="camel"):
    """Held in snake_case, written in the seed's camelCase."""


class GitState(SeedModel, frozen=True, kw_only=True):
    """HEAD's commit id ("" while unborn) and whether the working tree differed from it."""

    head: str
    dirty: bool


class TurnGit(SeedModel, frozen=True, kw_only=True):
    """The repository before and after the turn."""

    before: GitState | None = None
    after: GitState | None = None


class Content(SeedModel, frozen=True, kw_only=True):
    """One side of a file: sha-256 of the stored bytes (of the bytes themselves above the limit),
    and its size.
    """

    sha256: str
    size: int


class TurnFile(SeedModel, frozen=True, kw_only=True):
    """A file that the agent changed; `path` as shown (`paths.quote`)."""

    path: str
    old_path: str | None = None
    change_type: ChangeType
    before: Content | None = None
    after: Content | None = None
    added: int = 0
    deleted: int = 0


class TurnTodo(SeedModel, frozen=True, kw_only=True):
    """One item of the agent's own list."""

    text: str
    status: TodoStatus


class TurnChange(Struct, frozen=True):
    """What the agent changed during a turn; `patch` applies with `git apply`, b"" for nothing.

    `before` and `after` are tree ids, "" of a turn without a workspace.
    """

    patch: bytes = b""
    git: TurnGit | None = None
    files: tuple[TurnFile, ...] = ()
    before: str = ""
    after: str = ""


class TodoChanges:
    """What calls changed in an agent's own list, in both of the forms in which Claude Code offers
    it.

    One for each reader of a session: what later calls mean depends on earlier ones.
    """

    def __init__(self) -> None:
        self._subjects: dict[str, str] = {}  # of tasks, by the id that Claude Code gave them
        self._listed: tuple[str, ...] = ()

    def of(self, tool: str, call_input: object, result: object) -> Iterator[dict[str, str]]:
        """The todo events of a call that succeeded, given its input and what it answered."""
        call_input, result = (
            call_input if isinstance(call_input, dict) else {},
            result if isinstance(result, dict) else {},
        )
        task_values = [result.get("task"), *_items(result.get("tasks"))]
        for task in task_values:
            if not isinstance(task, dict):
                continue
            self._subjects[str(task.get("id"))] = str(task.get("subject", ""))
        if tool == "TaskCreate":
            yield _todo("add", str(call_input.get("subject") or ""), call_input.get("status"))
        elif tool == "TaskUpdate" and call_input.get("status"):
            number = str(call_input.get("taskId") or "")
            yield _todo("update", self._subjects.get(number, number), call_input["status"])
        elif tool == "TodoWrite":  # the whole list anew
            todos = [todo for todo in _items(call_input.get("todos")) if isinstance(todo, dict)]
            before, self._listed = (
                self._listed,
                tuple(str(todo.get("content", "")) for todo in todos),
            )
            yield from (
                _todo("update", text, "deleted") for text in before if text not in self._listed
            )
            yield from (
                _todo("set", str(todo.get("content", "")), todo.get("status")) for todo in todos
            )


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _todo(action: str, text: str, status: object) -> dict[str, str]:
    return {"type": "todo", "action": action, "text": text, "status": str(status or "pending")}
