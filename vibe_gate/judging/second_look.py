"""Second looks: each fail that would block is put to a conversation that tries to show from the
code that it does not happen. It is no vote: only a refutation whose quoted lines stand changes
anything, and only for that fail.

A finding may be disputed, once on the same trees: then the conversation is shown the argument as a
claim, and its answer takes the place of the look without it, in this review and in later ones.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType, convert
from msgspec.structs import replace

from vibe_gate.agent import TurnRequest, sdk_version
from vibe_gate.context.facts import Facts
from vibe_gate.context.mode import DisputeMode
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain import paths
from vibe_gate.domain.cause import (
    Cause,
    DisputedBefore,
    DisputeUnderWay,
    DisputeUnkeepable,
    Misfit,
    NoConversation,
    NoKey,
)
from vibe_gate.domain.change import Side
from vibe_gate.domain.document import first_mistake, holds_all, plain, read
from vibe_gate.domain.escape import counted, end_sentence, show_text
from vibe_gate.domain.leaving import may_leave
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.domain.verdict import (
    MAX_GROUNDS,
    CheckedEvidence,
    Dispute,
    LookOutcome,
    SecondLook,
    Vote,
    short,
)
from vibe_gate.domain.wire import TurnResult
from vibe_gate.errors import InfrastructureError
from vibe_gate.git import Repository, Tree
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.asking import export_trees
from vibe_gate.judging.brief import QuotedLine
from vibe_gate.judging.cast_vote import RubricVotes
from vibe_gate.judging.claiming import claim_questions
from vibe_gate.judging.decide import OpenFail
from vibe_gate.judging.evidence import MIN_RELOCATED, NOT_THERE, quote_in_tree, visible_length
from vibe_gate.judging.questions import TOOLS, questions_of
from vibe_gate.judging.second_look_brief import (
    DISPUTE_PROMPT,
    LOOK_PROMPT,
    build_look_schema,
    compute_dispute_key,
    compute_look_key,
    read_look_answer,
    write_dispute_prompt,
    write_look_objection,
    write_look_prompt,
)
from vibe_gate.judging.votes import together, with_fallback
from vibe_gate.version import __version__

PROSE = ("*.md", "*.rst", "*.txt", "*.adoc", ".vibe-gate/**")
"""Files whose lines do not run: alone they refute nothing."""

FOLDER = "second-look"
"""Working directory of these conversations: both trees, exported anew."""


class LookQuestion(Struct, frozen=True):
    """A fail as it is asked about."""

    fail: OpenFail

    node: str
    """Its place in the run's graph."""

    model: str
    """The language model that is asked."""

    key: str
    """The digest of all that is shown."""

    visibility: Mapping[str, str]
    """Which prompts the votes on the fail may have been shown, as `leaving.may_leave` takes them:
    the fail's words may repeat them.
    """

    dispute_keys: tuple[str, ...]
    """Under which a dispute of the fail is kept, one for each of its findings."""

    dispute: Dispute | UnsetType = UNSET
    """What is argued against it in this review."""

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """Those by which one of several commands is the only one that asks it."""
        return (self.key,) if self.dispute is UNSET else self.dispute_keys


class _LookContext(Struct, frozen=True):
    """What every second look of the run shares."""

    facts: Facts

    run: RunContext

    model: ModelAccess

    trees: Mapping[Side, Tree]
    """What may be quoted, by side."""

    folder: Path
    """Holds the exports of the trees."""


