"""The votes on a change's questions that earlier reviews cast, as state.db and the store of a team
keep them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache

from vibe_gate.context.world import RunContext
from vibe_gate.domain.document import holds_all, plain, read
from vibe_gate.domain.leaving import may_leave
from vibe_gate.domain.model_wire import Wire
from vibe_gate.git import Repository
from vibe_gate.judging.cast_vote import CastVote, RubricVotes, settle_question
from vibe_gate.judging.questions import RubricQuestion
from vibe_gate.judging.rubric_brief import RubricBrief


class VoteCache:
    """Kept votes of one review.

    A recording must hold the conversation and a replay must show it: neither uses what is kept.
    """

    writes: bool
    """Whether votes that are cast are kept."""

    reads: bool
    """Whether kept votes count."""

    votes: dict[str, dict[int, CastVote]]
    """What was found, by key of the question and number of the vote."""

    def __init__(self, repository: Repository, run: RunContext, wire: Wire, *, force: bool) -> None:
        """`force`: nothing that is kept counts; what is cast is kept all the same."""
        self.writes = wire.mode == "live"
        self.reads = self.writes and not force
        self.votes = {}
        self._read_file = cache(repository.read)
        self._run = run

    def find(self, questions: Sequence[RubricQuestion], briefs: Sequence[RubricBrief] = ()) -> None:
        """Find kept votes on these questions about the same trees, and on these briefs, whatever
        trees they are of.

        A vote on a brief counts if its judge was shown the same and looked at nothing else, and its
        evidence stands in this change. What is said about the trees comes before what is said of a
        brief.
        """
        if not self.reads:
            return
        now = self._run.clock()
        self._run.state.answers.fetch(_shared_vote_keys(questions, briefs), now)
        for question in questions:
            self._add_votes(question.key, self._kept_votes(question, question.about, now))
        for brief in briefs:
            kept_votes = self._kept_votes(brief.question, (brief.about,), now)
            supported_votes = {}
            for number, vote in kept_votes.items():
                if brief.supports(vote, self._read_file):
                    supported_votes[number] = vote
            self._add_votes(brief.question.key, supported_votes)

    def _add_votes(self, question_key: str, kept_votes: Mapping[int, CastVote]) -> None:
        votes = self.votes.setdefault(question_key, {})
        for number, vote in kept_votes.items():
            earlier_vote = votes.get(number)
            votes[number] = vote.join(earlier_vote) if earlier_vote else vote

    def _kept_votes(
        self, question: RubricQuestion, content_ids: Sequence[str], now: datetime
    ) -> dict[int, CastVote]:
        """By number, the kept votes about these trees or this brief."""
        kept_votes = {}
        for number in range(1, question.rubric.votes + 1):
            for model, key in question.vote_keys(number, content_ids).items():
                vote = self._kept_vote(model, key, now)
                if vote is not None:
                    kept_votes[number] = vote
                    break
        return kept_votes

    def _kept_vote(self, model: str, key: str, now: datetime) -> CastVote | None:
        document = self._run.state.answers.get(key, now)
        if document is None:
            return None
        with suppress(ValueError):  # written by another version, or by someone else: a miss
            vote = read(CastVote, document)
            if vote.model == model and holds_all(vote, document):
                return vote
        return None

    def answer_to(self, question: RubricQuestion) -> RubricVotes | None:
        """The answer that the found votes settle; None if they leave a criterion open."""
        votes = self.votes.get(question.key, {})
        return settle_question(question.criterion_ids, question.rubric.votes, votes)

    def keep(
        self, cast: Mapping[str, Mapping[int, CastVote]], briefs: Iterable[RubricBrief]
    ) -> str:
        """Keep what was cast, by key of the question and number, for later reviews.

        Returns why something could not be kept, as a clause, or "".
        """
        run = self._run
        now = run.clock()
        last_problem = ""
        for brief in briefs:
            earlier_votes = self.votes.get(brief.question.key, {})
            for number, cast_vote in cast[brief.question.key].items():
                vote = cast_vote.keep_for_later(run.record.relative)
                if number in earlier_votes:
                    vote = earlier_votes[number].join(vote)
                if vote.by_criterion:
                    last_problem = self._keep_vote(brief, number, vote, now) or last_problem
        run.state.answers.prune(now)
        return last_problem

    def _keep_vote(self, brief: RubricBrief, number: int, vote: CastVote, now: datetime) -> str:
        """Keep it as about the trees, and if its judge used no tools, as about the brief, too."""
        question = brief.question
        document = self._run.redactor.value(plain(vote))
        ids_to_keep: list[tuple[str, ...]] = [question.about]
        if not vote.used_tools:
            ids_to_keep.append((brief.about,))
        first_problem = ""
        for content_ids in ids_to_keep:
            key = question.vote_keys(number, content_ids)[vote.model]
            problem = self._run.state.answers.put(key, document, now, question.visibility)
            first_problem = first_problem or problem
        return first_problem


def _shared_vote_keys(
    questions: Iterable[RubricQuestion], briefs: Iterable[RubricBrief]
) -> Iterator[str]:
    """The keys under which others may keep votes on these."""
    for question in questions:
        yield from _vote_keys(question, question.about)
    for brief in briefs:
        yield from _vote_keys(brief.question, (brief.about,))


def _vote_keys(question: RubricQuestion, content_ids: Sequence[str]) -> Iterator[str]:
    if not may_leave(question.visibility):
        return
    for number in range(1, question.rubric.votes + 1):
        yield from question.vote_keys(number, content_ids).values()
