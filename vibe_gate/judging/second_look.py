"""Second looks: each fail that would block is put to a conversation that tries to show from the code that it does not
happen. It is no vote: only a refutation whose quoted lines stand changes anything, and only for that fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, convert
from msgspec.structs import replace

from vibe_gate.agent import TurnRequest, sdk_version
from vibe_gate.context.facts import Facts
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain import paths
from vibe_gate.domain.cause import Cause, Misfit, NoConversation
from vibe_gate.domain.change import Side
from vibe_gate.domain.document import first_mistake, holds_all, plain, read
from vibe_gate.domain.escape import counted, ended, show_text
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.domain.verdict import CheckedEvidence, LookOutcome, SecondLook, Vote, short
from vibe_gate.domain.wire import TurnResult
from vibe_gate.errors import InfrastructureError
from vibe_gate.gateway import Wire
from vibe_gate.git import Repository, Tree
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.asking import export_trees
from vibe_gate.judging.brief import QuotedLine
from vibe_gate.judging.cast_vote import RubricVotes
from vibe_gate.judging.claiming import claim_questions
from vibe_gate.judging.decide import OpenFail
from vibe_gate.judging.evidence import MIN_RELOCATED, quote_in_tree
from vibe_gate.judging.questions import TOOLS
from vibe_gate.judging.second_look_brief import (
    LOOK_PROMPT,
    look_key,
    look_objection,
    look_of,
    look_prompt,
    look_schema,
)
from vibe_gate.judging.votes import together, with_fallback
from vibe_gate.version import __version__

PROSE = ("*.md", "*.rst", "*.txt", "*.adoc", ".vibe-gate/**")
"""Files whose lines do not run: alone they refute nothing."""

FOLDER = "second-look"
"""Working directory of these conversations: both trees, exported anew."""


class LookQuestion(Struct, frozen=True):
    """A fail as it is asked about: its graph's node, the language model, and the key of all that is shown."""

    fail: OpenFail
    node: str
    model: str
    key: str


class _LookContext(Struct, frozen=True):
    """What every second look of the run shares. `trees`: what may be quoted, by side; `folder` holds their exports."""

    facts: Facts
    run: RunContext
    model: ModelAccess
    trees: Mapping[Side, Tree]
    folder: Path


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
    """The answers with a second look at each of these fails: one that is kept, or asked for now if a model may be.

    `tell` hears what is asked. `model` is the way that the votes came by. Raises GatewayError.
    """
    questions = look_questions(fails, facts, run)
    kept = _KeptLooks(run, model.wire, force=request.force)
    known = kept.known(questions)
    missing = _without(questions, known)
    if not missing or request.mode.why_nothing_new or not model.can_answer:
        return _with_looks(answers, questions, known)
    async with claim_questions([each.key for each in missing] if kept.reads else [], run, tell):
        known |= kept.known(missing)  # what another review was answered meanwhile
        if not (missing := _without(missing, known)):
            return _with_looks(answers, questions, known)
        tell(f"taking a second look at {counted(len(missing), 'fail')}")
        model.open()
        model.gateway.on_wait = lambda clause: tell(f"waiting for {clause}")
        new, intact = await _ask(missing, facts, repository, run, model)
        if model.gateway.ledger.reached:
            _tell_budget(run, model, missing, new)
        answers = replace(
            answers,
            cost=model.gateway.spent(),
            notes=tuple(dict.fromkeys((*answers.notes, *model.notes()))),
            intact=answers.intact and intact,
        )
        problem = kept.keep(new) if intact else ""
    if problem:
        answers = replace(answers, notes=(*answers.notes, problem))
    return _with_looks(answers, questions, known | new)


def look_questions(fails: Iterable[OpenFail], facts: Facts, run: RunContext) -> list[LookQuestion]:
    """What is asked about these fails. The node is `second-look-<rubric>`, then -b, -c ... for further ones."""
    default, trees = facts.gate.default_model(run.environ), (facts.change.before, facts.change.after)
    versions = {"vibe-gate": __version__, "claude-agent-sdk": sdk_version()}
    asked: dict[str, int] = {}
    made = []
    for fail in fails:
        name = fail.rubric.id
        index = asked[name] = asked.get(name, -1) + 1
        node = f"{facts.stage}-" * bool(facts.stage) + f"second-look-{name}{repeat_suffix(index)}"
        model = fail.rubric.model or next(iter(fail.rubric.models), default)
        models = [model, *filter(None, [fail.rubric.fallback])]
        prompt = look_prompt(fail.criterion, fail.votes, "")
        key = look_key(prompt, trees=trees, models=models, tools=TOOLS, versions=versions)
        made.append(LookQuestion(fail, node, model, key))
    return made


