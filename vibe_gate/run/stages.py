"""Carrying out stages: an agent's turn or a gate, each a node of the run's graph."""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vibe_gate.agent import Turn, TurnEnd, TurnProgress, hold
from vibe_gate.domain.agent import Agent, Isolation
from vibe_gate.domain.change import Selection
from vibe_gate.domain.context import RunContext, repeated
from vibe_gate.domain.escape import counted, listed
from vibe_gate.domain.event import Earlier
from vibe_gate.domain.gate import Gate, McpServer
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import AgentAuthored, Cost
from vibe_gate.errors import ApprovalNeeded, UsageError
from vibe_gate.gate.trusted import WORKTREE
from vibe_gate.gateway import Upstream, Wire, find_upstream, wire_from
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging.asking import ModelSession, model_session
from vibe_gate.run.changes import TurnChanges
from vibe_gate.run.conversation import KeptConversation, go_on, sessions_of
from vibe_gate.run.prompts import DATA_RULE, StageRequest, handed_over
from vibe_gate.run.result import OUTCOMES, StageResult
from vibe_gate.run.resume import given_again
from vibe_gate.run.review import Begun, Progress, ReviewRequest, gate_stage
from vibe_gate.run.tree import RunTree
from vibe_gate.sandbox import agent_wall, hide_process, run_command, wall_lack
from vibe_gate.sessions import SessionMeta

Approve = Callable[[str, Agent, str, float], bool | None]
"""Asks a person whether the agent may begin at this node, given its prompt and the USD that the run has cost until now.

None: nobody is there, or the answer is left for later."""

SHOWN_REFUSALS, SHOWN_CHARACTERS = 3, 60
"""Of the tool calls of a turn that were refused, and of what each was about."""

_TARGETS = ("file_path", "path", "notebook_path", "command", "url", "pattern")
"""Of a tool's input, what tells people what the call was about."""


