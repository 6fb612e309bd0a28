"""Review the working tree at the end of an agent's turn, and decide whether the agent goes on.

An agent goes on for one reason alone: a fail in a file that its session wrote, or in no file, of trees
that were not reviewed yet. Whatever else happens, it may stop, and the person is told.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.context.deadline import GRACE_S, Deadline
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import unheard
from vibe_gate.context.mode import StopMode
from vibe_gate.context.review_request import LastWords, ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain import paths
from vibe_gate.domain.cause import StopAsksNoJudge
from vibe_gate.domain.change import Change, Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.gate import Gate, StopRule
from vibe_gate.domain.model_wire import read_wire
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, CriterionResult, Finding
from vibe_gate.errors import INTEGRITY, PASS, POLICY_CHANGED, GateError
from vibe_gate.faces import progress
from vibe_gate.faces.agent_hook import spool, stop_state, stop_words
from vibe_gate.faces.agent_hook.session_writes import SessionWrites, writes_by_calls
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.loading import FOLDER, built_in_gate
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging.disputable import is_open_to_dispute
from vibe_gate.judging.second_look_brief import compute_dispute_key
from vibe_gate.receipts.let_through import let_through
from vibe_gate.report import next_step, queries, sentences
from vibe_gate.report.finding_list import ListedFinding, ReviewedRound, list_findings
from vibe_gate.run.review import StoredChange, review_in
from vibe_gate.store.clone_state import open_state

UNCHANGED = "without changing anything more"
"""Why an agent may stop although its files fail."""

MAX_REMEMBERED = 50
"""Findings of one round that the next compares with its own."""


class StopMemory(Struct, frozen=True):
    """What is kept of a session between two turns (`stop.json`)."""

    calls_bytes: int = 0
    """Up to where the session's calls were taken into account."""
    unread: dict[str, int] = {}
    """Working trees that were not reviewed since the session wrote there -> the first such call."""
    tree: str = ""
    """The working tree that was reviewed last."""
    prompt: str = ""
    """As of `EndedTurn`."""
    rounds: int = 0
    """How often this prompt's turn was given back to the agent."""
    holds: bool = False
    """Whether the last answer gave it back."""
    has_tasks: bool = False
    """Whether commands went on in the background then."""
    before: str = ""
    after: str = ""
    """The trees that were reviewed last."""
    failing: str = ""
    """What failed then, and the verdict as the last line."""
    handed_back: tuple[Finding, ...] = ()
    """The findings that the agent was given last."""
    message: str = ""
    """What the person was told last of why there is no review yet."""
    disputable: tuple[str, ...] = ()
    """Of what the agent was given, the findings that could be disputed, by fingerprint."""
    is_of_session: bool = False
    """Whether what failed is about what the session ran or said, which no file need change."""


class TurnAnswer(Struct, frozen=True):
    """The answer to the agent."""

    reason: str = ""
    """Why it goes on; "": it may stop."""
    message: str = ""
    """What the person is told."""


class EndedTurn(Struct, frozen=True):
    """The end of one turn, as the hook was told."""

    event: Mapping[str, Any]
    agent: str
    """As `vibe-gate install` names it."""
    folder: bytes
    """Of the session, in the spool."""
    limit_s: float
    """Seconds until the hook must have answered."""
    began_at: float
    """On the clock `time.monotonic`."""
    memory: StopMemory
    calls_bytes: int
    """Bytes of the session's calls when the turn ended."""
    calls: Sequence[Mapping[str, object]]
    """These calls, and the session's prompts."""
    tree: str
    """The top of the working tree that is reviewed."""
    is_elsewhere: bool
    """Whether that is not the one in which the agent is."""
    unread: Mapping[str, int]
    """As of `StopMemory`, after this review."""

    @property
    def left_s(self) -> float:
        """Seconds that a review may still take by itself, with the grace that it may need."""
        left_s = self.limit_s - (time.monotonic() - self.began_at)
        return max(left_s - GRACE_S - 1.0, left_s / 2)

    @property
    def prompt(self) -> str:
        """What tells the prompt from others: the agent's id of it, else when it came; "" if neither
        is known.
        """
        prompts = [call for call in self.calls if "head" in call]
        came_at = str(prompts[-1].get("ts")) if prompts else ""
        return spool.text_of(dict(self.event), "prompt_id") or came_at

    @property
    def has_tasks(self) -> bool:
        """Whether commands go on in the background, which may still write."""
        return bool(stop_state.running_tasks(dict(self.event)))

    @property
    def rounds(self) -> int:
        """How often this prompt's turn was given back: 0 of a new prompt."""
        is_same = self.prompt == self.memory.prompt  # an unknown prompt never begins anew
        goes_on = self.event.get("stop_hook_active") is True
        return self.memory.rounds if goes_on or is_same else 0