def _without(questions: Iterable[LookQuestion], known: Mapping[str, SecondLook]) -> list[LookQuestion]:
    return list({each.key: each for each in questions if each.key not in known}.values())


def _with_looks(answers: Answers, questions: Sequence[LookQuestion], looks: Mapping[str, SecondLook]) -> Answers:
    """The answers, each vote of these fails with the second look at it."""

    def looked_at(rubric: str, name: str, vote: Vote) -> Vote:
        for each in questions:
            is_of = (each.fail.rubric.id, each.fail.criterion.id) == (rubric, name) and vote in each.fail.votes
            if is_of and each.key in looks:
                return replace(vote, second_look=looks[each.key])
        return vote

    def with_looks(rubric: str, votes: RubricVotes) -> RubricVotes:
        made = {
            name: tuple(looked_at(rubric, name, vote) for vote in cast) for name, cast in votes.by_criterion.items()
        }
        return replace(votes, by_criterion=made)

    by_rubric = {name: tuple(with_looks(name, one) for one in votes) for name, votes in answers.by_rubric.items()}
    return replace(answers, by_rubric=by_rubric)


class _KeptLooks:
    """The second looks that this machine keeps, as answers are kept: a recording and a replay use none."""

    def __init__(self, run: RunContext, wire: Wire, *, force: bool) -> None:
        self.writes = wire.mode == "live"
        self.reads = self.writes and not force
        self._run = run

    def known(self, questions: Iterable[LookQuestion]) -> dict[str, SecondLook]:
        """By key, what was found before."""
        if not self.reads:
            return {}
        questions = list(questions)
        self._run.state.answers.fetch((each.key for each in questions), self._run.clock())
        found = ((each.key, self._kept(each.key)) for each in questions)
        return {key: look for key, look in found if look is not None}

    def _kept(self, key: str) -> SecondLook | None:
        document = self._run.state.answers.get(key, self._run.clock())
        with suppress(ValueError):  # written by another version, or by someone else: a miss
            look = None if document is None else read(SecondLook, document)
            return check_refutation(look) if look and holds_all(look, document) else None
        return None

    def keep(self, looks: Mapping[str, SecondLook]) -> str:
        """Keep what the model answered; "", or a sentence about what could not be kept."""
        run, problem = self._run, ""
        for key, look in looks.items():
            if self.writes and look.said is not None:
                turn = f"{run.record.relative}/{look.turn}" if run.record.relative and look.turn else ""
                entry = run.redactor.value(plain(replace(look, turn=turn)))
                problem = run.state.answers.put(key, entry, run.clock()) or problem
        return f"A second look is kept nowhere, so the same is paid for again ({problem})." if problem else ""


async def _ask(
    questions: Sequence[LookQuestion], facts: Facts, repository: Repository, run: RunContext, model: ModelAccess
) -> tuple[dict[str, SecondLook], bool]:
    """By key, what each conversation found, and whether the exported trees are still what they were."""
    await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    folder = model.folder / facts.stage / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with run.deadline.interrupting(grace_s=0):
            after, before = export_trees(facts.change, repository, folder)
    except InfrastructureError as error:  # of the deadline, too: the fails stay
        cause: Cause = run.deadline.cause
        if run.deadline.left():
            cause = NoConversation(message=run.redactor.text(str(error)))
        return {question.key: _no_answer(cause) for question in questions}, True
    trees: dict[Side, Tree] = {
        "after": repository.tree(facts.change.after),
        "before": repository.tree(facts.change.before),
    }
    shared = _LookContext(facts, run, model, trees, folder)
    for each in questions:
        _add_node(each, facts, run)
    looks = await together(_look(each, shared) for each in questions)
    with run.deadline.interrupting():
        intact = after.unchanged() and before.unchanged()
    return dict(zip((each.key for each in questions), looks, strict=True)), intact


def _tell_budget(
    run: RunContext, model: ModelAccess, asked: Iterable[LookQuestion], looks: Mapping[str, SecondLook]
) -> None:
    """Name the lines of the fails at which there was no second look."""
    left = [vote for each in asked if looks[each.key].said is None for vote in each.fail.votes]
    lines = [line for vote in left for line in vote.evidence if line.standing != "void"]
    places = [{"path": line.path, "line": line.line, "end_line": line.end_line} for line in lines]
    if places:
        usd = model.gateway.spent().usd
        run.record.event("budget.reached", limit_usd=model.limit_usd, usd=usd, not_asked=places)


