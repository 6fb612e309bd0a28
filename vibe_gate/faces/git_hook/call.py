"""One call of a hook by git: where and when it happens, and how it ends when no verdict comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.gate import HookName
from vibe_gate.domain.provenance import Record, provenance
from vibe_gate.errors import GateError, StorageError
from vibe_gate.faces.git_hook.effect import effect
from vibe_gate.git import Repository, open_repository
from vibe_gate.store import open_state


@dataclass(frozen=True, slots=True)
class Hook:
    """One call by git: its stage and arguments, and the world it is made in.

    `called`: the stage by whose name it was called, where only variables say that it is `stage`; else None.
    `parent` is the process that called, git itself with `install git`. `stdin` reads
    what git writes to the hook, `say` prints lines for people.
    """

    stage: HookName
    words: tuple[str, ...]
    environ: Mapping[str, str]
    start: Path
    clock: Callable[[], datetime]
    parent: int
    stdin: Callable[[], str]
    say: Callable[[str], None]
    strict: bool = False
    called: HookName | None = None

    @property
    def now(self) -> str:
        """The time as records carry it."""
        return self.clock().isoformat(timespec="milliseconds")


def not_reviewed(hook: Hook, error: GateError) -> int:
    """A review that could not be carried out, definitions that do not parse, or a bug: said, recorded, and mapped."""
    what = effect(error.exit_code, "warn", hook.environ, strict=hook.strict)
    hook.say("\n".join(f"vibe-gate: {safe(line)}" for line in str(error).splitlines()))
    if what.warning:
        hook.say(loud(what.warning))
    # A bug may show itself again here: what cannot be recorded has been said, and keeps nobody from committing.
    with suppress(Exception), open_repository(hook.start, hook.environ) as repository:
        record = Record(
            ts=hook.now,
            kind="not-reviewed",
            stage=hook.stage,
            tree="" if hook.stage == "pre-push" else repository.index_tree(),
            exit_code=error.exit_code,
            blocked=what.blocks,
            hints=() if hook.stage == "pre-push" else _hints(hook, repository),
            reason=str(error)[:2000],
        )
        open_state(repository.common_dir).hook_records.append(record)
    return what.code


def _hints(hook: Hook, repository: Repository) -> tuple[str, ...]:
    """Who wrote what is staged, as far as that can still be found out."""
    with suppress(Exception):  # the same bug may stop this as well: the record is written, with fewer hints
        from vibe_gate.gate.authorship import Authorship

        authorship = Authorship(repository, hook.environ, open_state(repository.common_dir), hook.clock())
        return authorship.of(repository.change(Selection("staged")), ()).hints
    return provenance(hook.environ, (), uncommitted=True).hints


def note_empty_merge(hook: Hook, tree: str, repository: Repository) -> None:
    """Who makes a merge that differs in nothing from its first parent: it may differ in much from the other. Once."""
    hints = provenance(hook.environ, (), uncommitted=True).hints
    records = open_state(repository.common_dir).hook_records
    if hints and not any(record.kind == "unseen" and record.hints == hints for record in records.about(tree)):
        record = Record(ts=hook.now, kind="unseen", stage=hook.stage, tree=tree, hints=hints)
        try:
            records.append(record)
        except StorageError as error:
            hook.say(f"vibe-gate: not recorded: {safe(str(error))}")


def loud(sentence: str) -> str:
    """The sentence, so that nobody overlooks it."""
    rule = "!" * min(len(sentence) + 12, 100)
    return f"{rule}\nvibe-gate: {sentence}\n{rule}"
