"""The judge: briefs out, answers in, evidence checked, votes counted.

For every rubric the change is cut into parts (`domain.brief`). A vote asks each
part in a conversation of its own and takes the worst answer; votes go on until no
further one can change an outcome. What could not be asked is said: a part whose
conversation gave no answer is listed as unreviewed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from vibe_gate import agent
from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileVersion
from vibe_gate.domain.decide import combine, settle, short, weigh
from vibe_gate.domain.evidence import CheckedEvidence, Evidence, check_evidence
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import Outcome, Vote
from vibe_gate.errors import AgentError
from vibe_gate.gate.case import CHECKS_NODE
from vibe_gate.judging import brief
from vibe_gate.judging.brief import Answer, Part
from vibe_gate.judging.question import Judged
from vibe_gate.store import RunRecorder

TOOLS = ("Read", "Grep", "Glob")
"""What a judge may use: reading only, below the exported tree."""

SESSIONS_AT_ONCE = 4
"""Conversations side by side: about twice the cores of a small CI machine (0.1-0.2 GB each)."""

LEAST_SECONDS = 1.0
"""A conversation with less time left than this is not begun."""

_INFRASTRUCTURE = frozenset({"api_error", "died"})
_LIMITS = frozenset({"budget", "timeout"})


@dataclass(frozen=True, slots=True)
class Courtroom:
    """What every conversation of a run shares.

    `tree` is the exported after tree, `homes` a folder for the agents' own homes,
    `read` gives the content of a side, `url` the
    gateway's address for a node, `ends_at` the deadline on the clock `monotonic`
    (seconds), `message` the author's prose for rubrics that ask to see it, `cloud` a
    cloud's own variables where agents talk to it themselves, and `settle` hears how each
    session of a node ended, for what the gateway cannot see. `redact` takes the secrets out of what is said before it
    is cut: what a limit leaves of one may not be known as a secret any more.
    """

    change: Change
    tree: Path
    homes: Path
    read: Callable[[FileVersion], bytes]
    url: Callable[[str], str]
    run: RunRecorder
    model: str
    max_turns: int
    max_cost_usd: float
    ends_at: float
    monotonic: Callable[[], float]
    environ: Mapping[str, str]
    nonce: str
    message: str
    cloud: Mapping[str, str]
    settle: Callable[[str, agent.Ending], None]
    redact: Callable[[str], str]
    contents: dict[str, bytes] = field(default_factory=dict)

    def content(self, version: FileVersion | None) -> bytes:
        """A side's bytes, read once."""
        if version is None:
            return b""
        if version.blob not in self.contents:
            self.contents[version.blob] = self.read(version)
        return self.contents[version.blob]


@dataclass(frozen=True, slots=True)
class _Reply:
    """What one conversation about one part came to."""

    status: str
    detail: str
    votes: dict[str, Vote]


@dataclass(frozen=True, slots=True)
class Answered:
    """What judges said of one rubric; `plain` is what they said without the author's prose, where all of that is said.

    A rubric that sees the message is asked with and without it: the half without is the same question as long as the
    change is, whatever its message.
    """

    judged: Judged
    plain: Judged | None = None


async def judge(rubric: Rubric, court: Courtroom, places: asyncio.Semaphore, plain: Judged | None = None) -> Answered:
    """Ask one rubric's judge criteria about the change, vote by vote; nobody is asked for the votes of `plain`."""
    parts, cut = brief.parts(court.change, rubric)
    blind = len(parts)
    if "message" in rubric.sees and court.message:
        # With and without: the worse of both counts, as `combine` takes the worst part.
        parts += tuple(Part(p.criteria, p.pieces, p.number, p.of, court.message) for p in parts)
    known = plain.votes if plain is not None and blind < len(parts) else {}
    votes: dict[str, list[Vote]] = {c.id: [] for part in parts for c in part.criteria}
    without: dict[str, list[Vote]] = {name: [] for name in votes}
    unseen = dict.fromkeys(range(blind if known else 0, len(parts)), "not asked")
    announced: set[int] = set()
    stopped = ""
    for cast in range(rubric.votes):
        undecided = {name for name, said in votes.items() if settle(said, rubric.votes) is None}
        if not undecided or stopped:
            break
        unknown = {name for name in undecided if cast >= len(known.get(name, ()))}
        asked = [_only(part, unknown if index < blind else undecided) for index, part in enumerate(parts)]
        _announce(rubric, court, asked, announced)
        replies = await _ask_all(rubric, court, asked, places)
        for name in undecided:
            alone = known[name][cast : cast + 1] if name not in unknown else _votes(replies[:blind], name)
            without[name].append(combine(alone))
            votes[name].append(combine([*alone, *_votes(replies[blind:], name)]))
        for index, reply in enumerate(replies):
            if reply.status == "answered":
                unseen.pop(index, None)
            elif index in unseen and reply.detail:
                unseen[index] = reply.detail
        stopped = next((reply.detail for reply in replies if reply.status in _INFRASTRUCTURE | _LIMITS), "")
    seen = [*cut, *_unanswered(parts[:blind], unseen), *(plain.unreviewed if plain is not None and known else ())]
    every = [*seen, *_unanswered(parts, {index: why for index, why in unseen.items() if index >= blind})]
    judged = Judged(votes=_all(votes), stopped=stopped, unreviewed=tuple(dict.fromkeys(every)))
    if blind == len(parts) or any(settle(said, rubric.votes) is None for said in without.values()):
        return Answered(judged)
    return Answered(judged, Judged(votes=_all(without), stopped=stopped, unreviewed=tuple(dict.fromkeys(seen))))


