"""Votes: questions and their keys, briefs out, answers in, evidence checked, votes counted.

For every question the change is cut into parts (`judging.brief`). A vote asks each part in a conversation of its
own and takes the worst answer; votes go on until no further one can change an outcome. What could not be asked is
said: a part whose conversation gave no answer is listed as unreviewed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic_core import ValidationError

from vibe_gate import agent
from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import Change, FileDiff, FileVersion, Side
from vibe_gate.domain.context import repeated
from vibe_gate.domain.model import Model
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import CheckedEvidence, Outcome, Standing, Vote, short
from vibe_gate.judging import brief
from vibe_gate.judging.brief import (
    MAX_QUOTE,
    TEMPLATE_VERSION,
    AbstainAnswer,
    BriefPart,
    FailAnswer,
    QuotedLine,
)
from vibe_gate.judging.decide import check_vote, combine, settle
from vibe_gate.judging.surroundings import Surroundings

if TYPE_CHECKING:
    from vibe_gate.judging.judge import JudgeContext, ModelSession

T = TypeVar("T")
Quoted = QuotedLine | CheckedEvidence

TOOLS = ("Read", "Grep", "Glob")
"""What a judge may use: reading only, below the exported tree."""

TREES = "trees"
"""The judges' working directory: `after`, the whole tree after the change, and `before`, the changed files before."""

SESSIONS_AT_ONCE = 4
"""Conversations side by side: about twice the cores of a small CI machine (0.1-0.2 GB each)."""

_INFRASTRUCTURE = frozenset({"api_error", "died"})
_LIMITS = frozenset({"budget", "timeout"})