class Stages:
    """The stages of one run: what has run, and what they share."""

    def __init__(
        self,
        begun: Begun,
        repository: Repository,
        request: ReviewRequest,
        *,
        progress: Progress,
        tick: Progress | None,
        approve: Approve | None,
        files: Mapping[str, bytes],
    ) -> None:
        """`approve`: None if nobody is to be asked."""
        self.begun, self.request = begun, request
        self.results: list[StageResult] = []
        self.after: dict[str, tuple[str, ...]] = {}
        """By node, the nodes that it comes directly after."""
        self.earlier = begun.run.record.earlier or Earlier()
        """What the run had come to before it was resumed."""
        self.tree = RunTree(repository, begun.subject.change, begun.run.record.run_id)
        self.session: ModelSession | None = None
        self.notes: list[str] = []
        """Sentences for people."""
        self._trees = {repository.root: self.tree}
        self._times: Counter[str] = Counter()
        self._progress, self._tick = progress, tick
        self._approve = approve
        self._files = dict(files)
        self._open = ExitStack()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Carry stages out in this block; afterwards workspaces stay only as far as somebody goes on from them."""
        done = False
        try:
            yield
            done = True
        finally:
            with self._open:
                for tree in self._trees.values():
                    if why := tree.leave(done=done):
                        self._progress("workspace", why)

    @property
    def cost(self) -> Cost:
        """What the run has cost until now."""
        return self.session.gateway.spent() if self.session else self.earlier.cost

    @property
    def run(self) -> RunContext:
        """What the run shares."""
        return self.begun.run

    # The graph

    def added(self, id: str, after: Iterable[str], **about: str) -> str:
        """A new node for the stage, after the nodes `after`; its id."""
        node = ""
        while not node or node in self.after:
            node = id + repeated(self._times[id])
            self._times[id] += 1
        self.after[node] = tuple(after)
        self.run.record.event("node.added", node, **about)
        for before in self.after[node]:
            self.run.record.event("edge.added", **{"from": before, "to": node})
        return node

    def latest(self) -> tuple[str, ...]:
        """The nodes that have ended and that no other that has ended comes after, past those that were skipped, too."""
        ended = [result.node for result in self.results]
        passed = self._before(*ended)
        return tuple(node for node in ended if node not in passed)

    def _before(self, *nodes: str) -> set[str]:
        """The nodes that any of these comes after, near and far."""
        passed: set[str] = set()
        waiting = [before for node in nodes for before in self.after[node]]
        while waiting:
            node = waiting.pop()
            if node not in passed:
                passed.add(node)
                waiting += self.after[node]
        return passed

    def unfinished(self, node: str, reason: str) -> None:
        """Say why a loop ended without passing, at the last node of its last iteration, which began with `node`."""
        at = max(at for at, one in enumerate(self.results) if node in (one.node, *self._before(one.node)))
        result = self.results[at]
        told = f"{reason}: {result.reason}" if result.reason else reason
        outcome = "inconclusive" if result.passed else result.outcome
        self.results[at] = replace(result, reason=told, outcome=outcome)
        self.run.record.event("node.status", result.node, status="DONE", reason=told, outcome=outcome)

    def trees(self) -> tuple[str, ...]:
        """The trees as they are now: the run's own, then those of other repositories."""
        return tuple(tree.now for tree in self._trees.values())

    def skip(self, id: str, after: Iterable[str], why: str, kind: str) -> StageResult:
        """A stage that is not run."""
        node = self.added(id, after, kind=kind)
        self.run.record.event("node.status", node, status="SKIPPED", reason=why)
        self._progress(node, f"skipped: {why}")
        return StageResult(id=id, node=node, outcome="skipped", reason=why)

    def _ended(self, result: StageResult, status: str, how: str = "") -> StageResult:
        self.results.append(result)
        trees = {"before": result.before, "after": result.after}
        self.run.record.event(
            "node.status", result.node, status=status, reason=result.reason, outcome=result.outcome, **trees
        )
        usd = self.cost.by_node.get(result.node, 0.0)
        parts = [result.outcome, how, f"${usd:.4f}" if usd else "", result.reason]
        self._progress(result.node, " · ".join(filter(None, parts)))
        return result

    # Gates

    async def gate(self, id: str, rubrics: tuple[Rubric, ...], after: Iterable[str], tree: RunTree) -> StageResult:
        """Checks and judges of the change as it is now."""
        node = self.added(id, after, kind="gate")
        self.run.record.event("node.status", node, status="RUNNING")
        async with tree.reading():
            subject = self.begun.subject._replace(
                change=tree.current, rubrics=rubrics, stage=node, agents=self._agents_before(node)
            )
            if tree.written:
                hints = (*subject.authored.hints, "this run's agents")
                subject = subject._replace(authored=AgentAuthored(decision=True, hints=hints))
            self.run.record.event("edge.added", **{"from": node, "to": subject.checks_node})
            judged = await gate_stage(
                self.request,
                subject,
                tree.repository,
                self.run,
                lambda stage, text: self._progress(node, f"{stage}: {text}"),
                lambda wire, upstream: nullcontext(self._opened(wire, upstream)),
            )
            outcome = judged.verdict.outcome
            result = StageResult(id=id, node=node, outcome=outcome, before=tree.now, after=tree.now, gate=judged)
        return self._ended(result, "DONE")

    def _agents_before(self, node: str) -> dict[str, str]:
        """The agents' nodes that the node comes after, oldest first, each with its stage."""
        before = self._before(node)
        return {one.node: one.id for one in self.results if one.node in before and one.status}

    def tree_of(self, workspace: Path | None) -> RunTree:
        """The files of that repository in this run; the run's own without one."""
        if workspace is None or workspace.resolve() in self._trees:
            return self._trees[workspace.resolve()] if workspace else self.tree
        repository = self._open.enter_context(open_repository(workspace, self.run.environ))
        if repository.root not in self._trees:
            change = repository.change(Selection("worktree"))
            self._trees[repository.root] = RunTree(repository, change, self.run.record.run_id)
        return self._trees[repository.root]

    # Agents

    async def agent(self, asked: StageRequest) -> StageResult:
        """One turn of an agent."""
        agent = asked.agent
        if agent.writes and agent.level == "none":
            raise UsageError(f'The agent {agent.id} has tools that write, so its isolation cannot be "none".')
        level = held_in(agent, self.begun.subject.gate)
        node = self.added(asked.id, asked.after, kind="stage", agent=agent.id, digest=agent.digest, isolation=level)
        tree = self.tree_of(asked.workspace)
        goes_on = self._goes_on(asked, tree, again=node in self.earlier.stages)
        prompt = self._prompt_digest(asked)
        if ended := self.earlier.stages.get(node):
            async with tree.reading():
                result = await given_again(
                    asked.id, node, agent.id, (agent.digest, prompt), ended, tree, self.run.record.directory
                )
            return self._ended(result, _status(result), "recorded")
        if not self._approved(node, asked):
            denied = StageResult(
                id=asked.id, node=node, outcome="inconclusive", reason="a person denied it", agent=agent.id
            )
            return self._ended(denied, "CANCELLED")
        session = self._model_session()
        hide_process()
        async with tree.reading() if agent.level == "none" else tree.writing() as folder:
            before, changes = tree.now, None
            self.run.record.event("node.status", node, status="RUNNING", before=before, prompt=prompt)
            if folder is None:
                folder = session.folder / node / "tree"
                with self.run.deadline.interrupting():
                    tree.repository.export(before, folder)
            else:
                session.places[str(folder)] = "{{workspace}}"
                changes = TurnChanges(tree.workspace, before)
            self._progress(node, f"agent {agent.id}")
            turn = self._turn(node, asked, session, folder, tree)
            about = {"agent": agent.id, "model": turn.model, "node": node}
            with closing(KeptConversation(self.begun, self.tree.repository.root, folder, goes_on, **about)) as kept:
                end = await self._hold(replace(turn, conversation=kept.given), asked, session, changes)
                if changes is not None:
                    tree.left(changes.after, readable=changes.change is not None)
                result = self._of_turn(node, asked, end, before, tree, changes)
                kept.finish(end, result, self.run.redactor.data(result.patch))
        self.notes += filter(None, [kept.problem])
        self.notes += _refused(node, end.ending.permission_denials, folder, self.run.redactor.text)
        return self._ended(result, _status(result))

    def _goes_on(self, asked: StageRequest, tree: RunTree, *, again: bool) -> SessionMeta | None:
        """The session to go on with, as it was before this run, after its files are there. UsageError, StorageError.

        `again`: this run's turn of it had ended when the run died.
        """
        if not asked.resume:
            return None
        kept, own = sessions_of(self.begun, self.tree.repository.root), self.run.record.run_id
        meta = kept.find(asked.resume)
        meta = meta.model_copy(update={"turns": tuple(turn for turn in meta.turns if turn.run != own)})
        self.notes += filter(None, [go_on(kept, meta, tree, own if again else "")])
        return meta

    def _approved(self, node: str, asked: StageRequest) -> bool:
        """Whether a person lets the stage begin, if one must be asked. ApprovalNeeded: nobody is there."""
        if self._approve is None:
            return True
        self.run.record.event("node.status", node, status="BLOCKED", reason="approval")
        answer = self._approve(node, asked.agent, asked.prompt, self.cost.usd)
        if answer is None:
            self.run.record.close()  # no end is written: the run waits, and can be resumed
            resume = f"`vibe-gate resume {self.run.record.run_id} --approve {node}`"
            raise ApprovalNeeded(f"blocked: {node}. {resume} lets it begin, `--deny {node}` leaves it out.")
        return answer

    async def _hold(
        self, turn: Turn, asked: StageRequest, session: ModelSession, changes: TurnChanges | None
    ) -> TurnEnd:
        answers = 0

        async def watch(event: TurnProgress) -> None:
            nonlocal answers
            answers += event.kind == "usage"
            if self._tick is not None:
                usd = session.gateway.spent().by_node.get(turn.node, 0.0)
                self._tick(turn.node, f"turn {answers} · ${usd:.4f}" + (f" · {event.tool}" if event.tool else ""))
            for watcher in asked.watchers:
                said = watcher(event)
                if inspect.isawaitable(said):
                    await said

        left = self.run.deadline.left()
        async with session.slots:
            return await hold(
                turn,
                record=self.run.record,
                wire=session.gateway,
                environ=self.run.environ,
                homes=session.folder,
                timeout_s=min(asked.timeout_s or asked.agent.timeout_s or left, left),
                watch=watch,
                stop=asked.stop,
                made=changes,
            )

    def _turn(self, node: str, asked: StageRequest, session: ModelSession, folder: Path, tree: RunTree) -> Turn:
        agent, file, wall = asked.agent, self.begun.subject.gate.file, None
        if held_in(agent, self.begun.subject.gate) == "sandbox":
            wall = agent_wall(tree.workspace.root, tree.workspace.borrowed, self.run.environ)
        elif agent.level == "sandbox":
            self.notes.append("An agent ran without a wall: this system has none, and the gate allows it.")
        sections = [*asked.text(session.nonce, self._read, partial(self._output, tree, node))]
        sections += handed_over(asked.context, session.nonce)
        has_data = bool(asked.context or asked.prompt_command)
        return Turn(
            node=node,
            prompt="\n\n".join(sections),
            system_prompt=agent.system_prompt + (DATA_RULE.replace("NONCE", session.nonce) if has_data else ""),
            schema=asked.schema,
            cwd=folder,
            model=asked.model or agent.model or self.begun.subject.gate.default_model(self.run.environ),
            tools=agent.tools,
            disallowed_tools=agent.disallowed_tools,
            mcp_servers={name: _mcp(file.mcp, name, self.run.environ) for name in agent.mcp_servers},
            images=asked.pictures(self._read),
            max_turns=agent.max_turns or file.budget.max_turns,
            max_cost_usd=asked.max_cost_usd or agent.max_cost_usd,
            working=True,
            wall=wall,
        )

    def _of_turn(
        self, node: str, asked: StageRequest, end: TurnEnd, before: str, tree: RunTree, changes: TurnChanges | None
    ) -> StageResult:
        ending, record = end.ending, self.run.record
        outcome = OUTCOMES.get(ending.status, "error")
        made = changes.change if changes else None
        over = ending.status == "timeout" and not self.run.deadline.left()
        detail = self.run.deadline.reached if over else self.run.redactor.text(ending.detail)
        if ending.status == "budget":
            self.run.record.event("budget.reached", node, limit_usd=self._limit(asked), not_asked=[])
        return StageResult(
            id=asked.id,
            node=node,
            outcome=outcome,
            reason="" if outcome == "pass" else detail,
            before=before,
            after=tree.now,
            agent=asked.agent.id,
            status=ending.status,
            message=ending.text,
            answer=ending.answer,
            session_id=ending.session_id,
            patch=tree.repository.patch(made) if made and made.files else b"",
            bundle=record.directory / end.folder if end.folder else None,
            error=end.error,
        )

    def _limit(self, asked: StageRequest) -> float:
        run_limit = self.session.limit_usd if self.session else 0.0
        return min(asked.max_cost_usd or asked.agent.max_cost_usd or run_limit, run_limit)

    def _prompt_digest(self, asked: StageRequest) -> str:
        """Of what is asked, without what differs from run to run."""
        own = (asked.prompt, asked.prompt_file, asked.prompt_command, asked.images)
        parts = [str(own), *handed_over(asked.context, "nonce")]
        text = self.run.redactor.text("\0".join(parts))  # what a run that is resumed hands over was redacted
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

    def _read(self, path: str) -> bytes:
        """A prompt file or image of the trusted revision."""
        if path not in self._files:
            gate, repository = self.begun.subject.gate, self.tree.repository
            revision = repository.snapshot() if gate.revision == WORKTREE else gate.revision
            data = repository.tree(revision or self.tree.change.before).read(path)
            if data is None:
                raise UsageError(f"There is no file {path} at the trusted revision.")
            self._files[path] = data
        return self._files[path]

    def _output(self, tree: RunTree, node: str, argv: tuple[str, ...]) -> str:
        """What a prompt's command prints in an export of the files as they are."""
        folder = self._model_session().folder / node / "command"
        tree.repository.export(tree.now, folder)
        left = self.run.deadline.left()
        ended = run_command(argv, cwd=folder, timeout_s=left, environ=self.run.environ)
        how = ended.failure or (f"exit code {ended.exit_code}" if ended.exit_code else "")
        return self.run.redactor.text(ended.output.replace(f"{folder}/", "")) + (f"\n({how})" if how else "")

    # The model

    def _model_session(self) -> ModelSession:
        wire = wire_from(self.run.environ, self.request.wire, self.request.cassette)
        return self._opened(wire, find_upstream(self.run.environ))

    def _opened(self, wire: Wire, upstream: Upstream | None) -> ModelSession:
        """The run's one way to the model, opened when it is first needed."""
        if self.session is None:
            budget = self.begun.subject.gate.file.budget
            budget = budget.model_copy(update={"max_cost_usd": self.request.max_cost_usd or budget.max_cost_usd})
            self.session = self._open.enter_context(model_session(self.run, wire, upstream, budget))
        return self.session