async def look_again(
    fails: Sequence[OpenFail],
    answers: Answers,
    request: ReviewRequest,
    facts: Facts,
    repository: Repository,
    run: RunContext,
    tell: Callable[[str], object],
    model: ModelAccess,
) -> Answers:
    """The answers with a second look at each of these fails: one that is kept, or asked for now if
    a model may be.

    `tell` hears what is asked. `model` is the way that the votes came by. Raises GatewayError.
    """
    mode = request.mode
    questions = look_questions(fails, facts, run, mode if isinstance(mode, DisputeMode) else None)
    cache = LookCache(run, model.wire, force=request.force)
    cache.find(questions)
    open_questions = _open_questions(questions, cache.looks)
    if not open_questions or mode.unasked_if_new or not model.can_answer:
        unanswered_looks = _unanswered_disputes(open_questions, NoKey())
        return _add_looks(answers, questions, {**cache.looks, **unanswered_looks})
    claimed_keys: list[str] = []
    private_keys: list[str] = []
    for question in open_questions if cache.reads else ():
        claimed_keys += question.claim_keys
        if not may_leave(question.visibility):
            private_keys += question.claim_keys
    async with claim_questions(claimed_keys, run, tell, private_keys) as is_claimed:
        cache.find(open_questions)  # once more: another review may have been answered meanwhile
        if not is_claimed:  # a dispute that is asked twice would be two
            open_questions = _open_questions(open_questions, cache.looks)
            cache.looks |= _unanswered_disputes(open_questions, DisputeUnderWay())
        cache.looks |= _unkeepable_disputes(open_questions, run)
        open_questions = _open_questions(open_questions, cache.looks)
        if not open_questions:
            return _add_looks(answers, questions, cache.looks)
        tell(f"taking a second look at {counted(len(open_questions), 'fail')}")
        model.open()
        model.gateway.on_wait = lambda clause: tell(f"waiting for {clause}")
        new_looks, is_intact = await _ask_looks(open_questions, facts, repository, run, model)
        if model.gateway.ledger.reached:
            _record_budget(run, model, open_questions, new_looks)
        notes = dict.fromkeys((*answers.notes, *model.notes()))
        problem = cache.keep(new_looks, open_questions) if is_intact else ""
    if problem:
        notes[f"A second look is kept nowhere, so the same is paid for again ({problem})."] = None
    return replace(
        _add_looks(answers, questions, {**cache.looks, **new_looks}),
        cost=model.gateway.spent(),
        notes=tuple(notes),
        intact=answers.intact and is_intact,
    )


def look_questions(
    fails: Iterable[OpenFail], facts: Facts, run: RunContext, dispute: DisputeMode | None = None
) -> list[LookQuestion]:
    """What is asked about these fails. The node is `second-look-<rubric>`, then -b, -c ... for
    further ones.

    `dispute`: what is argued against a finding of one of them.
    """
    default_model = facts.gate.default_model(run.environment)
    trees = (facts.change.before, facts.change.after)
    versions = {"vibe-gate": __version__, "claude-agent-sdk": sdk_version()}
    prefix = f"{facts.stage}-" if facts.stage else ""
    rubric_questions = questions_of(facts, default_model)
    shown_prompts = {
        question.rubric.id: question.shown for question in rubric_questions if question.shown
    }
    fails_of_rubric: Counter[str] = Counter()
    questions = []
    for fail in fails:
        rubric = fail.rubric
        node = f"{prefix}second-look-{rubric.id}{repeat_suffix(fails_of_rubric[rubric.id])}"
        fails_of_rubric[rubric.id] += 1
        model = rubric.model or next(iter(rubric.models), default_model)
        models = [model, rubric.fallback] if rubric.fallback else [model]
        prompt = write_look_prompt(fail.criterion, fail.votes, "")
        key = compute_look_key(prompt, trees=trees, models=models, tools=TOOLS, versions=versions)
        question = LookQuestion(
            fail=fail,
            node=node,
            model=model,
            key=key,
            visibility=shown_prompts.get(rubric.id, {}),
            dispute_keys=tuple(compute_dispute_key(name, trees) for name in fail.fingerprints),
            dispute=_dispute_of(fail, key, dispute, run),
        )
        questions.append(question)
    return questions


def _dispute_of(
    fail: OpenFail, key: str, dispute: DisputeMode | None, run: RunContext
) -> Dispute | UnsetType:
    """What is argued against the fail; unset if the dispute is not of it."""
    if dispute is None or dispute.finding not in fail.fingerprints:
        return UNSET
    redact = run.redactor.text
    return Dispute(
        argument=redact(dispute.argument),
        by=redact(dispute.by),
        run=run.record.run_id,
        question=key,
        findings=fail.fingerprints,
    )


def _unanswered_disputes(questions: Iterable[LookQuestion], cause: Cause) -> dict[str, SecondLook]:
    """By key, what is said of the disputes among these questions, which are not asked."""
    looks = {}
    for question in questions:
        if question.dispute is not UNSET:
            looks[question.key] = _no_answer(question, cause)
    return looks


