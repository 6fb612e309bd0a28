"""Where a commit stands: which receipt is about it, by what, and what that is worth. Pure; `verify` finds the rest.

A receipt is about a commit by one of four matches, the closest first:

    commit            it names the commit, and both trees are the commit's
    tree              both trees are the commit's: reviewed before it was committed, or amended since
    patch-id          the same change on another base: rebased, cherry-picked
    range patch-id    a whole range was reviewed that the commit is part of, or that was squashed into it

A patch-id leaves out white space, and where in a file the lines stand, so by a patch-id
alone nothing is found: the change's exact digest and its places must be the same, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Literal

from vibe_gate.domain.gate import JudgeWhen
from vibe_gate.domain.receipt import Receipt, Signature, exact, own_signer, reusable

if TYPE_CHECKING:
    from vibe_gate.domain.change import Change
    from vibe_gate.domain.provenance import Commit

Match = Literal["commit", "tree", "patch-id", "range patch-id"]
MATCHES: tuple[Match, ...] = ("commit", "tree", "patch-id", "range patch-id")

Status = Literal[
    "reviewed", "overridden", "empty", "failed", "inconclusive", "approval", "stale", "incomplete", "unsigned",
    "missing", "bypassed", "forged",
]  # fmt: skip
"""`approval`: the gate itself changed and nobody approved; `incomplete`: less was asked than the gate demands;
`unsigned`: a pass that only its author's machine vouches for, where more is demanded; `empty`: no file changed."""

UNSIGNED = Signature("unsigned", why="it is not signed")

GOOD: frozenset[Status] = frozenset({"reviewed", "overridden", "empty"})

MAX_FAILS = 5
"""Earlier fails of one commit that are told."""

_ASKED: frozenset[Status] = frozenset({"reviewed", "overridden", "failed", "inconclusive", "approval"})
"""What only a verdict can say that is whole and holds today."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A commit as far as a receipt can be about it; `authors` are the addresses of author and committer."""

    commit: str
    before: str
    after: str
    patch_id: str
    exact: str
    authors: tuple[str, ...] = ()
    title: str = ""
    places: str = ""

    def is_same_change(self, receipt: Receipt) -> bool:
        """Whether the receipt is about this very change, at this very place, perhaps in other trees."""
        return receipt.exact == self.exact and bool(receipt.places) and receipt.places == self.places


def subject_of(change: Change, made: Iterable[Commit]) -> Subject:
    """The change that these commits made, without title and places: enough where commit or trees must match."""
    return Subject(
        commit=change.head_commit,
        before=change.before,
        after=change.after,
        patch_id=change.patch_id,
        exact=exact(change),
        authors=tuple(dict.fromkeys(mail for one in made for mail in (one.author_email, one.committer_email))),
    )


@dataclass(frozen=True, slots=True)
class Paper:
    """One receipt that was found, and where. `flaw` says why it is forged, "" where nothing speaks against it.

    `receipt` is None where the flaw is that there is none that can be read. `bundled`:
    it lies in a bundle here, which was compared with it; else it came by a note.
    """

    run_id: str
    place: str
    receipt: Receipt | None
    signature: Signature = UNSIGNED
    flaw: str = ""
    bundled: bool = True


