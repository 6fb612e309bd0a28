"""Second looks: each defect that would block is put to a conversation that tries to show from the
code that it does not happen, or that nobody would stop the change for it. It is no vote: what it
says counts for that defect alone, a refutation only with quoted lines that stand.

The defects of one criterion are looked at in one conversation, and each look is kept by itself.

A finding may be disputed, once on the same trees: then the conversation is shown the argument as a
claim, and its answer takes the place of the look without it, in this review and in later ones.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType, convert
from msgspec.structs import replace

from vibe_gate.agent import TurnRequest, sdk_version
from vibe_gate.context.deadline import DeadlineReached
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
)
from vibe_gate.domain.change import Change, Side
from vibe_gate.domain.document import first_mistake, holds_all, plain, read
from vibe_gate.domain.escape import counted, end_sentence, show_text
from vibe_gate.domain.event import NodeConfig
from vibe_gate.domain.leaving import may_leave
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.domain.verdict import (
    MAX_GROUNDS,
    CheckedEvidence,
    Defect,
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
from vibe_gate.judging.brief import QuotedLine
from vibe_gate.judging.cast_vote import RubricVotes
from vibe_gate.judging.claiming import claim_questions
from vibe_gate.judging.decide import OpenFail
from vibe_gate.judging.evidence import (
    MIN_RELOCATED,
    NOT_THERE,
    is_added,
    quote_lines_in_trees,
    visible_length,
)
from vibe_gate.judging.judged_trees import hold_judged_trees
from vibe_gate.judging.questions import TOOLS, questions_of
from vibe_gate.judging.second_look_brief import (
    DISPUTE_PROMPT,
    LOOK_PROMPT,
    LookAnswer,
    build_look_schema,
    choose_look_model,
    compute_dispute_key,
    compute_look_key,
    read_look_answers,
    write_dispute_prompt,
    write_look_objection,
    write_look_prompt,
)
from vibe_gate.judging.shown_lines import show_surroundings
from vibe_gate.judging.votes import together, with_fallback
from vibe_gate.version import __version__

PROSE = ("*.md", "*.rst", "*.txt", "*.adoc", ".vibe-gate/**")
"""Files whose lines do not run: alone they refute nothing."""

FOLDER = "second-look"
"""Below the run's folder: working directory of these conversations, if not the one that the clone
keeps.
"""


MAX_LOOKED = 6
"""Findings of one conversation: with more, each gets little attention."""


class LookQuestion(Struct, frozen=True):
    """A defect as it is asked about."""

    fail: OpenFail

    model: str
    """The language model that is asked."""

    key: str
    """The digest of what the judges say of it, and of the trees."""

    visibility: Mapping[str, str]
    """Which prompts the votes on the fail may have been shown, as `leaving.may_leave` takes them:
    the fail's words may repeat them.
    """

    dispute_key: str
    """Under which a dispute of its finding is kept."""

    dispute: Dispute | UnsetType = UNSET
    """What is argued against it in this review."""

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """Those by which one of several commands is the only one that asks it."""
        return (self.key if self.dispute is UNSET else self.dispute_key,)


class _JointLook(Struct, frozen=True):
    """Questions that are asked together."""

    node: str
    """Its place in the run's graph."""

    questions: tuple[LookQuestion, ...]
    """On one criterion; one alone if that is disputed."""


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
    cache = LookCache(run, model.wire, facts.change, force=request.force)
    cache.find(questions)
    open_questions = _open_questions(questions, cache.looks)
    if not open_questions or mode.unasked_if_new:
        return _add_looks(answers, questions, cache.looks)
    obstacle = model.obstacle
    if obstacle:
        unanswered_looks = _unanswered_disputes(open_questions, obstacle)
        return _add_looks(answers, questions, {**cache.looks, **unanswered_looks})
    claimed_keys: list[str] = []
    private_keys: list[str] = []
    if cache.reads:
        claimed_keys, private_keys = _keys_to_claim(open_questions)
    async with claim_questions(claimed_keys, run, tell, private_keys) as is_claimed:
        cache.find(open_questions)  # once more: another review may have been answered meanwhile
        if not is_claimed:  # a dispute that is asked twice would be two
            open_questions = _open_questions(open_questions, cache.looks)
            cache.looks |= _unanswered_disputes(open_questions, DisputeUnderWay())
        cache.looks |= _unkeepable_disputes(open_questions, run)
        open_questions = _open_questions(open_questions, cache.looks)
        if not open_questions:
            return _add_looks(answers, questions, cache.looks)
        tell(f"taking a second look at {counted(len(open_questions), 'finding')}")
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
    """What is asked about these defects.

    `dispute`: what is argued against a finding of one of them.
    """
    default_model = facts.gate.default_model(run.environment)
    trees = (facts.change.before, facts.change.after)
    versions = {"vibe-gate": __version__, "claude-agent-sdk": sdk_version()}
    shown_prompts = {}
    for rubric_question in questions_of(facts, default_model):
        if rubric_question.visibility:
            shown_prompts[rubric_question.rubric.id] = rubric_question.visibility
    questions = []
    for fail in fails:
        rubric = fail.rubric
        model = choose_look_model(rubric, default_model)
        models = [model, rubric.fallback] if rubric.fallback else [model]
        prompt = write_look_prompt(fail.criterion, [fail.defects], "", "")
        key = compute_look_key(prompt, trees=trees, models=models, tools=TOOLS, versions=versions)
        question = LookQuestion(
            fail=fail,
            model=model,
            key=key,
            visibility=shown_prompts.get(rubric.id, {}),
            dispute_key=compute_dispute_key(fail.fingerprint, trees),
            dispute=_dispute_of(fail, key, dispute, run),
        )
        questions.append(question)
    return questions