def _unanswered(parts: Sequence[Part], unseen: Mapping[int, str]) -> list[Unreviewed]:
    return [item for index, why in unseen.items() if index < len(parts) for item in _unreviewed(parts[index], why)]


def _all(votes: Mapping[str, list[Vote]]) -> dict[str, tuple[Vote, ...]]:
    return {name: tuple(cast) for name, cast in votes.items()}


def _votes(replies: list[_Reply], name: str) -> tuple[Vote, ...]:
    return tuple(reply.votes[name] for reply in replies if name in reply.votes)


def _announce(rubric: Rubric, court: Courtroom, asked: list[Part], announced: set[int]) -> None:
    """A node for each part that is asked for the first time."""
    for index, part in enumerate(asked):
        if part.criteria and index not in announced:
            announced.add(index)
            node = node_id(rubric, index)
            court.run.event("node.added", node, kind="judge")
            court.run.event("edge.added", **{"from": CHECKS_NODE, "to": node})


def _only(part: Part, names: set[str]) -> Part:
    return Part(tuple(c for c in part.criteria if c.id in names), part.pieces, part.number, part.of, part.message)


async def _ask_all(rubric: Rubric, court: Courtroom, parts: list[Part], places: asyncio.Semaphore) -> list[_Reply]:
    async def ask(index: int, part: Part) -> _Reply:
        if not part.criteria:
            return _Reply("skipped", "", {})
        async with places:
            return await _converse(rubric, court, part, node_id(rubric, index))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(index, part)) for index, part in enumerate(parts)]
    return [task.result() for task in tasks]


def node_id(rubric: Rubric, index: int) -> str:
    """`judge-<rubric>`, then -b, -c ... for the further parts of a large change."""
    letters = ""
    number = index + 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return f"judge-{rubric.id}" + (f"-{letters}" if index else "")


async def _converse(rubric: Rubric, court: Courtroom, part: Part, node: str) -> _Reply:
    left = court.ends_at - court.monotonic()
    if left < LEAST_SECONDS:
        return _silent(part, "timeout", "the deadline was reached", "")
    turn = court.run.turn(node)
    task = agent.Task(
        prompt=brief.prompt(court.change, part, court.nonce),
        system_prompt=brief.system_prompt(court.nonce),
        schema=brief.answer_schema(part.criteria),
        cwd=court.tree,
        tools=TOOLS,
        model=rubric.model or court.model,
        max_turns=court.max_turns,
        max_cost_usd=court.max_cost_usd,
        timeout_s=left,
        base_url=court.url(node),
        environ=court.environ,
        home=Path(tempfile.mkdtemp(dir=court.homes)),
        cloud=court.cloud,
    )
    court.run.event("node.status", node, status="RUNNING")
    try:
        ending = await agent.session(task, turn)
    except AgentError as error:
        ending = agent.Ending("died", None, str(error))
    turn.seal(ending)
    court.settle(node, ending)
    answered = ending.status == "answered"
    court.run.event("node.status", node, status="DONE" if answered else "ERROR", reason=ending.detail)
    if not answered:
        return _silent(part, ending.status, court.redact(ending.detail), turn.relative)
    return _reply(court, part, ending.answer, turn.relative)


def _silent(part: Part, status: str, detail: str, turn: str) -> _Reply:
    """No usable answer: error where the infrastructure failed, else an abstention. Never fail, never pass."""
    outcome: Outcome = "error" if status in _INFRASTRUCTURE else "abstain"
    vote = Vote(outcome=outcome, said=None, reason=short(detail), turn=turn)
    return _Reply(status, short(detail), {criterion.id: vote for criterion in part.criteria})


def _reply(court: Courtroom, part: Part, answer: object, turn: str) -> _Reply:
    try:
        answers = brief.Answers.model_validate(answer).answers
    except ValidationError as error:
        return _silent(part, "no_answer", f"the answer does not fit its form ({error.error_count()} faults)", turn)
    unasked = sorted({a.criterion for a in answers} - {c.id for c in part.criteria})
    if unasked:
        return _silent(part, "no_answer", "the answer speaks of criteria that were not asked", turn)
    votes = {c.id: _vote(court, c, [a for a in answers if a.criterion == c.id], turn) for c in part.criteria}
    return _Reply("answered", "", votes)


def _vote(court: Courtroom, criterion: Criterion, answers: list[Answer], turn: str) -> Vote:
    if len(answers) != 1:
        why = "the answer leaves this criterion out" if not answers else "the answer speaks of this criterion twice"
        return Vote(outcome="abstain", said=None, reason=why, turn=turn)
    answer = answers[0]
    return weigh(
        Vote(
            outcome=answer.outcome,
            said=answer.outcome,
            reason=short(court.redact(answer.reason)),
            counterexample=answer.counterexample,
            evidence=tuple(_check(court, criterion, evidence) for evidence in answer.evidence),
            turn=turn,
        )
    )


def _check(court: Courtroom, criterion: Criterion, evidence: Evidence) -> CheckedEvidence:
    path = paths.unquote(evidence.path)
    file = court.change.file(path)
    if file is None and evidence.side == "before":
        file = next((f for f in court.change.files if f.old_path == path), None)
    if file is not None and not criterion.concerns(file):
        file = None
    version = None
    if file is not None:
        version = file.after if evidence.side == "after" else file.before
    return check_evidence(evidence, file, court.content(version))


def _unreviewed(part: Part, why: str) -> list[Unreviewed]:
    """The pieces of a part nobody answered for."""
    joined: list[Unreviewed] = []
    for piece in part.pieces:
        joined.append(Unreviewed(path=paths.quote(piece.path), line=piece.line, end_line=piece.end_line, reason=why))
    return joined