def _unkeepable_disputes(
    questions: Iterable[LookQuestion], run: RunContext
) -> dict[str, SecondLook]:
    """By key, what is said of the disputes among these whose answer this clone could not keep."""
    disputed = [question for question in questions if question.dispute is not UNSET]
    problem = run.state.answers.writing_problem() if disputed else ""
    if not problem:
        return {}
    return _unanswered_disputes(disputed, DisputeUnkeepable(problem=problem))


def _open_questions(
    questions: Iterable[LookQuestion], looks: Mapping[str, SecondLook]
) -> list[LookQuestion]:
    """Those without a look, each once: two rubrics may ask the same."""
    open_questions = {question.key: question for question in questions if question.key not in looks}
    return list(open_questions.values())


def _add_looks(
    answers: Answers, questions: Sequence[LookQuestion], looks: Mapping[str, SecondLook]
) -> Answers:
    """The answers, each vote of these fails with the second look at it."""
    by_rubric = {}
    for rubric_id, question_votes in answers.by_rubric.items():
        rubric_questions = [
            question for question in questions if question.fail.rubric.id == rubric_id
        ]
        by_rubric[rubric_id] = tuple(
            _votes_with_looks(votes, rubric_questions, looks) for votes in question_votes
        )
    return replace(answers, by_rubric=by_rubric)


def _votes_with_looks(
    votes: RubricVotes, questions: Sequence[LookQuestion], looks: Mapping[str, SecondLook]
) -> RubricVotes:
    by_criterion = {}
    for criterion_id, cast in votes.by_criterion.items():
        criterion_questions = [
            question for question in questions if question.fail.criterion.id == criterion_id
        ]
        by_criterion[criterion_id] = tuple(
            _vote_with_look(vote, criterion_questions, looks) for vote in cast
        )
    return replace(votes, by_criterion=by_criterion)


def _vote_with_look(
    vote: Vote, questions: Iterable[LookQuestion], looks: Mapping[str, SecondLook]
) -> Vote:
    for question in questions:
        if vote in question.fail.votes and question.key in looks:
            return replace(vote, second_look=looks[question.key])
    return vote


class LookCache:
    """The second looks that this machine keeps.

    A recording and a replay use none, as of votes.
    """

    writes: bool
    """Whether looks that are taken are kept."""

    reads: bool
    """Whether kept looks count."""

    looks: dict[str, SecondLook]
    """What was found, by key of the question."""

    def __init__(self, run: RunContext, wire: Wire, *, force: bool) -> None:
        """`force`: nothing that is kept counts; what is answered is kept all the same."""
        self.writes = wire.mode == "live"
        self.reads = self.writes and not force
        self.looks = {}
        self._run = run

    def find(self, questions: Sequence[LookQuestion]) -> None:
        """Find the kept looks at these fails."""
        if not self.reads:
            return
        now = self._run.clock()
        shared_keys: list[str] = []
        for question in questions:
            if may_leave(question.visibility):
                shared_keys += (question.key, *question.dispute_keys)
        self._run.state.answers.fetch(shared_keys, now)
        for question in questions:
            look = self._look_at(question, now)
            if look is not None:
                self.looks[question.key] = look

    def _look_at(self, question: LookQuestion, now: datetime) -> SecondLook | None:
        """The look that counts: of a dispute of the same words of the judge, else the one without.

        If the fail is disputed now, the latter counts only if it refutes it; and a dispute of other
        words, by which the finding has been disputed, leaves it as it is.
        """
        disputed_looks: list[tuple[Dispute, SecondLook]] = []
        for key in question.dispute_keys:
            look = self._kept_look(key, now)
            if look is not None and look.dispute is not UNSET:
                disputed_looks.append((look.dispute, look))
        for dispute, look in disputed_looks:
            if dispute.question == question.key:
                return look
        undisputed_look = self._kept_look(question.key, now)
        if question.dispute is UNSET:
            return undisputed_look
        if undisputed_look is not None and undisputed_look.outcome == "refuted":
            return undisputed_look
        for dispute, look in disputed_looks:
            cause = DisputedBefore(run=dispute.run, outcome=look.outcome)
            return _no_answer(question, cause)
        return None

    def _kept_look(self, key: str, now: datetime) -> SecondLook | None:
        document = self._run.state.answers.get(key, now)
        if document is None:
            return None
        with suppress(ValueError):  # written by another version, or by someone else: a miss
            look = read(SecondLook, document)
            if holds_all(look, document):
                return check_refutation(look)
        return None

    def keep(self, looks: Mapping[str, SecondLook], questions: Iterable[LookQuestion]) -> str:
        """Keep what the model answered to these questions. Returns why something could not be kept, as a clause, or
        "".
        """
        if not self.writes:
            return ""
        run = self._run
        last_problem = ""
        for question in questions:
            look = looks[question.key]
            if look.said is None:
                continue
            is_recorded = run.record.relative and look.turn
            turn = f"{run.record.relative}/{look.turn}" if is_recorded else ""
            document = run.redactor.value(plain(replace(look, turn=turn)))
            is_disputed = question.dispute is not UNSET
            for key in question.dispute_keys if is_disputed else (question.key,):
                problem = run.state.answers.put(key, document, run.clock(), question.visibility)
                last_problem = problem or last_problem
        return last_problem