def _keys_to_claim(questions: Iterable[LookQuestion]) -> tuple[list[str], list[str]]:
    """The keys by which one command alone asks these, and those of them that stay in this clone."""
    claimed_keys: list[str] = []
    private_keys: list[str] = []
    for question in questions:
        claimed_keys += question.claim_keys
        if not may_leave(question.visibility):
            private_keys += question.claim_keys
    return claimed_keys, private_keys


def _dispute_of(
    fail: OpenFail, key: str, dispute: DisputeMode | None, run: RunContext
) -> Dispute | UnsetType:
    """What is argued against the fail; unset if the dispute is not of it."""
    if dispute is None or dispute.finding != fail.fingerprint:
        return UNSET
    redact = run.redactor.text
    return Dispute(
        argument=redact(dispute.argument),
        by=redact(dispute.by),
        run=run.record.run_id,
        question=key,
        findings=(fail.fingerprint,),
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
            _vote_with_looks(vote, criterion_questions, looks) for vote in cast
        )
    return replace(votes, by_criterion=by_criterion)


def _vote_with_looks(
    vote: Vote, questions: Sequence[LookQuestion], looks: Mapping[str, SecondLook]
) -> Vote:
    defects = tuple(_defect_with_look(defect, questions, looks) for defect in vote.defects)
    return replace(vote, defects=defects)


