"""What verifying, repairing, cleaning and moving runs found and did: made by the store, printed by
faces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from vibe_gate.domain.summary import Summary

ProblemState = Literal["corrupt", "foreign", "untidy", "incomplete", "running"]
"""How bad a problem is.

`corrupt` and `foreign` are integrity errors. `untidy` loses nothing: a crash left it.
`incomplete` and `running` are states that a run may have.
"""

ProblemKind = Literal[
    "run",
    "entry",
    "temporary",
    "digest",
    "document",
    "log",
    "turn",
    "content",
    "missing",
    "unreadable",
]

WORKSPACE_DAYS = 7
"""How long a workspace that nobody uses stays: runs that died are resumed in it, sessions go on
from its trees.
"""

PATCH_DAYS = 30
"""How long the patch of a run that could not be recorded stays in the git directory."""

WRONG: frozenset[ProblemState] = frozenset({"corrupt", "foreign"})


class Problem(Struct, frozen=True):
    """One thing that `bundles verify` found.

    `place` is relative to the store, with "/"; `run` is `<key>/<run id>`, "" if the problem is
    about no run.
    """

    state: ProblemState
    what: ProblemKind
    place: str
    why: str
    run: str = ""


class Verified(Struct, frozen=True):
    """What was checked and what was found; `runs` and `contents` are counts."""

    runs: int
    contents: int
    problems: tuple[Problem, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is corrupt or foreign."""
        return not any(problem.state in WRONG for problem in self.problems)


class Mended(Struct, frozen=True):
    """One thing that a repair did: about which problem, and what, in a few words."""

    problem: Problem
    done: str


class Repaired(Struct, frozen=True):
    """What a repair did. `left` is what is still wrong; `quarantine` where things were moved, "" if
    nothing was.
    """

    mended: tuple[Mended, ...]
    left: Verified
    quarantine: str = ""


class Cleaned(Struct, frozen=True):
    """What a cleaning did, or would do. `deleted` are run ids, oldest first; `errors` sentences.

    `sessions` are the names of captured sessions that were deleted with them; `answers` and
    `claims` are numbers, of a shared store.
    """

    deleted: tuple[str, ...] = ()
    freed_mb: float = 0.0
    errors: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    answers: int = 0
    claims: int = 0


class KeyUsage(Struct, frozen=True):
    """Bytes of one key's bundles, and their number."""

    key: str
    runs: int
    size: int


class StoreUsage(Struct, frozen=True):
    """Bytes of a store: by key, the largest first, and by other folder; `total` is the sum."""

    keys: tuple[KeyUsage, ...]
    besides: dict[str, int]
    total: int


class Imported(Struct, frozen=True):
    """`<key>/<run id>` of the runs that are new, and of those that were here already with the same
    content.
    """

    runs: tuple[str, ...]
    already: tuple[str, ...]


class SealedDocuments(Struct, frozen=True):
    """A sealed run's documents as they are stored, for whoever checks its receipt.

    `document` is the summary without `digests`, `digests` those of the other files without the
    receipt's, `receipt` the bytes of receipt.json, None if there is none. Of a receipt that is too
    large only the beginning is there: `domain.receipt.parse` refuses it.
    """

    document: Mapping[str, Any]
    digests: Mapping[str, str]
    receipt: bytes | None


class BatchRun(Struct, frozen=True):
    """A run that belongs to a batch: its summary, or why it does not count, as a sentence. Neither:
    there is none.
    """

    summary: Summary | None = None
    fault: str = ""