def held_in(agent: Agent, gate: Gate) -> Isolation:
    """The isolation that the agent runs in: a clone, if the system lacks the wall and the gate allows that."""
    if agent.level == "sandbox" and gate.file.agent.allow_unwalled and wall_lack():
        return "clone"
    return agent.level


def _status(result: StageResult) -> str:
    """Of an agent's node."""
    return {"pass": "DONE"}.get(result.outcome, "CANCELLED" if result.status == "aborted" else "ERROR")


def _refused(node: str, denials: Sequence[Mapping[str, Any]], folder: Path, redact: Callable[[str], str]) -> list[str]:
    """A sentence about the tool calls of a turn that were refused; none if none was.

    Redacted before it is cut: what a limit leaves of a secret is not known as one any more.
    """
    calls = []
    for denial in denials:
        given = denial.get("tool_input") or {}
        about = next((str(given[name]) for name in _TARGETS if given.get(name)), "").removeprefix(f"{folder}/")
        calls.append(f"{denial.get('tool_name')} {redact(about)[:SHOWN_CHARACTERS]}".rstrip())
    some = listed(dict.fromkeys(calls), SHOWN_REFUSALS)
    return [f"{node}: {counted(len(calls), 'tool call')} refused: {some}."] if calls else []


def _mcp(servers: Mapping[str, McpServer], name: str, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """A server in the CLI's own form. UsageError: gate.toml names no such server."""
    server = servers.get(name)
    if server is None:
        raise UsageError(f"There is no [mcp.{name}] in gate.toml.")
    if server.url is not None:
        return {"type": "http", "url": server.url}
    passed = {each: environ[each] for each in server.env if each in environ}
    return {"type": "stdio", "command": server.command, "args": list(server.args), "env": passed}