def _defect_with_look(
    defect: Defect, questions: Iterable[LookQuestion], looks: Mapping[str, SecondLook]
) -> Defect:
    for question in questions:
        if defect in question.fail.defects and question.key in looks:
            return replace(defect, second_look=looks[question.key])
    return defect


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

    def __init__(self, run: RunContext, wire: Wire, change: Change, *, force: bool) -> None:
        """`force`: nothing that is kept counts; what is answered is kept all the same."""
        self.writes = wire.mode == "live"
        self.reads = self.writes and not force
        self.looks = {}
        self._change = change
        self._run = run

    def find(self, questions: Sequence[LookQuestion]) -> None:
        """Find the kept looks at these fails."""
        if not self.reads:
            return
        now = self._run.clock()
        shared_keys: list[str] = []
        for question in questions:
            if may_leave(question.visibility):
                shared_keys += (question.key, question.dispute_key)
        self._run.state.answers.fetch(shared_keys, now)
        for question in questions:
            look = self._look_at(question, now)
            if look is not None:
                self.looks[question.key] = look

    def _look_at(self, question: LookQuestion, now: datetime) -> SecondLook | None:
        """The look that counts: of a dispute of the same words of the judge, else the one without.

        If the finding is disputed now, the latter counts only if it refutes it; and a dispute of
        other words, by which the finding has been disputed, leaves it as it is.
        """
        disputed_look = self._kept_look(question.dispute_key, now)
        earlier_dispute = UNSET if disputed_look is None else disputed_look.dispute
        if earlier_dispute is not UNSET and earlier_dispute.question == question.key:
            return disputed_look
        undisputed_look = self._kept_look(question.key, now)
        if question.dispute is UNSET:
            return undisputed_look
        if undisputed_look is not None and undisputed_look.outcome == "refuted":
            return undisputed_look
        if disputed_look is not None and earlier_dispute is not UNSET:
            cause = DisputedBefore(run=earlier_dispute.run, outcome=disputed_look.outcome)
            return _no_answer(question, cause)
        return None

    def _kept_look(self, key: str, now: datetime) -> SecondLook | None:
        document = self._run.state.answers.get(key, now)
        if document is None:
            return None
        with suppress(ValueError):  # written by another version, or by someone else: a miss
            look = read(SecondLook, document)
            if holds_all(look, document):
                return check_look(look, self._change)
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
            for key in question.claim_keys:
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
    holding = hold_judged_trees(
        facts.change, repository, model, model.folder / facts.stage / FOLDER
    )
    with ExitStack() as resources:
        try:
            with run.deadline.interrupting(grace_s=0):
                judged_trees = resources.enter_context(holding)
        except InfrastructureError as error:  # of the deadline, too: the fails stay
            cause: Cause = run.deadline.cause
            if run.deadline.seconds_left():
                cause = NoConversation(message=run.redactor.text(str(error)))
            return {question.key: _no_answer(question, cause) for question in questions}, True
        trees: dict[Side, Tree] = {
            "after": repository.tree(facts.change.after),
            "before": repository.tree(facts.change.before),
        }
        context = _LookContext(facts, run, model, trees, judged_trees.folder)
        conversations = _plan_conversations(questions, facts.stage)
        for conversation in conversations:
            _add_node(conversation, facts, run)
        conversation_looks = await together(
            _take_looks(conversation, context) for conversation in conversations
        )
        with run.deadline.interrupting():
            is_intact = judged_trees.are_unchanged()
    looks: dict[str, SecondLook] = {}
    for looks_by_key in conversation_looks:
        looks |= looks_by_key
    return looks, is_intact


def _plan_conversations(questions: Iterable[LookQuestion], stage: str) -> list[_JointLook]:
    """The questions on one criterion together, MAX_LOOKED at most, a disputed one alone.

    The node is `second-look-<rubric>`, then -b, -c ... for further ones of the rubric.
    """
    groups: list[list[LookQuestion]] = []
    open_groups: dict[tuple[str, str], list[LookQuestion]] = {}
    for question in questions:
        name = (question.fail.rubric.id, question.fail.criterion.id)
        group = open_groups.get(name)
        if question.dispute is not UNSET:
            groups.append([question])
        elif group is None or len(group) == MAX_LOOKED:
            open_groups[name] = [question]
            groups.append(open_groups[name])
        else:
            group.append(question)
    prefix = f"{stage}-" if stage else ""
    groups_of_rubric: Counter[str] = Counter()
    conversations = []
    for group in groups:
        rubric_id = group[0].fail.rubric.id
        node = f"{prefix}second-look-{rubric_id}{repeat_suffix(groups_of_rubric[rubric_id])}"
        groups_of_rubric[rubric_id] += 1
        conversations.append(_JointLook(node, tuple(group)))
    return conversations


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
        for line in question.fail.evidence:
            not_asked.append({"path": line.path, "line": line.line, "end_line": line.end_line})
    if not_asked:
        usd = model.gateway.spent().usd
        run.record.event("budget.reached", limit_usd=model.limit_usd, usd=usd, not_asked=not_asked)