def answer_turn(event: dict[str, object], agent: str, folder: bytes, limit_s: float) -> bytes:
    """The answer at the end of a turn, in the agent's form; never raises a GateError."""
    turn = _ended_turn(event, agent, folder, limit_s)
    try:
        answer, memory = review_turn(turn)
    except GateError as error:
        answer, memory = _not_reviewed(turn, str(error))
    except Exception as error:  # noqa: BLE001  a bug may not hold the agent
        answer, memory = _not_reviewed(turn, f"a bug in vibe-gate: {type(error).__name__}: {error}")
    try:
        stop_state.write_state(folder, msgspec.to_builtins(memory))
    except OSError as error:
        if answer.reason:  # what cannot be counted could go on for ever
            answer = _uncounted(memory, error)
    if not answer.reason:
        other_trees = map(stop_words.unread_tree_text, memory.unread)
        answer = replace(answer, message=_joined(answer.message, *other_trees))
    return _in_form(answer, agent)


def _ended_turn(event: dict[str, object], agent: str, folder: bytes, limit_s: float) -> EndedTurn:
    """The turn, and which working tree is reviewed."""
    began_at = time.monotonic()
    state = stop_state.read_state(folder)
    memory = _memory_in(state)
    size = stop_state.calls_size(folder)
    agent_tree = _agent_tree(event)
    unread = _unread_trees(folder, state, agent_tree)
    tree = agent_tree
    if memory.holds and _is_own_tree(memory.tree, folder):  # what was given back comes first
        tree = memory.tree
    elif unread and agent_tree not in unread:
        tree = list(unread)[-1]
    return EndedTurn(
        event=event,
        agent=agent or "claude",
        folder=folder,
        limit_s=limit_s,
        began_at=began_at,
        memory=memory,
        calls_bytes=size,
        calls=stop_state.read_calls(folder, 0, size),
        tree=tree,
        is_elsewhere=tree != agent_tree,
        unread={other: at for other, at in unread.items() if other != tree},
    )


def _unread_trees(folder: bytes, state: dict[str, object], agent_tree: str) -> dict[str, int]:
    """The trees in which the session wrote since their last review -> the first such call.

    What is in none of the repository, or not there any more, is taken for the agent's.
    """
    unread: dict[str, int] = {}
    for call in stop_state.unread_calls(folder, state):
        if "paths" not in call:
            continue
        tree = spool.text_of(call, "tree")
        if not _is_own_tree(tree, folder):
            tree = agent_tree
        unread.setdefault(tree, stop_state.offset_of(call["at"]))
    return unread


def _is_own_tree(tree: str, folder: bytes) -> bool:
    """Whether it is the top of a working tree of the repository that has the session's folder."""
    top = os.fsencode(tree)
    return bool(tree) and spool.own_tree(top, os.path.dirname(folder)) == top  # noqa: PTH120


def review_turn(turn: EndedTurn) -> tuple[TurnAnswer, StopMemory]:
    """Review what the session left. GateError: there is no verdict."""
    with open_repository(Path(turn.tree), read_process_environment()) as repository:
        if operation := repository.operation_under_way():
            return _wait_for_end_of(operation, turn)
        with Deadline(turn.began_at, turn.limit_s).interrupting(grace_s=0):
            selection = Selection("worktree", _commit_before(repository, turn))
            change = repository.change(selection)
            is_settled = _is_reviewed(change, turn) and not turn.memory.is_of_session
            if is_settled and not _has_dispute(repository, change, turn):
                return _unchanged(turn)
            gate = _gate_of_turn(repository, change)
        rule = _stop_rule(gate)
        if not change.files or rule.review == "never":
            return TurnAnswer(), _memory_of(turn, change)
        summary = _summary(repository, change, gate, rule, turn)
        if summary.exit_code == INTEGRITY:  # somebody wrote meanwhile: once more, as it is now
            change = repository.change(selection)
            summary = _summary(repository, change, gate, rule, turn)
        writes = writes_by_calls(turn.calls, repository.root, time.time())
    return _decide(summary, change, gate, writes, turn)


