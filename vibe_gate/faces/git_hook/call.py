"""One call of a hook by git: where and when it happens, what a verdict does to git, and how a
failed review ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from vibe_gate.domain.agent_hint import AgentHint
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record, agent_hints
from vibe_gate.errors import (
    INCONCLUSIVE,
    PASS,
    POLICY_CHANGED,
    DefinitionError,
    GateError,
    StorageError,
)
from vibe_gate.faces.git_hook.framework_call import FrameworkCall
from vibe_gate.faces.git_hook.terminal import Terminal, terminal
from vibe_gate.faces.git_hook.unreviewed import (
    STOPPABLE,
    files_want_block,
    goes_through,
    is_stopped,
    loud,
)
from vibe_gate.git import Repository, open_repository

if TYPE_CHECKING:
    from vibe_gate.domain.gate import HookName
    from vibe_gate.store.clone_state import CloneState

PASSED = "vibe-gate/passed"
"""File in the common git directory, of one line: what the hook before the commit let through, for
the scripts that git runs next. They start Python only for what it does not settle.

`PROCESS TREE BEFORE AUTHOR VERDICT`: the process that ran the hook (git, or a framework), the tree
that may be committed and the one that it was compared with, `agent`, `judged` or `person`, and
`pass` or `warn`. Nothing that a message says changes a verdict about an agent's or a judged change.
"""

TRACED = "trace"
"""File in the state's folder: the hooks keep Agent Trace records (`install git --trace`)."""

REFUSED = 10
"""The exit code by which Python refuses: it ends with 1 or 2 when it cannot start, and that must
not stop git.
"""


class Effect(Struct, frozen=True):
    """What a verdict does to git (see docs/guides/hooks.md)."""

    code: int
    """The hook's exit code: 0 lets git continue."""
    warning: str = ""
    """A sentence to be shown prominently, or ""."""

    @property
    def blocks(self) -> bool:
        """Whether git is stopped."""
        return self.code != PASS


def effect(
    code: int,
    on_inconclusive: Literal["pass", "warn", "block"],
    *,
    in_ci: bool,
    strict: bool,
    stage: HookName = "pre-commit",
) -> Effect:
    """Map exit code `code` of the command line to what a git hook does. In CI it stays what it
    is.
    """
    if code not in (INCONCLUSIVE, POLICY_CHANGED) or in_ci or strict:
        return Effect(code)
    if code == POLICY_CHANGED:
        return Effect(
            PASS,
            "this change edits the gate itself: a maintainer must approve. CI will ask for it.",
        )
    if on_inconclusive == "block":
        return Effect(code)
    if on_inconclusive == "pass":
        return Effect(PASS)
    return Effect(PASS, goes_through(stage))


NO_FRAMEWORK = FrameworkCall()


class Hook(Struct, frozen=True):
    """One call by git: its stage, its arguments and its environment."""

    stage: HookName
    words: tuple[str, ...]
    """Git's own arguments."""
    environment: Environment
    start: Path
    """The folder in which git calls the hook."""
    clock: Callable[[], datetime]
    parent: int
    """The id of the calling process, git itself with `install git`."""
    stdin: Callable[[], str]
    """Reads what git writes to the hook."""
    say: Callable[[str], None]
    """Prints lines for people."""
    state: Callable[[Path], CloneState]
    """Gives the shared state of a common git directory, opened once."""
    framework: FrameworkCall = NO_FRAMEWORK
    strict: bool = False
    """Whether git is stopped where the hook would only warn."""
    terminal: Callable[[], AbstractContextManager[Terminal | None]] = terminal
    """Opens that of whoever runs git; None if nobody can be asked there."""
    progress: Callable[[str], None] = print
    """Prints a line that matters only while the hook works."""
    is_on_terminal: bool = False
    """Whether what it prints is seen on a terminal at once."""

    @property
    def now(self) -> str:
        """The time as records carry it: ISO, with milliseconds."""
        return self.clock().isoformat(timespec="milliseconds")

    @property
    def has_index_of_git(self) -> bool:
        """Whether git names the index that it will commit."""
        return "GIT_INDEX_FILE" in self.environment.variables

    @property
    def has_editor(self) -> bool:
        """Whether git lets the user edit the message after this hook."""
        return self.environment.variables.get("GIT_EDITOR") != ":"

    @property
    def hints(self) -> tuple[AgentHint, ...]:
        """Signs in the environment that an agent runs git."""
        return agent_hints(self.environment.agents, ())

    def open_repository(self) -> Repository:
        """The repository in which git calls the hook. GateError, as of the function of this
        name.
        """
        return open_repository(self.start, self.environment)

    def persons_terminal(self) -> AbstractContextManager[Terminal | None]:
        """The terminal of a person who runs git; None of an agent, whose screen it would
        disturb.
        """
        if self.hints:
            return nullcontext(None)
        return self.terminal()