@dataclass(frozen=True, slots=True)
class Demands:
    """What the gate demands of a commit today: digests of rubrics by id and of definitions by path ("": not there).

    `judge` is the gate's rule about asking one, and `hints` what says that an agent wrote
    the commit: itself, or what hooks recorded of it. `strict`: as in CI, only a listed
    signer who is not the author counts.
    """

    rubrics: Mapping[str, str]
    definitions: Mapping[str, str]
    today: date
    judge: JudgeWhen = "agent-authored"
    hints: tuple[str, ...] = ()
    strict: bool = False

    def judge_for(self, receipt: Receipt) -> bool:
        """Whether a judge must have been asked; a hint of then counts as much as one of today."""
        return self.judge == "always" or (
            self.judge == "agent-authored" and (bool(self.hints) or receipt.agent_authored)
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """How a commit stands, by which match of which paper; `why` is a sentence for people."""

    status: Status
    why: str
    match: Match | None = None
    paper: Paper | None = None
    notes: tuple[str, ...] = field(default=())


def match(subject: Subject, receipt: Receipt, covered: bool = False) -> Match | None:
    """By what the receipt is about the commit; None if it is not.

    `covered`: the receipt's range, held against today's commits, has the commit in it.
    """
    same_trees = (receipt.before, receipt.after) == (subject.before, subject.after)
    if same_trees and receipt.head_commit == subject.commit:
        return "commit"
    if same_trees:
        return "tree"
    if receipt.head_commit == subject.commit and receipt.after != subject.after:
        return "commit"  # that is a lie, and `judged` says so
    same_change = subject.is_same_change(receipt)
    if same_change and subject.patch_id and receipt.patch_id == subject.patch_id:
        return "patch-id"
    if covered or (same_change and subject.patch_id and receipt.range_patch_id == subject.patch_id):
        return "range patch-id"
    return None


def lie(subject: Subject, receipt: Receipt) -> str:
    """What the receipt says of the commit that is not so, as a sentence; "" where it says nothing wrong."""
    if receipt.head_commit == subject.commit and receipt.after != subject.after:
        return "its receipt names this commit with another tree"
    if (receipt.before, receipt.after) == (subject.before, subject.after) and receipt.exact != subject.exact:
        return "its receipt names the commit's trees and another change"
    return ""


def judged(found: Match, paper: Paper, subject: Subject, demands: Demands) -> Standing:
    """What one paper, that is about the commit by `found`, says of it."""
    receipt = paper.receipt
    status: Status
    status, why = ("forged", paper.flaw) if paper.flaw or receipt is None else _worth(paper, receipt, subject, demands)
    return Standing(status, why, found, paper)


def best(standings: list[Standing]) -> Standing | None:
    """The one that decides: of whole verdicts the closest match, and of these the newest; else what went wrong last.

    `standings` are in any order. A forged paper beside a good one is told in a note, and so is a fail of the same
    trees: whoever asks again until it passes (`--force`) has not changed what was wrong.
    """
    order = sorted(standings, key=_newest_of_the_closest)
    whole = [standing for standing in order if standing.status in _ASKED]
    forged = [standing for standing in order if standing.status == "forged"]
    if not whole:
        return next(iter(forged or order), None)
    decisive = whole[0]
    notes = (
        *(f"another review of the same trees failed: {_place(one)}" for one in _failed_before(whole)),
        *(f"a forged receipt was left aside: {_place(one)}: {one.why}" for one in forged),
    )
    return Standing(decisive.status, decisive.why, decisive.match, decisive.paper, (*decisive.notes, *notes))


def _failed_before(whole: list[Standing]) -> list[Standing]:
    """Of verdicts, of which the first decides and is good: those that failed, about the very same trees."""
    if whole[0].status not in GOOD:
        return []
    return [one for one in whole[1:] if one.status == "failed" and one.match in ("commit", "tree")][:MAX_FAILS]


def _newest_of_the_closest(standing: Standing) -> tuple[int, str]:
    # A run id begins with its time; the order of characters is turned round for the newest first.
    run_id = standing.paper.run_id if standing.paper else ""
    place = MATCHES.index(standing.match) if standing.match else len(MATCHES)
    return place, "".join(chr(0x7F - ord(char)) if ord(char) < 0x7F else char for char in run_id)


def _place(standing: Standing) -> str:
    return standing.paper.place if standing.paper else ""


def _worth(paper: Paper, receipt: Receipt, subject: Subject, demands: Demands) -> tuple[Status, str]:
    if wrong := lie(subject, receipt):
        return "forged", wrong
    if paper.signature.state in ("bad", "unlisted"):
        return "forged", paper.signature.why
    if changed := _changed(receipt, demands):
        return "stale", changed
    if absent := [name for name in demands.rubrics if name not in {rubric.id for rubric in receipt.rubrics}]:
        return "incomplete", f"not held against: {', '.join(absent)}"
    if receipt.outcome == "fail":
        return "failed", "the review failed"
    if receipt.exit_code == 4:
        return "approval", "the gate itself changed, and nobody approved that"
    if receipt.exit_code != 0:
        return "inconclusive", f"the review reached no verdict (exit code {receipt.exit_code})"
    if demands.judge_for(receipt) and receipt.unasked:
        hint = f"; but {demands.hints[0]}" if demands.hints else ""
        return "incomplete", f"checks only; {receipt.unasked}{hint}"
    return _passed(paper, receipt, subject, demands)


def _passed(paper: Paper, receipt: Receipt, subject: Subject, demands: Demands) -> tuple[Status, str]:
    signature = paper.signature
    use, why = reusable(receipt, signature, subject.authors, judge=demands.judge_for(receipt))
    if demands.strict and signature.state == "listed" and own_signer(signature, subject.authors):
        return "forged", why
    if demands.strict and use != "verdict":
        return "unsigned", why
    if not paper.bundled and signature.state != "listed":
        return "unsigned", f"it came by a note, and {why}"
    expired = [waiver for waiver in receipt.waivers if waiver.expires is not None and waiver.expires < demands.today]
    if expired:
        return "failed", f"what let it pass expired on {expired[0].expires}: {expired[0].reason}"
    local = [waiver for waiver in receipt.waivers if waiver.local]
    if local:
        return "overridden", "; ".join(waiver.sentence for waiver in local)
    checks = "; checks only: no judge was asked" if receipt.unasked else ""
    return "reviewed", (why if use == "verdict" else f"display only: {why}") + checks


def _changed(receipt: Receipt, demands: Demands) -> str:
    """Which definition is another one today than when the receipt was made, as a sentence; "" where none is."""
    for path, digest in demands.definitions.items():
        if receipt.definitions.get(path, "") != digest:
            return f"{path} has changed since"
    for rubric in receipt.rubrics:
        if demands.rubrics.get(rubric.id, rubric.digest) != rubric.digest:
            return f"the rubric {rubric.id} has changed since"
    return ""