def _add_node(question: LookQuestion, facts: Facts, run: RunContext) -> None:
    """Add its node to the graph, after the conversations of this run that it is about."""
    run.record.event("node.added", question.node, kind="judge", digest=question.fail.rubric.digest)
    turns = [Path(vote.turn).parts for vote in question.fail.votes if vote.turn.startswith("nodes/")]
    for source in dict.fromkeys(parts[1] for parts in turns) or [facts.checks_node]:
        run.record.event("edge.added", **{"from": source, "to": question.node})


async def _look(question: LookQuestion, shared: _LookContext) -> SecondLook:
    model, run = shared.model, shared.run
    async with model.slots:
        end, name = await with_fallback(
            partial(_hold, question, shared), question.model, question.fail.rubric.fallback, model, run.redactor.text
        )
    if end.status == "answered":
        return replace(_found(end.answer, end.folder, shared), model=name)
    return _no_answer(model.why_unanswered(end), end.folder)


async def _hold(question: LookQuestion, shared: _LookContext, name: str, patience_s: float) -> TurnResult:
    model, fail = shared.model, question.fail
    turn = TurnRequest(
        node=question.node,
        prompt=look_prompt(fail.criterion, fail.votes, model.nonce),
        system_prompt=LOOK_PROMPT,
        schema=look_schema(),
        objection=look_objection,
        folder=shared.folder,
        homes=model.folder,
        tools=TOOLS,
        model=name,
        max_turns=shared.facts.gate.file.budget.max_turns,
        max_cost_usd=model.limit_usd,
        timeout_s=shared.run.deadline.left(),
        patience_s=patience_s,
    )
    return await model.run_turn(turn)


def _no_answer(cause: Cause, turn: str = "") -> SecondLook:
    """Whatever the cause, the fail stays."""
    return SecondLook(outcome="undecided", said=None, reason=short(cause.reason), turn=turn, cause=cause)


def _found(document: object, turn: str, shared: _LookContext) -> SecondLook:
    """What an answer counts for."""
    redact = shared.run.redactor.text
    try:
        answer = look_of(document)
    except ValueError as error:
        # The mistake can quote the answer; it is redacted before it is cut.
        return _no_answer(Misfit(details=short(show_text(redact(first_mistake(error))))), turn)
    outcome: LookOutcome = convert(answer.outcome, LookOutcome)
    reason = answer.reason
    if outcome == "undecided" and answer.missing.strip():
        reason = f"{ended(reason)} Missing: {ended(answer.missing)}"
    quoted = answer.evidence if outcome == "refuted" else ()
    evidence = tuple(_checked(line, shared.trees) for line in quoted)
    return check_refutation(
        SecondLook(outcome=outcome, said=outcome, reason=short(redact(reason)), evidence=evidence, turn=turn)
    )


def check_refutation(look: SecondLook) -> SecondLook:
    """What it counts for: without quoted lines, or if one of them does not stand, nothing is refuted.

    Lone braces and the like stand everywhere, and prevent nothing; nor do lines that stood before the change alone.
    """
    whys = sorted({one.why for one in look.evidence if one.standing == "void"})
    if not look.evidence:
        whys = ["no evidence was given"]
    elif not whys and all(len("".join(one.quote.split())) < MIN_RELOCATED for one in look.evidence):
        whys = ["the quotes are too short to prevent anything"]
    elif not whys and all(one.side == "before" for one in look.evidence):
        whys = ["no quoted line stands after the change"]
    elif not whys and all(paths.matches(paths.unquote(one.path), PROSE) for one in look.evidence):
        whys = ["documentation and the gate's own files prevent nothing"]
    if look.outcome != "refuted" or not whys:
        return look
    why = "; ".join(whys)
    return replace(look, outcome="undecided", reason=short(f'Answered "refuted", but {why}: {look.reason}'))


def _checked(line: QuotedLine, trees: Mapping[Side, Tree]) -> CheckedEvidence:
    """The quoted line looked up by its path, or as tools show that, in the tree that it names.

    A line that is said to stand after the change and stands before it alone was removed: it prevents nothing.
    """
    path = paths.unquote(line.path).removeprefix("./")
    sides: tuple[Side, ...] = ("before", "after") if line.side == "before" else ("after",)
    tried = []
    for side in sides:
        for name in dict.fromkeys((path, path.removeprefix(f"{side}/"))):
            quoted = replace(line, path=paths.quote(name), side=side)
            tried.append(quote_in_tree(quoted, trees[side].read(name)))
    return next((one for one in tried if one.standing != "void"), tried[0])