def _gate_of_turn(repository: Repository, change: Change) -> Gate:
    """The trusted gate. The first definitions of all decide about turns as soon as they are
    committed: before that the agent may have written them to pass.
    """
    gate = gate_for(repository, change, base=None, definitions=None)
    tree_before = repository.tree(change.before)
    if gate.origin == "bootstrap" and tree_before.read(f"{FOLDER}/gate.toml") is None:
        return built_in_gate(tree_before)
    return gate


def _is_reviewed(change: Change, turn: EndedTurn) -> bool:
    """Whether the last review was of these trees, in this place."""
    memory = turn.memory
    trees = (change.before, change.after)
    return turn.tree == memory.tree and trees == (memory.before, memory.after)


def _has_dispute(repository: Repository, change: Change, turn: EndedTurn) -> bool:
    """Whether a finding that was given back has been disputed: then the verdict may be another."""
    if not turn.memory.holds:
        return False
    trees = (change.before, change.after)
    answers = open_state(repository.common_dir).answers
    keys = [compute_dispute_key(fingerprint, trees) for fingerprint in turn.memory.disputable]
    return any(answers.get(key, _now()) for key in keys)


def _commit_before(repository: Repository, turn: EndedTurn) -> str:
    """The commit with which the working tree is compared: HEAD, as the next commit will be.

    If the agent committed in this turn what no hook of git let through: HEAD as it was before.
    """
    prompts = [call for call in turn.calls if "head" in call]
    if not prompts:
        return "HEAD"
    head, prompt_ms = str(prompts[-1]["head"]), prompts[-1].get("ts")
    commit = repository.head()
    if not commit or head == commit or not isinstance(prompt_ms, int):
        return "HEAD"
    try:
        is_older = repository.is_ancestor(head, commit)
    except GateError:  # it is not here any more
        is_older = False
    if not is_older:
        return "HEAD"
    new_commits = repository.unpushed(commit, "", [head]).commits
    if any(new_commit.time < prompt_ms // 1000 for new_commit in new_commits):  # pulled, say
        return "HEAD"
    records = open_state(repository.common_dir).hook_records.all()
    if all(let_through(records, new_commit.tree) for new_commit in new_commits):
        return "HEAD"
    return head


def _summary(
    repository: Repository, change: Change, gate: Gate, rule: StopRule, turn: EndedTurn
) -> Summary:
    request = ReviewRequest(
        Selection(change.kind),
        deadline_s=min(rule.deadline_s, turn.left_s),
        wire=read_wire(read_process_environment().variables),
        mode=StopMode(),
        last_words=_last_words_of(turn),
    )
    stored = StoredChange(change, gate, _recall_nothing)
    walk = review_in(repository, request, clock=_now, progress=unheard, stored=stored)
    return progress.run_walk(walk).summary


def _last_words_of(turn: EndedTurn) -> LastWords | None:
    """What the agent says now; None if its event does not tell it."""
    event = dict(turn.event)
    texts = [spool.text_of(event, name) for name in ("last_assistant_message", "prompt_response")]
    text = "".join(texts)
    session = os.fsdecode(os.path.basename(turn.folder))  # noqa: PTH119
    return LastWords(session, _now(), text) if text.strip() else None


def _now() -> datetime:
    return datetime.now(UTC)


def _recall_nothing(facts: Facts, run: RunContext) -> None:
    """The change was read in this process, and no earlier run answered it elsewhere."""


def _is_of_session(fail: Finding, writes: SessionWrites) -> bool:
    """Whether the session wrote a file in which the finding stands, or it stands in none."""
    return any(not path or _wrote(writes, path) for path in fail.paths)


def _decide(
    summary: Summary, change: Change, gate: Gate, writes: SessionWrites, turn: EndedTurn
) -> tuple[TurnAnswer, StopMemory]:
    """Whether the agent goes on, and what the person is told."""
    memory = _memory_of(turn, change)
    if summary.exit_code == INTEGRITY:
        problem = stop_words.not_reviewed_text("files change all the time")
        return TurnAnswer(message=problem), memory
    verdict = _verdict_line(summary)
    fails = [finding for finding in summary.findings if finding.level == "failure"]
    own_fails, other_fails = _split_fails(fails, writes)
    has_written = any(_wrote(writes, file.shown_path) for file in change.files)
    if not has_written:
        own_fails, other_fails = [], fails
    place = _place_of(turn)
    aside = ""
    if other_fails:
        aside = _joined(stop_words.other_files_text(_lines(other_fails, summary)), place)
    if summary.outcome != "fail" or not has_written or (fails and not own_fails):
        return TurnAnswer(message=_joined(aside, _unheld(summary, verdict, gate))), memory
    failing = stop_words.findings_text(_lines_with_disputes(own_fails, summary), verdict)
    memory = replace(
        memory,
        failing=failing,
        handed_back=tuple(own_fails[:MAX_REMEMBERED]),
        is_of_session=any(fail.criterion in gate.session_criteria for fail in own_fails),
    )
    stop_reason = _stop_reason(change, gate, turn)
    if stop_reason:
        message = stop_words.still_fails_text(failing, stop_reason)
        return TurnAnswer(message=_joined(message, place, aside)), memory
    handed = _handed_back(own_fails, summary, gate, turn)
    message = stop_words.handed_back_text(
        len(own_fails) or 1, handed.round_number, handed.max_rounds
    )
    memory = replace(
        memory,
        rounds=handed.round_number,
        holds=True,
        disputable=_disputable_fingerprints(own_fails, summary, gate),
    )
    return TurnAnswer(stop_words.block_text(handed), _joined(message, aside)), memory


def _verdict_line(summary: Summary) -> str:
    return sentences.concise_lines(summary)[-1]


def _split_fails(
    fails: Iterable[Finding], writes: SessionWrites
) -> tuple[list[Finding], list[Finding]]:
    """Those that are of the session, and the others."""
    own_fails = []
    other_fails = []
    for fail in fails:
        if _is_of_session(fail, writes):
            own_fails.append(fail)
        else:
            other_fails.append(fail)
    return own_fails, other_fails


def _stop_reason(change: Change, gate: Gate, turn: EndedTurn) -> str:
    """Why the agent may stop although its files fail; "" if it goes on."""
    # Unchanged trees are reviewed once more because of a dispute.
    if _is_reviewed(change, turn) and not turn.memory.is_of_session:
        return UNCHANGED
    max_rounds = _stop_rule(gate).max_rounds
    if turn.rounds >= max_rounds:
        return f"after {max_rounds} rounds"
    return ""


def _disputable_fingerprints(
    fails: Iterable[Finding], summary: Summary, gate: Gate
) -> tuple[str, ...]:
    """Of the findings among these that the agent may dispute."""
    fingerprints = []
    for fail in fails:
        if is_open_to_dispute(fail, summary, gate.rubrics):
            fingerprints.append(fail.fingerprint)
    return tuple(fingerprints)


def _handed_back(
    fails: Sequence[Finding], summary: Summary, gate: Gate, turn: EndedTurn
) -> stop_words.HandedBack:
    """What the agent is given of its session's fails; if there are none, the verdict alone."""
    fails_of_session = [fail for fail in fails if fail.criterion in gate.session_criteria]
    fingerprints = _disputable_fingerprints(fails, summary, gate)
    return stop_words.HandedBack(
        findings=_listed(fails, summary, turn),
        verdict=_verdict_line(summary),
        round_number=turn.rounds + 1,
        max_rounds=_stop_rule(gate).max_rounds,
        agent=turn.agent,
        place=_place_of(turn),
        has_repairs=not fails or len(fails_of_session) < len(fails),
        cures=_session_cures(fails_of_session, gate),
        disputable=[fingerprint[:SHORT_FINGERPRINT] for fingerprint in fingerprints],
    )


def _listed(fails: Sequence[Finding], summary: Summary, turn: EndedTurn) -> list[ListedFinding]:
    """These findings and those of the round before, in one list."""
    reviewed = ReviewedRound(number=turn.rounds, rubrics=summary.rubrics, findings=fails)
    if not turn.rounds:
        return list_findings([reviewed])
    earlier = ReviewedRound(number=turn.rounds - 1, rubrics=(), findings=turn.memory.handed_back)
    return list_findings([earlier, reviewed])


def _joined(*messages: str) -> str:
    return "\n".join(message for message in messages if message)


def _unheld(summary: Summary, verdict: str, gate: Gate) -> str:
    """What the person is told of a review that does not concern the agent; "" if it is nothing."""
    if summary.exit_code == PASS:
        has_warnings = any(finding.level == "warning" for finding in summary.findings)
        return f"vibe-gate: {verdict}" if has_warnings else ""
    if summary.exit_code == POLICY_CHANGED:
        return f"vibe-gate: {verdict}"
    if summary.outcome == "fail":
        return ""
    undecided: list[CriterionResult] = []
    for criterion in summary.criteria:
        is_left_out = isinstance(criterion.cause, StopAsksNoJudge)
        if criterion.outcome in ("abstain", "error") and not is_left_out:
            undecided.append(criterion)
    if not undecided:
        return ""
    has_answers = all(
        criterion.outcome == "abstain" and criterion.cause is UNSET for criterion in undecided
    )
    if has_answers:
        return _undecided(undecided, summary, gate)
    problem = next_step.why_undecided(summary) or verdict
    return stop_words.not_reviewed_text(problem, next_step.to_review_a_turn(summary))


def _undecided(undecided: Sequence[CriterionResult], summary: Summary, gate: Gate) -> str:
    """What the person is told of a review in which these criteria abstained."""
    check_ids = _ids_of_tests_ran(gate)
    open_questions: list[str] = []
    for criterion in undecided:
        if criterion.kind == "judge":  # its reason is a model's
            open_questions.append(criterion.id)
            continue
        open_questions.append(f"{criterion.id} ({queries.reason_in_words(criterion.reason)})")
    return stop_words.undecided_text(
        open_questions,
        has_passes=any(criterion.outcome == "pass" for criterion in summary.criteria),
        needs_tests=any(criterion.id in check_ids for criterion in undecided),
    )


def _ids_of_tests_ran(gate: Gate) -> frozenset[str]:
    """The ids of the criteria that ask whether tests ran."""
    criterion_ids: set[str] = set()
    for rubric in gate.rubrics:
        criterion_ids |= {entry.id for entry in rubric.criterion if entry.check == "tests-ran"}
    return frozenset(criterion_ids)


def _session_cures(fails: Sequence[Finding], gate: Gate) -> tuple[str, ...]:
    """What cures these findings about what the session ran or said, each cure once."""
    failed_ids = {fail.criterion for fail in fails}
    cures: dict[str, None] = {}
    for rubric in gate.rubrics:
        for criterion in rubric.criterion:
            if criterion.id not in failed_ids:
                continue
            if criterion.check == "tests-ran":
                cures[stop_words.tests_cure(criterion.options.get("commands", ()))] = None
            elif criterion.needs == "said":
                cures[stop_words.RUN_OR_CORRECT] = None
    return tuple(cures)


def _unchanged(turn: EndedTurn) -> tuple[TurnAnswer, StopMemory]:
    """Nothing changed since the last review: the agent may stop, whatever was found then."""
    memory = replace(
        turn.memory,
        calls_bytes=turn.calls_bytes,
        unread=dict(turn.unread),
        holds=False,
        has_tasks=turn.has_tasks,
    )
    if not turn.memory.holds:
        return TurnAnswer(), memory
    failing = turn.memory.failing or "FAIL"
    message = stop_words.still_fails_text(failing, UNCHANGED)
    return TurnAnswer(message=_joined(message, _place_of(turn))), memory


def _place_of(turn: EndedTurn) -> str:
    """Where the findings are; "" if that is where the agent is."""
    return stop_words.tree_text(turn.tree) if turn.is_elsewhere else ""


def _uncounted(memory: StopMemory, error: OSError) -> TurnAnswer:
    """The answer where the memory of the round cannot be written: the agent is not held."""
    problem = f"its rounds cannot be counted: stop.json: {error.strerror or error}"
    return TurnAnswer(message=stop_words.still_fails_text(memory.failing, problem))


def _wait_for_end_of(operation: str, turn: EndedTurn) -> tuple[TurnAnswer, StopMemory]:
    """Nothing is reviewed in the middle of a merge or rebase; the first stop after it is.

    The person is told once in a prompt and tree.
    """
    problem = f"a {operation} is under way; the turn that ends after it is reviewed"
    message = stop_words.not_reviewed_text(problem)
    memory = replace(
        turn.memory,
        prompt=turn.prompt,
        rounds=turn.rounds,
        holds=False,
        tree=turn.tree,
        message=message,
    )
    last = turn.memory
    if (message, turn.prompt, turn.tree) == (last.message, last.prompt, last.tree):
        return TurnAnswer(), memory
    return TurnAnswer(message=message), memory


def _not_reviewed(turn: EndedTurn, problem: str) -> tuple[TurnAnswer, StopMemory]:
    memory = replace(
        turn.memory,
        calls_bytes=turn.calls_bytes,
        unread=dict(turn.unread),
        holds=False,
        before="",
        after="",
    )
    lines = [line for line in problem.splitlines() if line]
    message = stop_words.fitted(stop_words.not_reviewed_text(lines[0] if lines else ""), [], [])
    return TurnAnswer(message=message), memory


def _memory_in(state: dict[str, object]) -> StopMemory:
    try:
        return msgspec.convert(state, StopMemory)
    except msgspec.ValidationError:
        return StopMemory()


def _memory_of(turn: EndedTurn, change: Change) -> StopMemory:
    """What is remembered of a review of this change, if the agent may stop."""
    return StopMemory(
        calls_bytes=turn.calls_bytes,
        unread=dict(turn.unread),
        tree=turn.tree,
        prompt=turn.prompt,
        rounds=turn.rounds,
        has_tasks=turn.has_tasks,
        before=change.before,
        after=change.after,
    )


def _stop_rule(gate: Gate) -> StopRule:
    """The trusted gate's; a gate that comes with the change itself does not switch its review off."""
    if gate.origin == "bootstrap":
        return StopRule()
    return gate.file.hooks.stop


def _agent_tree(event: Mapping[str, Any]) -> str:
    """The top of the working tree in which the agent is, or of its session if that is in another
    repository; links are resolved.
    """
    project = spool.project_of(os.environ)
    folder = os.fsencode(str(event.get("cwd") or "."))
    is_own = spool.common_dir(folder) == spool.common_dir(project)
    return os.path.realpath(os.fsdecode(spool.root_of(folder if is_own else project)))


def _wrote(writes: SessionWrites, shown_path: str) -> bool:
    return bool(shown_path) and writes.has(paths.unquote(shown_path))


def _lines(findings: Sequence[Finding], summary: Summary) -> list[str]:
    """The findings, a line each, the worst first."""
    return [sentences.placed_line(finding) for finding in queries.worst_first(findings, summary)]


def _lines_with_disputes(findings: Sequence[Finding], summary: Summary) -> list[str]:
    """The same for a person: below a finding that was disputed, both sides."""
    lines = []
    for finding in queries.worst_first(findings, summary):
        line = sentences.placed_line(finding)
        look = finding.second_look
        if look is not UNSET and look.is_disputed:
            line += f"\n  {safe(sentences.dispute_sentence(look))}"
            line += f"\n  {safe(sentences.second_look_sentence(look))}"
        lines.append(line)
    return lines


def _in_form(answer: TurnAnswer, agent: str) -> bytes:
    """The answer as the agent's hook gives it; {} if there is nothing to say."""
    document: dict[str, str] = {}
    if answer.reason:
        document["decision"] = "deny" if agent == "gemini" else "block"
        document["reason"] = answer.reason
    if answer.message:
        document["systemMessage"] = answer.message
    return json.dumps(document).encode()