async def _ask_looks(
    questions: Sequence[LookQuestion],
    facts: Facts,
    repository: Repository,
    run: RunContext,
    model: ModelAccess,
) -> tuple[dict[str, SecondLook], bool]:
    """By key, what each conversation found, and whether the exported trees are still what they
    were.
    """
    await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    folder = model.folder / facts.stage / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with run.deadline.interrupting(grace_s=0):
            after, before = export_trees(facts.change, repository, folder)
    except InfrastructureError as error:  # of the deadline, too: the fails stay
        cause: Cause = run.deadline.cause
        if run.deadline.seconds_left():
            cause = NoConversation(message=run.redactor.text(str(error)))
        return {question.key: _no_answer(question, cause) for question in questions}, True
    trees: dict[Side, Tree] = {
        "after": repository.tree(facts.change.after),
        "before": repository.tree(facts.change.before),
    }
    context = _LookContext(facts, run, model, trees, folder)
    for question in questions:
        _add_node(question, facts, run)
    looks = await together(_take_look(question, context) for question in questions)
    with run.deadline.interrupting():
        is_intact = after.unchanged() and before.unchanged()
    keys = [question.key for question in questions]
    return dict(zip(keys, looks, strict=True)), is_intact


def _record_budget(
    run: RunContext,
    model: ModelAccess,
    questions: Iterable[LookQuestion],
    looks: Mapping[str, SecondLook],
) -> None:
    """Write down the lines of the fails at which there was no second look."""
    not_asked = []
    for question in questions:
        if looks[question.key].said is not None:
            continue
        for line in _standing_evidence(question.fail):
            not_asked.append({"path": line.path, "line": line.line, "end_line": line.end_line})
    if not_asked:
        usd = model.gateway.spent().usd
        run.record.event("budget.reached", limit_usd=model.limit_usd, usd=usd, not_asked=not_asked)


def _standing_evidence(fail: OpenFail) -> list[CheckedEvidence]:
    evidence: list[CheckedEvidence] = []
    for vote in fail.votes:
        evidence += [line for line in vote.evidence if line.standing != "void"]
    return evidence


def _add_node(question: LookQuestion, facts: Facts, run: RunContext) -> None:
    """Add its node to the graph, after the conversations of this run that it is about."""
    run.record.event("node.added", question.node, kind="judge", digest=question.fail.rubric.digest)
    sources: dict[str, None] = {}
    for vote in question.fail.votes:
        if vote.turn.startswith("nodes/"):
            sources[Path(vote.turn).parts[1]] = None
    for source in sources or [facts.checks_node]:
        run.record.event("edge.added", **{"from": source, "to": question.node})


async def _take_look(question: LookQuestion, context: _LookContext) -> SecondLook:
    model = context.model
    redact = context.run.redactor.text
    hold = partial(_hold_look, question, context)
    async with model.slots:
        end, model_name = await with_fallback(
            hold, question.model, question.fail.rubric.fallback, model, redact
        )
    if end.status == "answered":
        look = _read_look(question, end.answer, end.folder, context)
        return replace(look, model=model_name)
    return _no_answer(question, model.why_unanswered(end), end.folder)