def _add_node(conversation: _JointLook, facts: Facts, run: RunContext) -> None:
    """Add its node to the graph, after the conversations of this run that it is about."""
    node = conversation.node
    question = conversation.questions[0]
    rubric = question.fail.rubric
    config = NodeConfig(
        model=question.model,
        tools=TOOLS,
        max_turns=facts.gate.file.budget.max_turns,
        rubrics=(rubric.id,),
        criteria=(f"{rubric.id}/{question.fail.criterion.id}",),
    )
    fields = {"kind": "judge", "digest": rubric.digest, "config": plain(config)}
    run.record.event("node.added", node, **fields, **facts.node_fields)
    sources: dict[str, None] = {}
    for question in conversation.questions:
        for turn in question.fail.turns:
            if turn.startswith("nodes/"):
                sources[Path(turn).parts[1]] = None
    for source in sources or [facts.checks_node]:
        run.record.event("edge.added", **{"from": source, "to": node})


async def _take_looks(conversation: _JointLook, context: _LookContext) -> dict[str, SecondLook]:
    """By key, what the conversation found."""
    model = context.model
    redact = context.run.redactor.text
    question = conversation.questions[0]
    async with model.slots:
        try:
            with context.run.deadline.interrupting(grace_s=0):
                prompt = _write_prompt(conversation, context)
        except DeadlineReached:
            return _answer_none(conversation, context.run.deadline.cause, "")
        hold = partial(_hold_look, conversation, prompt, context)
        end, model_name = await with_fallback(
            hold, question.model, question.fail.rubric.fallback, model, redact
        )
    if end.status == "answered":
        looks = _read_looks(conversation, end.answer, end.folder, context)
        return {key: replace(look, model=model_name) for key, look in looks.items()}
    cause = model.why_unanswered(end)
    return _answer_none(conversation, cause, end.folder)


def _answer_none(conversation: _JointLook, cause: Cause, turn: str) -> dict[str, SecondLook]:
    return {question.key: _no_answer(question, cause, turn) for question in conversation.questions}


async def _hold_look(
    conversation: _JointLook,
    prompt: str,
    context: _LookContext,
    model_name: str,
    patience_s: float,
) -> TurnResult:
    """Hold one conversation; an overloaded model is waited for as long as `patience_s`."""
    model = context.model
    turn = TurnRequest(
        node=conversation.node,
        prompt=prompt,
        system_prompt=_choose_system_prompt(conversation),
        schema=build_look_schema(),
        objection=partial(write_look_objection, len(conversation.questions)),
        folder=context.folder,
        hides_folder=True,
        homes=model.folder,
        tools=TOOLS,
        model=model_name,
        max_turns=context.facts.gate.file.budget.max_turns,
        max_cost_usd=model.limit_usd,
        timeout_s=context.run.deadline.seconds_left(),
        patience_s=patience_s,
    )
    return await model.run_turn(turn)


def _choose_system_prompt(conversation: _JointLook) -> str:
    if conversation.questions[0].dispute is UNSET:
        return LOOK_PROMPT
    return DISPUTE_PROMPT


def _write_prompt(conversation: _JointLook, context: _LookContext) -> str:
    """The user's side, with the quoted lines of all its findings and what stands around them."""
    first = conversation.questions[0]
    nonce = context.model.nonce
    quoted_lines: list[CheckedEvidence] = []
    for question in conversation.questions:
        for defect in question.fail.defects:
            lines = (*defect.evidence, *defect.also)
            quoted_lines += [line for line in lines if line.standing != "void" and line.path]
    read = {side: tree.read for side, tree in context.trees.items()}
    surroundings = show_surroundings(quoted_lines, context.facts.change, read)
    criterion = first.fail.criterion
    if first.dispute is not UNSET:
        argument = first.dispute.argument
        return write_dispute_prompt(criterion, first.fail.defects, argument, surroundings, nonce)
    findings = [question.fail.defects for question in conversation.questions]
    return write_look_prompt(criterion, findings, surroundings, nonce)


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


def _read_looks(
    conversation: _JointLook, document: object, turn: str, context: _LookContext
) -> dict[str, SecondLook]:
    """By key, what an answer counts for."""
    redact = context.run.redactor.text
    try:
        answers = read_look_answers(len(conversation.questions), document)
    except ValueError as error:
        # The mistake can quote the answer; it is redacted before it is cut.
        mistake = short(show_text(redact(first_mistake(error))))
        return _answer_none(conversation, Misfit(details=mistake), turn)
    looks = {}
    for number, question in enumerate(conversation.questions, start=1):
        answer = answers.get(number)
        if answer is None:
            cause = Misfit(details=f"finding {number} has no answer")
            looks[question.key] = _no_answer(question, cause, turn)
        else:
            looks[question.key] = _read_look(question, answer, turn, context)
    return looks


