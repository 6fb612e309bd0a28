"""What a turn of an agent's session changed and noted; its documents have the seed's names
exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.change import ChangeType

TodoStatus = Literal["pending", "in_progress", "completed"]
TODO_STATUSES: tuple[TodoStatus, ...] = ("pending", "in_progress", "completed")


class SeedModel(Struct, frozen=True, kw_only=True, rename="camel"):
    """Held in snake_case, written in the seed's camelCase."""


class GitState(SeedModel, frozen=True, kw_only=True):
    """The repository at one moment."""

    head: str
    """HEAD's commit id; "" while it is unborn."""

    dirty: bool
    """Whether the working tree differed from it."""


class TurnGit(SeedModel, frozen=True, kw_only=True):
    """The repository before and after the turn."""

    before: GitState | None = None
    after: GitState | None = None


class Content(SeedModel, frozen=True, kw_only=True):
    """One side of a file."""

    sha256: str
    """Of the stored bytes; of the bytes themselves above the limit."""

    size: int
    """In bytes."""


class TurnFile(SeedModel, frozen=True, kw_only=True):
    """A file that the agent changed."""

    path: str
    """As shown (`paths.quote`)."""

    old_path: str | None = None
    change_type: ChangeType
    before: Content | None = None
    after: Content | None = None
    added: int = 0
    deleted: int = 0


MAX_CHAIN_FILES = 5_000
"""Of each list of files in a chain, so that a summary of several stays a document."""


class ListedFiles(SeedModel, frozen=True, kw_only=True):
    """Changed files of a patch."""

    files: tuple[TurnFile, ...] = ()
    """At most 5,000."""

    more_files: int | None = None
    """How many are left out; the patch has them."""


class ChainStep(ListedFiles, frozen=True, kw_only=True):
    """A turn with whose files another one began; no files of a turn of the same run, whose own
    summary says them.
    """

    stage: str
    """The id of its stage."""

    test_id: str
    """`<run id>/<node id>/<turn>`."""

    patch: str = ""
    """The file beside this summary that holds its patch; "" of a turn of the same run."""


def step_patch_name(number: int) -> str:
    """The `patch` of a ChainStep: `step-001.patch` and so on."""
    return f"step-{number:03d}.patch"


class TurnChain(ListedFiles, frozen=True, kw_only=True):
    """The turns before one, whose files it began with, and what all of them changed together,
    against where the first began.
    """

    stage: str
    """The id of the turn's own stage."""

    steps: tuple[ChainStep, ...]
    """The turns before it, in order."""


class ChainChange(Struct, frozen=True):
    """A chain as it is recorded, with its patches."""

    chain: TurnChain

    patch: bytes
    """Of all turns together."""

    step_patches: tuple[bytes, ...]
    """Of the steps that name a file for it, in order."""


class TurnTodo(SeedModel, frozen=True, kw_only=True):
    """One item of the agent's own list."""

    text: str
    status: TodoStatus


class TurnChange(Struct, frozen=True):
    """What the agent changed during a turn."""

    patch: bytes = b""
    """Applies with `git apply`; b"" for nothing."""

    git: TurnGit | None = None

    files: tuple[TurnFile, ...] = ()

    before: str = ""
    """A tree id; "" of a turn without a workspace."""

    after: str = ""
    """A tree id; "" of a turn without a workspace."""

    chain: ChainChange | None = None
    """None if the turn began with no other's files."""


def is_usage_total(event: Mapping[str, object]) -> bool:
    """Whether a usage event of a turn's log is the turn's total, which was settled at its end; the
    others, together, come to it.
    """
    return event.get("total") is True


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
        inputs = call_input if isinstance(call_input, dict) else {}
        if isinstance(result, dict):
            self._note_subjects(result)
        if tool == "TaskCreate":
            subject = str(inputs.get("subject") or "")
            yield _todo_event("add", subject, inputs.get("status"))
        elif tool == "TaskUpdate" and inputs.get("status"):
            task_id = str(inputs.get("taskId") or "")
            subject = self._subjects.get(task_id, task_id)
            yield _todo_event("update", subject, inputs["status"])
        elif tool == "TodoWrite":
            yield from self._replace_list(inputs.get("todos"))

    def _note_subjects(self, result: dict[str, object]) -> None:
        """Note what the tasks of a call's answer are about."""
        for task in (result.get("task"), *_items(result.get("tasks"))):
            if isinstance(task, dict):
                self._subjects[str(task.get("id"))] = str(task.get("subject", ""))

    def _replace_list(self, new_todos: object) -> Iterator[dict[str, str]]:
        """The events of a call that writes the whole list anew."""
        todos = [todo for todo in _items(new_todos) if isinstance(todo, dict)]
        earlier_texts = self._listed
        self._listed = tuple(str(todo.get("content", "")) for todo in todos)
        for text in earlier_texts:
            if text not in self._listed:
                yield _todo_event("update", text, "deleted")
        for todo in todos:
            yield _todo_event("set", str(todo.get("content", "")), todo.get("status"))


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _todo_event(action: str, text: str, status: object) -> dict[str, str]:
    return {"type": "todo", "action": action, "text": text, "status": str(status or "pending")}
