"""One call of a hook by git: where and when it happens, what a verdict does to git, and how a failed review ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from vibe_gate.domain import in_ci
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record, agent_hints
from vibe_gate.errors import INCONCLUSIVE, PASS, POLICY_CHANGED, DefinitionError, GateError, StorageError
from vibe_gate.faces.git_hook.terminal import Terminal, terminal
from vibe_gate.git import Repository, open_repository

if TYPE_CHECKING:
    from vibe_gate.domain.gate import HookName
    from vibe_gate.store import State

PASSED = "vibe-gate/passed"
"""In the common git directory: the git process whose pre-commit hook passed without a judge, and the tree.

The scripts of `install git` compare the process; those of the manifest, whose parent is a framework, the tree.
"""

TRACED = "trace"
"""File in the state's folder: the hooks keep Agent Trace records (`install git --trace`)."""

REFUSED = 10
"""The exit code by which Python refuses: it ends with 1 or 2 when it cannot start, and that must not stop git."""


class Effect(Struct, frozen=True):
    """What a verdict does to git (see docs/guides/hooks.md). `code` is the hook's exit code: 0 lets git continue.

    `warning` is a sentence to be shown prominently, or "".
    """

    code: int
    warning: str = ""

    @property
    def blocks(self) -> bool:
        """Whether git is stopped."""
        return self.code != PASS


def effect(
    code: int,
    on_inconclusive: Literal["pass", "warn", "block"],
    environ: Mapping[str, str],
    *,
    strict: bool,
    stage: HookName = "pre-commit",
) -> Effect:
    """Map exit code `code` of the command line to what a git hook does. In CI it stays what it is."""
    if code not in (INCONCLUSIVE, POLICY_CHANGED) or in_ci(environ) or strict:
        return Effect(code)
    if code == POLICY_CHANGED:
        return Effect(PASS, "this change edits the gate itself: a maintainer must approve. CI will ask for it.")
    if on_inconclusive == "block":
        return Effect(code)
    if on_inconclusive == "pass":
        return Effect(PASS)
    return Effect(
        PASS, f"NOT REVIEWED. The {'push' if stage == 'pre-push' else 'commit'} goes through; CI will block it."
    )


class Hook(Struct, frozen=True):
    """One call by git: its stage, its arguments and its environment.

    `parent` is the id of the calling process, git itself with `install git`. `stdin` reads what git writes to the
    hook, `say` prints lines for people, `state` gives the shared state of a common git directory, opened once.
    `terminal` opens that of whoever runs git, None if nobody can be asked there.
    """

    stage: HookName
    words: tuple[str, ...]
    environ: Mapping[str, str]
    start: Path
    clock: Callable[[], datetime]
    parent: int
    stdin: Callable[[], str]
    say: Callable[[str], None]
    state: Callable[[Path], State]
    strict: bool = False
    terminal: Callable[[], AbstractContextManager[Terminal | None]] = terminal

    @property
    def now(self) -> str:
        """The time as records carry it: ISO, with milliseconds."""
        return self.clock().isoformat(timespec="milliseconds")

    @property
    def hints(self) -> tuple[str, ...]:
        """Signs in the environment that an agent runs git."""
        return agent_hints(self.environ, (), uncommitted=True)


def not_reviewed(hook: Hook, error: GateError) -> int:
    """Report and record a review that failed (definitions that do not parse, a bug); returns the hook's exit code."""
    # "warn", the default of [on] inconclusive: without a review there is no gate.toml that says something else.
    what = effect(error.exit_code, "warn", hook.environ, strict=hook.strict, stage=hook.stage)
    hook.say("\n".join(f"vibe-gate: {safe(line)}" for line in str(error).splitlines()))
    if what.warning:
        hook.say(loud(what.warning))
    elif isinstance(error, DefinitionError):
        stopped = {"pre-push": "push", "pre-merge-commit": "merge"}.get(hook.stage, "commit")
        hook.say(f"vibe-gate: the {stopped} is stopped until these mistakes are corrected.")
    # The same bug may occur again here. It is already reported, and must not stop a commit.
    with suppress(Exception), open_repository(hook.start, hook.environ) as repository:
        record = Record(
            ts=hook.now,
            kind="not-reviewed",
            stage=hook.stage,
            tree="" if hook.stage == "pre-push" else repository.index_tree(),
            before="" if hook.stage == "pre-push" else repository.tree_of(repository.head()),
            exit_code=error.exit_code,
            blocked=what.blocks,
            hints=() if hook.stage == "pre-push" else hook.hints,
            reason=str(error)[:2000],
        )
        hook.state(repository.common_dir).hook_records.append(record)
    return what.code


def record_or_say(hook: Hook, repository: Repository, record: Record) -> bool:
    """Append a record; if that fails, say so. Returns whether it was written."""
    try:
        hook.state(repository.common_dir).hook_records.append(record)
    except StorageError as error:
        hook.say(f"vibe-gate: not recorded: {safe(str(error))}")
        return False
    return True


def loud(sentence: str) -> str:
    """The sentence between two rules of exclamation marks."""
    rule = "!" * min(len(sentence) + 12, 100)
    return f"{rule}\nvibe-gate: {sentence}\n{rule}"
