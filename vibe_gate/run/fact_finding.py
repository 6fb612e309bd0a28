"""The facts of a run: its change and gate, what the author says, and who the author was, looked up
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from vibe_gate.context.facts import Facts, ProofEnvironment
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import World
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Claim, Rubric, Sight
from vibe_gate.errors import GateError
from vibe_gate.gate.authorship import Authorship
from vibe_gate.gate.guidance import read_guidance
from vibe_gate.gate.loading import OFFERED, offered_rubric
from vibe_gate.gate.prompts import prompts_behind, requests_text
from vibe_gate.gate.session_records import (
    WrittenChange,
    find_writing_sessions,
    session_record_of,
    words_text,
)
from vibe_gate.gate.shared_prompts import read_shared_prompts
from vibe_gate.git import Repository
from vibe_gate.judging.trust import Badges, badges
from vibe_gate.run.worktree_stores import move_worktree_stores
from vibe_gate.store import captures
from vibe_gate.store.clone_state import CloneState


def facts_of(
    change: Change,
    gate: Gate,
    rubrics: tuple[Rubric, ...],
    request: ReviewRequest,
    repository: Repository,
    world: World,
    unread: str,
) -> Facts:
    """What is known of the change. `unread` as `catch_up` gives it."""
    mode = request.mode
    commits = repository.commits(change)
    if mode.pending_message is not None and not change.head_commit:
        commits = (repository.pending_commit(mode.pending_message),)
    authored = Authorship(repository, world.environment.agents, world.state, unread=unread).of(
        change, commits
    )
    messages = [commit.message.strip() for commit in reversed(commits)]
    written = written_change(change, repository, world.state)
    writing = () if mode.tries_judge else find_writing_sessions(written)
    record = session_record_of(written, writing, world.redactor.text)
    claims = [Claim("message", "\n\n".join(messages))]
    claims += _claims(change, gate, rubrics, request, repository, world)
    if _are_seen("said", gate, rubrics):
        ending, redact = request.last_words, world.redactor.text
        words = words_text(writing, record, ending, redact)
        claims.append(Claim("said", words, is_private=True))
    trust: Badges = {}
    if not mode.tries_judge:
        trust = badges(gate, world.state.labels.all(), gate.default_model(world.environment))
    tests = None
    # A labelled case is judged in a stand-in that has no environment, and as it was recorded on
    # another machine.
    if mode.runs_commands and not mode.tries_judge:
        tests = _tests(change, gate, repository)
    return Facts(
        change,
        gate,
        rubrics,
        tuple(claim for claim in claims if claim.text),
        authored,
        record=record,
        replay_of=mode.replay_of,
        trust=trust,
        tests=tests,
    )


def _claims(
    change: Change,
    gate: Gate,
    rubrics: tuple[Rubric, ...],
    request: ReviewRequest,
    repository: Repository,
    world: World,
) -> Iterator[Claim]:
    """What is looked up only if a rubric sees it; of a workflow, whose stages name rubrics later,
    any of the gate.
    """
    if _are_seen("prompt", gate, rubrics) and not request.mode.tries_judge:
        yield prompt_claim(change, gate, repository, world.state, world.redactor.text)
    if _are_seen("guidance", gate, rubrics):
        yield Claim("guidance", read_guidance(change, gate, repository))
    read_issues = request.forge.read_issues if request.forge else None
    if _are_seen("issue", gate, rubrics) and read_issues is not None:
        yield Claim("issue", read_issues())


def _are_seen(kind: Sight, gate: Gate, rubrics: tuple[Rubric, ...]) -> bool:
    """Whether a rubric of the run sees claims of this kind."""
    seeing_rubrics = rubrics or (*gate.rubrics, *map(offered_rubric, OFFERED))
    return any(kind in rubric.sees for rubric in seeing_rubrics)


def written_change(change: Change, repository: Repository, state: CloneState) -> WrittenChange:
    """What of the change captured sessions may have written."""
    return WrittenChange(
        change.files,
        state.captured_blobs.last_writes(),
        repository.capture_roots(),
        repository.root,
    )


def prompt_claim(
    change: Change,
    gate: Gate,
    repository: Repository,
    state: CloneState,
    redact: Callable[[str], str],
) -> Claim:
    """What people asked for in the captured sessions that wrote the change, as a judge is shown it;
    "" if not known.

    Where no session was captured: what notes say that the gate lets people share. These alone are
    not private: of a session that was captured here, whoever pushes decides.
    """
    roots = repository.capture_roots()
    prompts = prompts_behind(change.files, state.captured_blobs.last_writes(), roots)
    is_private = bool(prompts)
    if not prompts and gate.shared_prompts == "redacted":
        prompts = read_shared_prompts(
            repository, [commit.id for commit in repository.commits(change)]
        )
    return Claim("prompt", requests_text(prompts, redact), is_private)


def _tests(change: Change, gate: Gate, repository: Repository) -> ProofEnvironment | None:
    if (rule := gate.file.counterexample) is None:
        return None
    from vibe_gate.judging.proving import find_proof_environment  # few gates run tests

    return find_proof_environment(rule, change, repository)


def catch_up(repository: Repository, world: World) -> str:
    """Write into the store and state.db what happened since the last run: what captured sessions of
    agents did, and the commits that hooks marked as coming and git has made since.

    Returns why not all events of sessions could be read, as a sign of agents, or "".
    """
    move_worktree_stores(repository, world.state, world.clock())
    _, unread = captures.fold_captures(
        world.state, world.store.captures(), world.redactor, world.clock()
    )
    if world.state.hook_records.marks():
        from vibe_gate.receipts.commit_records import CommitRecords  # few reviews find a mark

        with suppress(GateError):
            CommitRecords(repository, world.state, world.clock()).settle_marks()
    return unread