def _read_look(
    question: LookQuestion, answer: LookAnswer, turn: str, context: _LookContext
) -> SecondLook:
    redact = context.run.redactor.text
    outcome: LookOutcome = convert(answer.outcome, LookOutcome)
    reason = answer.reason
    if outcome == "undecided" and answer.missing.strip():
        reason = f"{end_sentence(reason)} Missing: {end_sentence(answer.missing)}"
    evidence: list[CheckedEvidence] = []
    if outcome in ("refuted", "intended"):
        for line in answer.evidence:
            evidence += _check_lines(line, context.trees)
    look = SecondLook(
        outcome=outcome,
        said=outcome,
        reason=short(redact(reason)),
        stops=answer.stops is not False,
        trace=redact(answer.trace.strip())[:MAX_GROUNDS],
        evidence=tuple(evidence),
        turn=turn,
        dispute=question.dispute,
    )
    return check_look(look, context.facts.change)


def check_look(look: SecondLook, change: Change) -> SecondLook:
    """What it counts for: without quoted lines, or if one of them does not stand, nothing is refuted
    and nothing is intended.
    """
    problem = ""
    if look.outcome == "refuted":
        problem = _refutation_problem(look.evidence)
    elif look.outcome == "intended":
        problem = _intention_problem(look.evidence, change)
    if not problem:
        return look
    reason = short(f'Answered "{look.outcome}", but {problem}: {look.reason}')
    return replace(look, outcome="undecided", reason=reason)


def _void_problem(evidence: Sequence[CheckedEvidence]) -> str:
    """Why these lines show nothing at all, or ""."""
    if not evidence:
        return "no evidence was given"
    void_lines = [line for line in evidence if line.standing == "void"]
    if void_lines:
        problems = sorted({line.why for line in void_lines})
        return "; ".join(problems) or NOT_THERE
    return ""


def _intention_problem(evidence: Sequence[CheckedEvidence], change: Change) -> str:
    """Why these lines do not show that something is intended, or "".

    Whoever makes a change can write an excuse into it, or take away what says otherwise: so each
    line must stand on both sides of it.
    """
    problem = _void_problem(evidence)
    if problem:
        return problem
    if any(line.side == "before" for line in evidence):
        return "a quoted line is of the tree before the change"
    if any(is_added(line, change) for line in evidence):
        return "a quoted line came with the change"
    if all(visible_length(line.quote) < MIN_RELOCATED for line in evidence):
        return "the quotes are too short to say anything"
    return ""


def _refutation_problem(evidence: Sequence[CheckedEvidence]) -> str:
    """Why these lines refute nothing, or "".

    At least one line must by itself be able to prevent something: documentation, lone braces that
    stand everywhere, and lines that stood before the change alone are not.
    """
    problem = _void_problem(evidence)
    if problem:
        return problem
    lines_after = [line for line in evidence if line.side == "after"]
    if not lines_after:
        return "no quoted line stands after the change"
    code_lines = [line for line in lines_after if not _is_prose(line)]
    if not code_lines:
        return "documentation and the gate's own files prevent nothing"
    if all(visible_length(line.quote) < MIN_RELOCATED for line in code_lines):
        return "the quotes are too short to prevent anything"
    return ""


def _is_prose(line: CheckedEvidence) -> bool:
    return paths.matches_any_glob(paths.unquote(line.path), PROSE)


def _check_lines(line: QuotedLine, trees: Mapping[Side, Tree]) -> tuple[CheckedEvidence, ...]:
    """Each line of the quote, looked up by its path, or as tools show that, in the tree that it
    names.

    A line that is said to stand after the change and stands before it alone was removed: it
    prevents nothing.
    """
    sides: tuple[Side, ...] = ("before", "after") if line.side == "before" else ("after",)
    read = {side: tree.read for side, tree in trees.items()}
    return quote_lines_in_trees(line, sides, read)
