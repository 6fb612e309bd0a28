"""Every error that vibe-gate raises on purpose, and the exit code each one means.

    GateError
    ├── UsageError                  2   what was asked cannot be understood
    │   ├── DefinitionError         2   gate.toml, a rubric or an agent does not parse
    │   ├── RevisionError           2   a revision names nothing, or history is cut short there
    │   └── UnsupportedRepository   2   a repository format that libgit2 cannot open
    ├── InfrastructureError         3   the review could not be carried out
    │   ├── AgentError              3   the agent's process could not be started or died
    │   │   └── AgentFailed         3   the agent's session ended without its work being done
    │   ├── GatewayError            3   the model's wire: credentials, cassette, connection
    │   ├── StorageError            3   a bundle could not be written or read
    │   └── ForgeError              3   the forge refused, or gave no answer that can be read
    ├── ApprovalNeeded              3   a run waits for a person
    └── IntegrityError              5   what was reviewed is not what is there

Faces catch `GateError` once, print its sentence and return `exit_code`; nothing
else catches broadly. Every message says what happened and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable

PASS = 0
"""pass, or nothing to review"""
FAIL = 1
"""fail"""
USAGE = 2
"""usage, or definitions that do not parse"""
INCONCLUSIVE = 3
"""not reviewed: inconclusive, or an infrastructure error"""
POLICY_CHANGED = 4
"""the change edits the gate's own definitions: needs approval"""
INTEGRITY = 5
"""integrity: what was reviewed is not what is there, or a bundle is corrupt"""
INTERRUPTED = 130
"""interrupted (Ctrl-C or SIGTERM): nothing was decided"""


class GateError(Exception):
    """Base of the tree. `str(error)` is a sentence for the user."""

    exit_code = INCONCLUSIVE


class UsageError(GateError):
    """The command line, a revision or a definition cannot be understood."""

    exit_code = USAGE


class DefinitionError(UsageError):
    """One or more mistakes in the repository's definitions.

    `mistakes` holds one sentence each, with file, line, key and suggestion.
    """

    def __init__(self, mistakes: Iterable[object]) -> None:
        self.mistakes = [str(mistake) for mistake in mistakes]
        super().__init__("\n".join(self.mistakes))


class RevisionError(UsageError):
    """A revision names nothing here, or history is cut short before it."""

    def __init__(self, sentence: str, revision: str = "") -> None:
        """`revision`: the one that names no commit, as it was given; "" if it is another reason."""
        super().__init__(sentence)
        self.revision = revision


class UnsupportedRepository(UsageError):
    """A repository, index or object format that libgit2 cannot open."""


class InfrastructureError(GateError):
    """The review could not be carried out; it says nothing about the change."""

    exit_code = INCONCLUSIVE


class AgentError(InfrastructureError):
    """The agent's process could not be started, or died without an answer.

    `details` is what another program said of it.
    """

    def __init__(self, sentence: str, details: str = "") -> None:
        super().__init__(sentence)
        self.details = details


class AgentFailed(AgentError):
    """The agent's session ended at a limit, by a refusal, or because the model could not be asked.

    `status` says which; `result` is the RunResult of what was recorded until then.
    """

    def __init__(self, sentence: str, status: str, result: object = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.result = result


class GatewayError(InfrastructureError):
    """The model's wire: no credentials, a cassette that does not match, no connection."""


class StorageError(InfrastructureError):
    """A bundle could not be written or read."""


class ForgeError(InfrastructureError):
    """The forge refused something, or gave no answer that can be read; it never changes a verdict.

    `status` is HTTP's, 0 where there was no answer: then, and at a 5xx, it may have been done all
    the same.
    `permission` is what the token lacks, as a job's `permissions` name it ("checks: write"), if the
    forge says so.
    """

    def __init__(self, sentence: str, status: int = 0, permission: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.permission = permission


class ApprovalNeeded(GateError):
    """A run waits for a person to approve its next agent.

    Not exit code 4, which says of a finished review that the change edits the gate: here nothing is
    decided yet.
    """


class IntegrityError(GateError):
    """What was reviewed is not what is there."""

    exit_code = INTEGRITY