def question_key(
    *, about: Sequence[str], rubric: str, model: str, message: str, versions: Mapping[str, str],
    tools: Sequence[str] = TOOLS, template: int = TEMPLATE_VERSION,
) -> str:  # fmt: skip
    """The sha-256, in hex, of everything an answer depends on: the same key is never paid for twice.

    `about`: the trees before and after, or the prompts that a judge is shown and the blobs that they are about.
    `message` is "" unless it is shown; `versions` by program.
    """
    plain = {
        "about": about,
        "rubric": rubric,
        "template": template,
        "model": model,
        "tools": sorted(tools),
        "message": hashlib.sha256(message.encode("utf-8", "surrogateescape")).hexdigest(),
        "versions": dict(sorted(versions.items())),
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


class RubricQuestion(NamedTuple):
    """A rubric as it is asked once: with the author's `message`, or without it (""). `key` is that of both trees."""

    rubric: Rubric
    message: str
    key: str


class RubricBrief(NamedTuple):
    """All that a judge is shown for one question, and the `key` of that: the same for all trees that show the same.

    `change` has the files that the rubric's judge criteria concern, no others. `unshown` is what of them no part shows.
    """

    question: RubricQuestion
    change: Change
    around: Surroundings
    parts: tuple[BriefPart, ...]
    unshown: tuple[Unreviewed, ...]
    key: str

    def prompt(self, part: BriefPart, nonce: str) -> str:
        """The judge's prompt for a part, or for some of its criteria."""
        return brief.prompt(self.change, part, self.around.facts(piece.path for piece in part.pieces), nonce)

    def supports(self, votes: RubricVotes, read: Callable[[FileVersion], bytes]) -> bool:
        """Whether what counted as evidence in these votes, given about other trees, stands in this change, too."""
        asked = {criterion.id: criterion for criterion in self.question.rubric.judged}
        return votes.votes.keys() <= asked.keys() and all(
            kept.standing == "void" or _check(asked[name], kept, self.change, read).standing == "holds"
            for name, cast in votes.votes.items()
            for vote in cast
            for kept in vote.evidence
        )


class RubricVotes(Model):
    """The answer to one question: votes by criterion id, why voting stopped early, what no judge was shown.

    `used_tools`: whether a judge looked beyond its brief, so that the answer may depend on all of both trees.
    """

    votes: dict[str, tuple[Vote, ...]]
    stopped: str = ""
    unreviewed: tuple[Unreviewed, ...] = ()
    used_tools: bool = True

    @property
    def is_final(self) -> bool:
        """Whether asking again could only cost: every vote is an answer, and none is missing.

        A refusal, a lost answer or a fault is not kept: the next run may fare better.
        """
        cast = [vote for votes in self.votes.values() for vote in votes]
        return not self.stopped and bool(cast) and all(vote.said is not None for vote in cast)

    def from_bundle(self, bundle: str) -> RubricVotes:
        """The same for another run: the votes' turns are named from the repository's root, as those of others are."""

        def moved(turn: str) -> str:
            return turn if not turn.startswith("nodes/") else f"{bundle}/{turn}" if bundle else ""

        votes = {
            name: tuple(vote.model_copy(update={"turn": moved(vote.turn)}) for vote in votes)
            for name, votes in self.votes.items()
        }
        return self.model_copy(update={"votes": votes})


class VoteContext(NamedTuple):
    """What every conversation of the run's judges shares.

    `folder` holds what judges may read (`trees`, with `after` and `before` in it) and the agents' homes; `read` gives
    the content of a side.
    """

    asked: JudgeContext
    session: ModelSession
    read: Callable[[FileVersion], bytes]
    folder: Path


class _Reply(NamedTuple):
    status: str
    detail: str
    votes: dict[str, Vote]
    used_tools: bool = False


async def cast_votes(shown: RubricBrief, context: VoteContext) -> RubricVotes:
    """Ask a rubric's judge criteria about the change, vote by vote, until their outcomes are settled."""
    rubric, subject, record = shown.question.rubric, context.asked.subject, context.asked.run.record
    parts, used_tools = shown.parts, False
    nodes = [node_id(rubric, index, subject.stage) for index in range(2 * len(parts))]
    if shown.question.message:  # the nodes before are those of the same rubric asked without the message
        nodes = nodes[len(parts) :]
    for node in nodes[: len(parts)]:
        record.event("node.added", node, kind="judge", digest=rubric.digest)
        record.event("edge.added", **{"from": subject.checks_node, "to": node})
    votes: dict[str, list[Vote]] = {criterion.id: [] for part in parts for criterion in part.criteria}
    unanswered = dict.fromkeys(range(len(parts)), "not asked")
    stopped, at_once = "", rubric.votes // 2 + 1  # fewer votes settle nothing, so that many are cast side by side
    while not stopped and (undecided := {name for name, cast in votes.items() if settle(cast, rubric.votes) is None}):
        asked = [_only(part, undecided) for part in parts]
        for replies in await together(_ask_all(shown, asked, nodes, context) for _ in range(at_once)):
            used_tools = used_tools or any(reply.used_tools for reply in replies)
            for name in undecided:
                votes[name].append(combine([reply.votes[name] for reply in replies if name in reply.votes]))
            for index, reply in enumerate(replies):
                if reply.status == "answered":
                    unanswered.pop(index, None)
                elif index in unanswered and reply.detail:
                    unanswered[index] = reply.detail
            limits = (reply.detail for reply in replies if reply.status in _INFRASTRUCTURE | _LIMITS)
            stopped = stopped or next(limits, "")
        at_once = 1
    missing = [item for index, why in unanswered.items() for item in _unreviewed(parts[index], why)]
    return RubricVotes(
        votes={name: tuple(cast) for name, cast in votes.items()},
        stopped=stopped,
        unreviewed=tuple(dict.fromkeys((*shown.unshown, *missing))),
        used_tools=used_tools,
    )


def _only(part: BriefPart, names: set[str]) -> BriefPart:
    return replace(part, criteria=tuple(criterion for criterion in part.criteria if criterion.id in names))


async def _ask_all(shown: RubricBrief, parts: list[BriefPart], nodes: list[str], context: VoteContext) -> list[_Reply]:
    async def ask(part: BriefPart, node: str) -> _Reply:
        if not part.criteria:
            return _Reply("skipped", "", {})
        async with context.session.slots:
            return await _ask(shown, part, node, context)

    return await together(ask(part, node) for part, node in zip(parts, nodes, strict=False))


async def together(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. The first error ends the others and is raised itself: faces know no groups."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in asked]
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    return [task.result() for task in tasks]


def node_id(rubric: Rubric, index: int, stage: str = "") -> str:
    """`judge-<rubric>`, or `<stage>-<rubric>`, then -b, -c ... for the further parts of a large change."""
    return f"{stage or 'judge'}-{rubric.id}{repeated(index)}"


async def _ask(shown: RubricBrief, part: BriefPart, node: str, context: VoteContext) -> _Reply:
    asked, session, run = context.asked, context.session, context.asked.run
    turn = agent.Turn(
        node=node,
        prompt=shown.prompt(part, session.nonce),
        system_prompt=brief.system_prompt(session.nonce),
        schema=brief.answer_schema(part.criteria),
        cwd=context.folder / TREES,
        tools=TOOLS,
        model=shown.question.rubric.model or asked.model,
        max_turns=asked.budget.max_turns,
        max_cost_usd=session.limit_usd,
    )
    end = await agent.hold(
        turn,
        record=run.record,
        wire=session.gateway,
        environ=run.environ,
        homes=context.folder,
        timeout_s=run.deadline.left(),
    )
    if end.ending.status != "answered":
        status = end.ending.status
        limits = {"timeout": run.deadline.reached, "budget": f"The budget of ${session.limit_usd:g} is reached."}
        detail = limits.get(status) or run.redactor.text(end.ending.detail)
        return _no_answer(part, status, detail, end.folder)
    return _reply(part, end.ending.answer, shown.change, end.folder, context)._replace(used_tools=end.ending.used_tools)


def _no_answer(part: BriefPart, status: str, detail: str, turn: str) -> _Reply:
    """No usable answer: error if the infrastructure failed, else an abstention. Never fail, never pass."""
    outcome: Outcome = "error" if status in _INFRASTRUCTURE else "abstain"
    vote = Vote(outcome=outcome, said=None, reason=short(detail), turn=turn)
    return _Reply(status, short(detail), {criterion.id: vote for criterion in part.criteria})


def _reply(part: BriefPart, answer: object, change: Change, turn: str, context: VoteContext) -> _Reply:
    try:
        given = brief.JudgeAnswers.model_validate(answer)
    except ValidationError as error:
        return _no_answer(part, "no_answer", f"the answer does not fit its form ({error.error_count()} faults)", turn)
    if {answer.criterion for answer in given.answers} - {criterion.id for criterion in part.criteria}:
        return _no_answer(part, "no_answer", "the answer speaks of criteria that were not asked", turn)
    votes = {criterion.id: _vote(criterion, given, change, turn, context) for criterion in part.criteria}
    return _Reply("answered", "", votes)


def _vote(criterion: Criterion, given: brief.JudgeAnswers, change: Change, turn: str, context: VoteContext) -> Vote:
    answers = [answer for answer in given.answers if answer.criterion == criterion.id]
    if len(answers) != 1:
        why = "the answer leaves this criterion out" if not answers else "the answer speaks of this criterion twice"
        return Vote(outcome="abstain", said=None, reason=why, turn=turn)
    answer, redact = answers[0], context.asked.run.redactor.text
    said = f"{answer.reason} Missing: {answer.missing}" if isinstance(answer, AbstainAnswer) else answer.reason
    evidence = answer.evidence if isinstance(answer, FailAnswer) else ()
    return check_vote(
        Vote(
            outcome=answer.outcome,
            said=answer.outcome,
            # Redacted before it is cut: what a limit leaves of a secret may not be known as one any more.
            reason=short(redact(said)),
            counterexample=short(redact(answer.counterexample)) if isinstance(answer, FailAnswer) else None,
            changes=short(redact(given.changes)),
            evidence=tuple(_check(criterion, quoted, change, context.read) for quoted in evidence),
            turn=turn,
        )
    )


def _check(
    criterion: Criterion, evidence: Quoted, change: Change, read: Callable[[FileVersion], bytes]
) -> CheckedEvidence:
    file = _file_of(evidence, change)
    if file is None or not criterion.concerns(file):
        return check_evidence(evidence, None, b"")
    version = file.after if evidence.side == "after" else file.before
    return check_evidence(evidence, file, read(version) if version else b"")


def _file_of(evidence: Quoted, change: Change) -> FileDiff | None:
    path = paths.unquote(evidence.path)
    file = change.file(path) or change.file(path.removeprefix(f"{evidence.side}/"))  # as the judge's tools name it
    if file is None and evidence.side == "before":
        file = next((renamed for renamed in change.files if renamed.old_path == path), None)
    return file


def _unreviewed(part: BriefPart, why: str) -> list[Unreviewed]:
    return [
        Unreviewed(path=paths.quote(piece.path), line=piece.line, end_line=piece.end_line, reason=why)
        for piece in part.pieces
    ]


MIN_RELOCATED = 8
"""Visible characters that a quote needs to be looked for elsewhere: a lone brace stands on every page."""


def check_evidence(evidence: Quoted, file: FileDiff | None, content: bytes) -> CheckedEvidence:
    """Whether the quoted line stands where it is said to stand, and was changed.

    `file` is the changed file that `evidence.path` names (None: not part of the
    change) and `content` that file's bytes on the evidence's side. Both the quote
    and the content are compared as shown (`escape.show`), because that is what was
    read, and any white space counts as one space. The answer's line is the one where the quote really stands.
    """
    if file is None:
        return _checked(evidence, "void", "the file is not part of the change")
    quote = _folded(evidence.quote)
    if not quote:
        return _checked(evidence, "void", "the quote is empty")
    if "\n" in evidence.quote.strip():
        return _checked(evidence, "void", "the quote is more than one line")
    if len(quote) > MAX_QUOTE:
        return _checked(evidence, "void", f"the quote is longer than {MAX_QUOTE} characters")
    lines = enumerate(escape.lines(content), start=1)
    places = [number for number, line in lines if quote in _folded(escape.show(line))]
    if not places:
        return _checked(evidence, "void", "the quoted text is not in the file")
    touched = changed_lines(file, evidence.side)
    touching = [number for number in places if number in touched]
    if not touching:
        return _checked(evidence, "void", "the quoted line was not changed")
    if evidence.line in touching:
        return _checked(evidence, "holds")
    if len("".join(quote.split())) < MIN_RELOCATED:
        return _checked(evidence, "void", "the quote is not at that line, and too short to be looked for elsewhere")
    nearest = min(touching, key=lambda number: abs(number - evidence.line))
    return _checked(evidence, "relocated", line=nearest)


def changed_lines(file: FileDiff, side: Side) -> frozenset[int]:
    """Line numbers, from 1, that the change added (after) or removed (before)."""
    wanted = "+" if side == "after" else "-"
    skipped = "-" if side == "after" else "+"
    numbers: set[int] = set()
    for hunk in file.hunks:
        number = hunk.new_start if side == "after" else hunk.old_start
        for line in hunk.lines:
            if line.origin == wanted:
                numbers.add(number)
            if line.origin != skipped:
                number += 1
    return frozenset(numbers)


def _folded(text: str) -> str:
    return " ".join(text.split())


def _checked(evidence: Quoted, standing: Standing, why: str = "", line: int = 0) -> CheckedEvidence:
    return CheckedEvidence(
        path=evidence.path,
        line=line or evidence.line,
        end_line=line or evidence.line,
        quote=evidence.quote.strip()[:MAX_QUOTE],
        side=evidence.side,
        standing=standing,
        why=why,
    )
