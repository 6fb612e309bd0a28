"""Answer the questions of one review in one pass: what is kept, what is open, ask that, keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vibe_gate.context.facts import Facts
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain.cause import Cause, format_limit
from vibe_gate.domain.escape import counted
from vibe_gate.domain.leaving import may_leave
from vibe_gate.errors import UsageError
from vibe_gate.git import Repository
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.cast_vote import CastVote, RubricVotes
from vibe_gate.judging.claiming import claim_questions
from vibe_gate.judging.questions import RubricQuestion, keys_by_rubric, questions_of
from vibe_gate.judging.rubric_brief import RubricBrief, briefs_of
from vibe_gate.judging.vote_cache import VoteCache

if TYPE_CHECKING:
    from vibe_gate.context.model_access import ModelAccess
    from vibe_gate.judging.asking import CastVotes

MANY_CONVERSATIONS, MANY_USD = 10, 1.0
"""More than this is said before it is paid."""

NO_CASSETTE = (
    "A cassette would keep what an agent was asked for, which stays in this clone: review without "
    "--wire record, or name rubrics that do not see prompts with --rubric."
)


async def answer_questions(
    request: ReviewRequest,
    facts: Facts,
    repository: Repository,
    run: RunContext,
    tell: Callable[[str], object],
    model: ModelAccess,
) -> Answers:
    """Answer the judge criteria of the rubrics: with what earlier reviews were answered, else by
    asking.

    If another review asks the same at this moment, its answer is waited for.

    Args:
        request: What is wanted.
        facts: What is known of the change.
        repository: The change's.
        run: What the run shares.
        tell: Hears what is asked, and that an answer is waited for.
        model: Opened if something is asked.

    Raises:
        GatewayError: The wire is set up wrongly (a cassette that is not there).
        UsageError: A cassette would keep what stays in this clone.
    """
    questions = questions_of(facts, facts.gate.default_model(run.environment))
    if model.wire.mode == "record" and len(_shareable_questions(questions)) < len(questions):
        raise UsageError(NO_CASSETTE)
    run.record.add_to_run_document(shown=_shown_prompts(questions))
    cache = VoteCache(repository, run, model.wire, force=request.force)
    cache.find(questions)
    open_questions = [question for question in questions if cache.answer_to(question) is None]
    if not open_questions:
        return _known_answers(questions, cache)
    obstacle = model.obstacle
    if obstacle:
        # Nobody demanded the answers if the built-in gate is in force outside CI: they are left out
        # then.
        is_optional = facts.gate.origin == "built-in" and not run.environment.in_ci
        return _known_answers(questions, cache, unasked=obstacle, is_chosen=is_optional)
    with run.deadline.interrupting():
        briefs = briefs_of(open_questions, facts, repository)
    unasked_if_new = request.mode.unasked_if_new
    claimed_keys: list[str] = []
    private_keys: list[str] = []
    if cache.reads and not unasked_if_new:
        claimed_keys = [brief.key for brief in briefs]
        private_keys = _private_keys(briefs)
    async with claim_questions(claimed_keys, run, tell, private_keys):
        # The questions once more: another review may have been answered meanwhile.
        cache.find(open_questions, briefs)
        open_briefs = [brief for brief in briefs if cache.answer_to(brief.question) is None]
        if not open_briefs:
            return _known_answers(questions, cache)
        if unasked_if_new:
            return _known_answers(questions, cache, unasked=unasked_if_new)
        tell(_announcement(open_briefs, cache, request.budget_in(facts.gate).max_cost_usd))
        from vibe_gate.judging.asking import ask  # agents: what is known needs none

        new_votes = await ask(open_briefs, cache.votes, facts, repository, run, model, tell)
        is_kept = cache.writes and new_votes.intact
        problem = cache.keep(new_votes.cast, open_briefs) if is_kept else ""
    return _new_answers(questions, cache, new_votes, problem, is_kept=is_kept)


def _shareable_questions(questions: Iterable[RubricQuestion]) -> list[RubricQuestion]:
    """Those that show nothing which stays in this clone."""
    return [question for question in questions if may_leave(question.visibility)]


def _private_keys(briefs: Iterable[RubricBrief]) -> list[str]:
    """The keys of the briefs that show what stays in this clone."""
    return [brief.key for brief in briefs if not may_leave(brief.question.visibility)]


def _shown_prompts(questions: Iterable[RubricQuestion]) -> dict[str, str]:
    """What run.json says if a judge is shown what people asked for: whether that stays in this
    clone.
    """
    sharing_by_kind: dict[str, str] = {}
    for question in questions:
        sharing_by_kind |= question.visibility
    return sharing_by_kind


def _announcement(briefs: Sequence[RubricBrief], cache: VoteCache, limit_usd: float) -> str:
    """What people are told before something is asked."""
    rubric_ids = dict.fromkeys(brief.question.rubric.id for brief in briefs)
    announcement = f"asking about {', '.join(rubric_ids)}"
    if not cache.writes:
        return announcement
    return announcement + cost_warning(briefs, cache.votes, limit_usd)


def cost_warning(
    briefs: Sequence[RubricBrief],
    kept_votes: Mapping[str, Mapping[int, CastVote]],
    limit_usd: float,
) -> str:
    """`: at most N conversations, at most $X`, if it may be many or dear, else "".

    Args:
        briefs: What is asked.
        kept_votes: By key of the question and number, what is not asked.
        limit_usd: The run's budget, which nothing passes.
    """
    conversations = 0
    for brief in briefs:
        question = brief.question
        votes = question.rubric.votes - len(kept_votes.get(question.key, {}))
        conversations += len(brief.parts) * votes
    if conversations <= MANY_CONVERSATIONS and limit_usd <= MANY_USD:
        return ""
    most = counted(conversations, "conversation")
    if any(brief.question.rubric.second_look != "never" for brief in briefs):
        most += " and a second look at each fail"
    return f": at most {most}, at most ${format_limit(limit_usd)}"


def _known_answers(
    questions: Sequence[RubricQuestion],
    cache: VoteCache,
    *,
    unasked: Cause | None = None,
    is_chosen: bool = False,
) -> Answers:
    """What earlier reviews were answered; `unasked`: why the other questions are not asked."""
    votes = _settled_votes(questions, cache)
    by_rubric = _votes_by_rubric(questions, votes)
    cached_ids = frozenset(by_rubric)
    return Answers(by_rubric=by_rubric, cached=cached_ids, unasked=unasked, chosen=is_chosen)


def _new_answers(
    questions: Sequence[RubricQuestion],
    cache: VoteCache,
    new_votes: CastVotes,
    problem: str,
    *,
    is_kept: bool,
) -> Answers:
    """What is known, and what was answered now.

    Args:
        questions: All of the review.
        cache: What earlier reviews were answered.
        new_votes: What was answered now.
        problem: Why that could not be kept, as a clause, or "".
        is_kept: Whether later reviews count it: only then the receipt names the questions.
    """
    votes = {**_settled_votes(questions, cache), **new_votes.by_key}
    by_rubric = _votes_by_rubric(questions, votes)
    cached_ids = set()
    asked_ids = set()
    for question in questions:
        rubric_id = question.rubric.id
        if rubric_id not in by_rubric:
            continue
        if votes[question.key].is_kept:
            cached_ids.add(rubric_id)
        if question.key in new_votes.by_key:
            asked_ids.add(rubric_id)
    receipt_keys: dict[str, str] = {}
    if is_kept:  # the key of what only this clone knows would confirm a guess at it
        receipt_keys = keys_by_rubric(_shareable_questions(questions))
    notes = new_votes.notes
    if problem:
        lost = f"The answers are kept nowhere, so the same question is paid for again ({problem})."
        notes = (lost, *notes)
    return Answers(
        by_rubric=by_rubric,
        cost=new_votes.cost,
        cached=frozenset(cached_ids),
        asked=frozenset(asked_ids),
        notes=notes,
        intact=new_votes.intact,
        keys=receipt_keys,
    )


def _settled_votes(questions: Iterable[RubricQuestion], cache: VoteCache) -> dict[str, RubricVotes]:
    """By key, the answers that earlier reviews settle."""
    settled = {}
    for question in questions:
        votes = cache.answer_to(question)
        if votes is not None:
            settled[question.key] = votes
    return settled


def _votes_by_rubric(
    questions: Iterable[RubricQuestion], votes: Mapping[str, RubricVotes]
) -> dict[str, tuple[RubricVotes, ...]]:
    """The votes by rubric, only of rubrics whose questions are all answered."""
    by_rubric: dict[str, tuple[RubricVotes, ...]] = {}
    open_ids = set()
    for question in questions:
        rubric_id = question.rubric.id
        if question.key in votes:
            by_rubric[rubric_id] = (*by_rubric.get(rubric_id, ()), votes[question.key])
        else:
            open_ids.add(rubric_id)
    for rubric_id in open_ids:
        by_rubric.pop(rubric_id, None)
    return by_rubric