async def _hold_look(
    question: LookQuestion, context: _LookContext, model_name: str, patience_s: float
) -> TurnResult:
    """Hold one conversation; an overloaded model is waited for as long as `patience_s`."""
    model = context.model
    fail = question.fail
    prompt = write_look_prompt(fail.criterion, fail.votes, model.nonce)
    system_prompt = LOOK_PROMPT
    if question.dispute is not UNSET:
        argument = question.dispute.argument
        prompt = write_dispute_prompt(fail.criterion, fail.votes, argument, model.nonce)
        system_prompt = DISPUTE_PROMPT
    turn = TurnRequest(
        node=question.node,
        prompt=prompt,
        system_prompt=system_prompt,
        schema=build_look_schema(),
        objection=write_look_objection,
        folder=context.folder,
        homes=model.folder,
        tools=TOOLS,
        model=model_name,
        max_turns=context.facts.gate.file.budget.max_turns,
        max_cost_usd=model.limit_usd,
        timeout_s=context.run.deadline.seconds_left(),
        patience_s=patience_s,
    )
    return await model.run_turn(turn)


def _no_answer(question: LookQuestion, cause: Cause, turn: str = "") -> SecondLook:
    """Whatever the cause, the fail stays."""
    return SecondLook(
        outcome="undecided",
        said=None,
        reason=short(cause.reason),
        turn=turn,
        cause=cause,
        dispute=question.dispute,
    )


def _read_look(
    question: LookQuestion, document: object, turn: str, context: _LookContext
) -> SecondLook:
    """What an answer counts for."""
    redact = context.run.redactor.text
    try:
        answer = read_look_answer(document)
    except ValueError as error:
        # The mistake can quote the answer; it is redacted before it is cut.
        mistake = short(show_text(redact(first_mistake(error))))
        return _no_answer(question, Misfit(details=mistake), turn)
    outcome: LookOutcome = convert(answer.outcome, LookOutcome)
    reason = answer.reason
    if outcome == "undecided" and answer.missing.strip():
        reason = f"{end_sentence(reason)} Missing: {end_sentence(answer.missing)}"
    quoted_lines = answer.evidence if outcome == "refuted" else ()
    look = SecondLook(
        outcome=outcome,
        said=outcome,
        reason=short(redact(reason)),
        trace=redact(answer.trace.strip())[:MAX_GROUNDS],
        evidence=tuple(_check_line(line, context.trees) for line in quoted_lines),
        turn=turn,
        dispute=question.dispute,
    )
    return check_refutation(look)


def check_refutation(look: SecondLook) -> SecondLook:
    """What it counts for: without quoted lines, or if one of them does not stand, nothing is
    refuted.
    """
    problem = _refutation_problem(look.evidence)
    if look.outcome != "refuted" or not problem:
        return look
    reason = short(f'Answered "refuted", but {problem}: {look.reason}')
    return replace(look, outcome="undecided", reason=reason)


def _refutation_problem(evidence: Sequence[CheckedEvidence]) -> str:
    """Why these lines refute nothing, or "".

    Lone braces and the like stand everywhere, and prevent nothing; nor do lines that stood before
    the change alone.
    """
    if not evidence:
        return "no evidence was given"
    void_lines = [line for line in evidence if line.standing == "void"]
    if void_lines:
        problems = sorted({line.why for line in void_lines})
        return "; ".join(problems) or NOT_THERE
    if all(visible_length(line.quote) < MIN_RELOCATED for line in evidence):
        return "the quotes are too short to prevent anything"
    if all(line.side == "before" for line in evidence):
        return "no quoted line stands after the change"
    if all(paths.matches_any_glob(paths.unquote(line.path), PROSE) for line in evidence):
        return "documentation and the gate's own files prevent nothing"
    return ""


def _check_line(line: QuotedLine, trees: Mapping[Side, Tree]) -> CheckedEvidence:
    """The quoted line looked up by its path, or as tools show that, in the tree that it names.

    A line that is said to stand after the change and stands before it alone was removed: it
    prevents nothing.
    """
    path = paths.unquote(line.path).removeprefix("./")
    sides: tuple[Side, ...] = ("before", "after") if line.side == "before" else ("after",)
    first_evidence: CheckedEvidence | None = None
    for side in sides:
        for tree_path in (path, path.removeprefix(f"{side}/")):
            quoted_line = replace(line, path=paths.quote(tree_path), side=side)
            evidence = quote_in_tree(quoted_line, trees[side].read(tree_path))
            if evidence.standing != "void":
                return evidence
            first_evidence = first_evidence or evidence
    assert first_evidence is not None
    return first_evidence