def not_reviewed(hook: Hook, error: GateError) -> int:
    """Report and record that a hook failed (definitions that do not parse, a bug); returns the
    hook's exit code.
    """
    rule: Literal["warn", "block"] = "block" if _wants_block(hook, error) else "warn"
    outcome = effect(
        error.exit_code, rule, in_ci=hook.environment.in_ci, strict=hook.strict, stage=hook.stage
    )
    hook.say("\n".join(f"vibe-gate: {safe(line)}" for line in str(error).splitlines()))
    if outcome.warning:
        hook.say(loud(outcome.warning))
    elif isinstance(error, DefinitionError):
        action = {"pre-push": "push", "pre-merge-commit": "merge"}.get(hook.stage, "commit")
        hook.say(f"vibe-gate: the {action} is stopped until these mistakes are corrected.")
    elif rule == "block" and outcome.blocks:
        hook.say(loud(is_stopped(hook.stage)))
    try:
        _record_failure(hook, error, outcome)
    except Exception as failure:  # noqa: BLE001  the same bug may occur again, and is already reported
        hook.say(f"vibe-gate: not recorded: {safe(str(failure) or type(failure).__name__)}")
    return outcome.code


def _wants_block(hook: Hook, error: GateError) -> bool:
    """Whether the gate in force stops git if a change could not be reviewed."""
    if error.exit_code != INCONCLUSIVE or hook.stage not in STOPPABLE:
        return False
    try:
        from vibe_gate.gate.trusted import standing_gate  # a hook that works has no need of it here

        with hook.open_repository() as repository:
            gate = standing_gate(repository)
    except Exception:  # noqa: BLE001  what failed may fail here, too
        return files_want_block(hook.start)
    return gate is not None and gate.file.on.inconclusive == "block"


def _record_failure(hook: Hook, error: GateError, outcome: Effect) -> None:
    """Append the record that this hook reached no verdict; before a push it is about no tree."""
    with hook.open_repository() as repository:
        commit = tree = before = ""
        if hook.stage not in STOPPABLE:
            commit = repository.resolve("HEAD")
        elif hook.stage != "pre-push":
            tree, before = repository.index_tree(), repository.tree_of(repository.head())
        record = Record(
            ts=hook.now,
            kind="not-reviewed",
            stage=hook.stage,
            commit=commit,
            tree=tree,
            before=before,
            exit_code=error.exit_code,
            blocked=outcome.blocks,
            hints=() if hook.stage == "pre-push" else hook.hints,
            reason=str(error)[:2000],
        )
        hook.state(repository.common_dir).hook_records.append(record)


def record_or_say(hook: Hook, repository: Repository, record: Record) -> bool:
    """Append a record; if that fails, say so. Returns whether it was written."""
    try:
        hook.state(repository.common_dir).hook_records.append(record)
    except StorageError as error:
        hook.say(f"vibe-gate: not recorded: {safe(str(error))}")
        return False
    return True
