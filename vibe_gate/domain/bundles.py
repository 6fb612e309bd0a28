"""Words about recorded runs that several rooms share: a line of a list, what is looked for, where a
run came from.

The store finds and makes these values; receipts, reports and faces read them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Literal, TypedDict

from msgspec import Struct

CHANGE_IDS = ("before", "after", "base_commit", "head_commit", "patch_id", "range_patch_id")
"""What a change, its summary, its receipt and its run are known by."""

STORE = ".vibe-artifacts"
"""The store's folder at the top of a working tree."""

OUTCOMES = ("pass", "fail", "inconclusive", "error")
STATES = ("running", "incomplete", "corrupt", "foreign")
"""States of a run without an outcome to show."""

RunState = Literal["sealed", "running", "incomplete", "corrupt", "foreign"]
Match = Literal["commit", "tree", "patch_id", "range_patch_id"]
MATCHES: tuple[Match, ...] = ("commit", "tree", "patch_id", "range_patch_id")
"""The ways in which a run can be about a change, the closest first."""

REPLAY = "replay-"
"""Begins the key of runs that judged a stored run again; that run's id follows. So no run that is
looked for by its change is a replay, and none counts as a review.
"""

_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{9}Z-[0-9a-f]{8}")
_CLOCK_MAY_GO_BACK = timedelta(minutes=5)

_EXIT_CODES: dict[str, tuple[int, ...]] = {
    "pass": (0, 4),
    # 4: by the first order of outcomes, which the sample bundle of format 1 still shows
    "fail": (1, 4),
    "inconclusive": (3, 4, 5),
    "error": (3, 4, 5),
}
"""The exit codes that a review may end with, by its outcome."""


def is_run_id(name: str) -> bool:
    """Whether a name has the form of a run id, `YYYYMMDDTHHMMSSmmmZ-xxxxxxxx`."""
    return _RUN_ID.fullmatch(name) is not None


def replay_key(run_id: str) -> str:
    """The key of the replays of this run."""
    return f"{REPLAY}{run_id}"


def began(run_id: str) -> str:
    """The time in a run id as ISO 8601 in UTC, with milliseconds."""
    year, month, day = run_id[:4], run_id[4:6], run_id[6:8]
    hours, minutes, seconds = run_id[9:11], run_id[11:13], run_id[13:15]
    milliseconds = run_id[15:18]
    return f"{year}-{month}-{day}T{hours}:{minutes}:{seconds}.{milliseconds}Z"


def is_evidence(key: str, cost_basis: str) -> bool:
    """Whether others want a run: not a replay, nor one of checks alone about uncommitted work."""
    is_uncommitted = key.startswith("tree-")
    return not key.startswith(REPLAY) and not (is_uncommitted and cost_basis == "none")


def impossible(outcome: str, exit_code: int) -> str:
    """Why no review ends with this outcome and exit code; "" if one may."""
    if exit_code in _EXIT_CODES.get(outcome, ()):
        return ""
    return f"exit code {exit_code} contradicts outcome {outcome!r}"


class RunEntry(Struct, frozen=True, order=True):
    """One run as a list shows it. Of a run that is not sealed only `run_id`, `key` and `state` are
    known.

    `author` is "agent" or "human", `cost_usd` US dollars, `rubrics` pairs of id and outcome,
    `paths` the changed paths and the old paths of renames, as shown (`paths.quote`), `extent` what
    a pass lacks (`Summary.extent`).
    """

    run_id: str
    key: str
    state: RunState = "sealed"
    outcome: str = ""
    exit_code: int = 0
    author: str = ""
    workflow: str = ""
    before: str = ""
    after: str = ""
    base_commit: str = ""
    head_commit: str = ""
    patch_id: str = ""
    range_patch_id: str = ""
    files: int = 0
    added: int = 0
    deleted: int = 0
    findings: int = 0
    cost_usd: float = 0.0
    cost_basis: str = "none"
    duration_ms: int = 0
    rubrics: tuple[tuple[str, str], ...] = ()
    paths: tuple[str, ...] = ()
    extent: str = ""

    @property
    def place(self) -> str:
        """`<key>/<run id>`."""
        return f"{self.key}/{self.run_id}"

    @property
    def bundle(self) -> str:
        """The bundle's folder, relative to the top of the working tree."""
        return f"{STORE}/{self.key}/{self.run_id}"

    @property
    def is_of_commit(self) -> bool:
        """Whether it is about a commit (or a range up to it), not about what is staged; False of a
        replay, too.
        """
        return "-" not in self.key

    @property
    def replay_of(self) -> str:
        """The id of the run that it judged again; "" of a review."""
        if not self.key.startswith(REPLAY):
            return ""
        return self.key.removeprefix(REPLAY)

    @property
    def created_at(self) -> str:
        """When the run began: ISO 8601 in UTC with milliseconds, by its id."""
        return began(self.run_id)

    def is_about(self, match: Match, name: str) -> bool:
        """Whether the run is about the change that has this id (never for ""), by this way of
        matching.
        """
        if name == "":
            return False
        if match == "commit":
            return name in (self.head_commit, self.key)
        if match == "tree":
            return name == self.after or self.key == f"tree-{name}"
        return name == (self.patch_id if match == "patch_id" else self.range_patch_id)


class Wanted(TypedDict, total=False):
    """What a run must be to be found; everything given must hold."""

    run: str
    """The whole run id."""
    prefix: str
    """How the run id begins."""
    commit: str
    """The head commit's id."""
    tree: str
    """The id of the tree after the change."""
    patch_id: str
    """The stable patch-id of the reviewed commit."""
    range_patch_id: str
    """The stable patch-id of the whole reviewed change."""
    outcome: str
    """pass, fail, inconclusive or error; or a state: sealed, running, incomplete, corrupt,
    foreign.
    """
    rubric: str
    """The id of a rubric that the review asked."""
    author: Literal["agent", "human"]
    """Who wrote the change."""
    path: str
    """A glob that a changed path, or the old path of a rename, matches."""
    since: datetime
    """Runs that began at this time or later."""


class Provenance:
    """Tells which runs a review in this working tree cannot have written.

    A repository can commit a sealed, green bundle dated far in the future; such a run is foreign.
    """

    def __init__(self, now: datetime, tracked: Collection[str] = ()) -> None:
        """`tracked`: the paths below the store that git tracks, relative to the root
        (`Repository.tracked`).
        """
        self.now = now
        self.tracked = frozenset(tracked)
        newest = now + _CLOCK_MAY_GO_BACK
        self._newest = (
            f"{newest.astimezone(UTC):%Y%m%dT%H%M%S}999Z~"  # behind every id of its second
        )
        # Without case: on a disk that ignores it, a tracked .VIBE-ARTIFACTS is the store.
        self._places = {tuple(path.casefold().split("/")[:3]) for path in self.tracked}

    def foreign(self, key: str, run_id: str) -> str:
        """Why the run is foreign, in a few words; "" if nothing says so."""
        place = (STORE, key.casefold(), run_id.casefold())
        if self._places and any(place[:length] in self._places for length in (1, 2, 3)):
            return "git tracks it: it came with the repository, no review here wrote it"
        if run_id > self._newest:
            return f"it is dated {began(run_id)}, in the future: no review here wrote it"
        return ""
