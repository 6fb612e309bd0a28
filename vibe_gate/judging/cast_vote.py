"""Votes on a question as they are cast, kept and counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from vibe_gate.domain.cause import Cause
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import CheckedEvidence, Vote
from vibe_gate.judging.vote_counting import settle_votes


class CastVote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One vote on one question. state.db keeps it."""

    by_criterion: dict[str, Vote] = field(name="votes")
    """By criterion id, what it says."""

    model: str
    """The language model that cast it."""

    unreviewed: tuple[Unreviewed, ...] = ()
    """What the judge was not shown."""

    addressed: tuple[CheckedEvidence, ...] = ()
    """Changed lines that speak to the reviewer."""

    used_tools: bool = True
    """Whether the judge looked beyond its brief, so that the answer may depend on all of both
    trees.
    """

    def join(self, other: CastVote) -> CastVote:
        """The same vote on the criteria of both: in one run it was asked about some, in another
        about the rest.
        """
        return replace(
            self,
            by_criterion={**self.by_criterion, **other.by_criterion},
            unreviewed=tuple(dict.fromkeys((*self.unreviewed, *other.unreviewed))),
            addressed=tuple(dict.fromkeys((*self.addressed, *other.addressed))),
            used_tools=self.used_tools or other.used_tools,
        )

    def keep_for_later(self, bundle: str) -> CastVote:
        """What a later run can take: real answers, and their turns named from the repository's
        root.

        A refusal, a lost answer or a fault is not kept: the next run may fare better.

        Args:
            bundle: The folder of the run that cast it, relative to that root; "" if it is not
            recorded.
        """
        lasting_votes = {}
        for criterion_id, vote in self.by_criterion.items():
            if vote.is_whole:
                lasting_votes[criterion_id] = replace(vote, turn=_turn_from_root(vote.turn, bundle))
        return replace(self, by_criterion=lasting_votes)


def _turn_from_root(turn: str, bundle: str) -> str:
    if not turn.startswith("nodes/"):  # of an earlier run
        return turn
    return f"{bundle}/{turn}" if bundle else ""


class RubricVotes(Struct, frozen=True, kw_only=True):
    """The answer to one question."""

    by_criterion: dict[str, tuple[Vote, ...]]
    """By criterion id, its votes."""

    stopped: Cause | None = None
    """Why voting stopped early; None if it did not."""

    unreviewed: tuple[Unreviewed, ...] = ()
    """What no judge was shown."""

    addressed: tuple[CheckedEvidence, ...] = ()
    """Changed lines that speak to the reviewer, as any of the votes says."""

    is_kept: bool = False
    """Whether an earlier run cast any of the votes."""

    @property
    def is_final(self) -> bool:
        """Whether asking again could only cost: every vote is an answer, and none is missing."""
        votes = list(chain.from_iterable(self.by_criterion.values()))
        return not self.stopped and bool(votes) and all(vote.is_whole for vote in votes)


def count_votes(
    criterion_ids: Iterable[str], planned: int, cast: Mapping[int, CastVote]
) -> dict[str, tuple[Vote, ...]]:
    """The votes that count, by criterion id: in the order of their numbers, up to the one that
    settles the outcome.

    A vote that is missing, or says nothing of a criterion, ends the count of that criterion.

    Args:
        criterion_ids: Those that were asked.
        planned: How many votes are cast at most.
        cast: The votes by number, from 1.
    """
    return {criterion_id: _votes_on(criterion_id, planned, cast) for criterion_id in criterion_ids}


def _votes_on(criterion_id: str, planned: int, cast: Mapping[int, CastVote]) -> tuple[Vote, ...]:
    votes: list[Vote] = []
    for number in range(1, planned + 1):
        if settle_votes(votes, planned) is not None:
            break
        if number not in cast or criterion_id not in cast[number].by_criterion:
            break
        votes.append(cast[number].by_criterion[criterion_id])
    return tuple(votes)


def settle_question(
    criterion_ids: Iterable[str], planned: int, cast: Mapping[int, CastVote]
) -> RubricVotes | None:
    """The answer to a question if these votes settle it, else None. Arguments as of
    `count_votes`.
    """
    by_criterion = count_votes(criterion_ids, planned, cast)
    if not by_criterion:
        return None
    for votes in by_criterion.values():
        if settle_votes(votes, planned) is None:
            return None
    unreviewed: dict[Unreviewed, None] = {}
    for vote in counted_casts(by_criterion, cast):
        unreviewed |= dict.fromkeys(vote.unreviewed)
    return RubricVotes(
        by_criterion=by_criterion,
        unreviewed=tuple(unreviewed),
        addressed=addressed_lines(by_criterion, cast),
        is_kept=True,
    )


def counted_casts(
    by_criterion: Mapping[str, Sequence[Vote]], cast: Mapping[int, CastVote]
) -> list[CastVote]:
    """The votes of which something counts, in the order of their numbers."""
    most_votes = max((len(votes) for votes in by_criterion.values()), default=0)
    return [cast[number] for number in range(1, most_votes + 1)]


def addressed_lines(
    by_criterion: Mapping[str, Sequence[Vote]], cast: Mapping[int, CastVote]
) -> tuple[CheckedEvidence, ...]:
    """The lines that speak to the reviewer, as the votes that count say, each once."""
    lines: dict[CheckedEvidence, None] = {}
    for vote in counted_casts(by_criterion, cast):
        lines |= dict.fromkeys(vote.addressed)
    return tuple(lines)
