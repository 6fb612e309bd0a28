"""One turn of an agent in a run: what it is asked, where it works, what it made."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vibe_gate.agent import Turn, TurnEnd, TurnProgress, hold
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Progress
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.world import RunContext
from vibe_gate.domain.agent import Agent, Isolation
from vibe_gate.domain.escape import counted, listed
from vibe_gate.domain.gate import Gate, McpServer
from vibe_gate.errors import UsageError
from vibe_gate.gate.trusted import WORKTREE
from vibe_gate.git import Repository
from vibe_gate.run.changes import TurnChanges
from vibe_gate.run.conversation import KeptConversation
from vibe_gate.run.prompts import DATA_RULE, Material, StageRequest, background_sections, handed_over
from vibe_gate.run.result import OUTCOMES, StageResult
from vibe_gate.run.tree import RunTree
from vibe_gate.sandbox import agent_wall, hide_process, run_command, wall_lack
from vibe_gate.sessions import SessionMeta

SHOWN_REFUSALS, SHOWN_CHARACTERS = 3, 60
"""Of the tool calls of a turn that were refused, and of what each was about."""

_TARGETS = ("file_path", "path", "notebook_path", "command", "url", "pattern")
"""Of a tool's input, what tells people what the call was about."""


class TrustedFiles:
    """Files that stages name, as they are at the trusted revision; `known` are those that were read already."""

    def __init__(self, facts: Facts, repository: Repository, known: Mapping[str, bytes]) -> None:
        self._facts, self._repository, self._known = facts, repository, dict(known)

    def __call__(self, path: str) -> bytes:
        """The content. UsageError: there is no such file."""
        if path not in self._known:
            gate = self._facts.gate
            revision = self._repository.snapshot() if gate.revision == WORKTREE else gate.revision
            data = self._repository.tree(revision or self._facts.change.before).read(path)
            if data is None:
                raise UsageError(f"There is no file {path} at the trusted revision.")
            self._known[path] = data
        return self._known[path]


class AgentTurns:
    """Holds the turns of a run's agents. `root`: where conversations are kept.

    `progress` hears what a turn waits for before it begins, `tick`, if it is given, of every step.

    `notes` are sentences for people about turns that have ended. `background`: what agents that write are shown;
    `private`: that, or the session that one goes on with, may not leave the clone.
    """

    def __init__(
        self,
        facts: Facts,
        run: RunContext,
        model: ModelAccess,
        read: TrustedFiles,
        root: Path,
        progress: Progress,
        tick: Progress | None,
    ) -> None:
        self.notes: list[str] = []
        self.background: tuple[Material, ...] = ()
        self.private = False
        self._gate, self._run, self._model = facts.gate, run, model
        self._read, self._root, self._progress, self._tick = read, root, progress, tick

    async def hold(
        self,
        node: str,
        asked: StageRequest,
        tree: RunTree,
        goes_on: SessionMeta | None,
        began: Callable[[str], object],
    ) -> StageResult:
        """One turn, in the workspace if the agent writes; `began` is told the tree before it, once that is free."""
        model = self._model
        model.open()
        hide_process()
        async with tree.reading() if asked.agent.level == "none" else tree.writing() as folder:
            before, changes = tree.now, None
            began(before)
            if folder is None:
                folder = model.folder / node / "tree"
                with self._run.deadline.interrupting():
                    tree.repository.export(before, folder)
            else:
                model.placeholders[str(folder)] = "{{workspace}}"
                changes = TurnChanges(tree.workspace, before)
            turn = self._turn(node, asked, model, folder, tree)
            about = {"agent": asked.agent.id, "model": turn.model, "node": node, "private": self.private}
            with closing(KeptConversation(self._run, self._root, folder, goes_on, **about)) as kept:
                end = await self._held(replace(turn, conversation=kept.given), asked, model, changes)
                if changes is not None:
                    tree.left(changes.after, asked.agent.id, readable=changes.change is not None)
                result = self._result(node, asked, end, before, tree, changes)
                kept.finish(end, result, self._run.redactor.data(result.patch))
        self.notes += filter(None, [kept.problem])
        self.notes += _refused(node, end.ending.permission_denials, folder, self._run.redactor.text)
        return result

    async def _held(self, turn: Turn, asked: StageRequest, model: ModelAccess, changes: TurnChanges | None) -> TurnEnd:
        answers = 0

        async def watch(event: TurnProgress) -> None:
            nonlocal answers
            answers += event.kind == "usage"
            if event.kind == "notification" and not answers:
                self._progress(turn.node, event.text)
            elif self._tick is not None:
                self._tick(turn.node, at_work(answers, event.tool))
            for watcher in asked.watchers:
                said = watcher(event)
                if inspect.isawaitable(said):
                    await said

        left = self._run.deadline.left()
        async with model.slots:
            return await hold(
                turn,
                record=self._run.record,
                wire=model.gateway,
                environ=self._run.environ,
                redact=self._run.redactor.text,
                homes=model.folder,
                timeout_s=min(asked.timeout_s or asked.agent.timeout_s or left, left),
                watch=watch,
                stop=asked.stop,
                made=changes,
            )

    def _turn(self, node: str, asked: StageRequest, model: ModelAccess, folder: Path, tree: RunTree) -> Turn:
        agent, file, environ, wall = asked.agent, self._gate.file, self._run.environ, None
        if held_in(agent, self._gate) == "sandbox":
            wall = agent_wall(tree.workspace.root, tree.workspace.borrowed, environ)
        elif agent.level == "sandbox":
            self.notes.append("An agent ran without a wall: this system has none, and the gate allows it.")
        sections = [*asked.text(model.nonce, self._read, partial(self._output, model, tree, node))]
        sections += handed_over(asked.context, model.nonce)
        background = self.background if agent.writes else ()
        sections += background_sections(background, model.nonce)
        has_data = bool(asked.context or asked.prompt_command or background)
        return Turn(
            node=node,
            prompt="\n\n".join(sections),
            system_prompt=agent.system_prompt + (DATA_RULE.replace("NONCE", model.nonce) if has_data else ""),
            schema=asked.schema,
            cwd=folder,
            model=asked.model or agent.model or self._gate.default_model(environ),
            tools=agent.tools,
            disallowed_tools=agent.disallowed_tools,
            mcp_servers={name: _mcp(file.mcp, name, environ) for name in agent.mcp_servers},
            images=asked.pictures(self._read),
            max_turns=agent.max_turns or file.budget.max_turns,
            max_cost_usd=asked.max_cost_usd or agent.max_cost_usd,
            working=True,
            wall=wall,
        )

    def _output(self, model: ModelAccess, tree: RunTree, node: str, argv: tuple[str, ...]) -> str:
        """What a prompt's command prints in an export of the files as they are."""
        folder, left = model.folder / node / "command", self._run.deadline.left()
        tree.repository.export(tree.now, folder)
        ended = run_command(argv, cwd=folder, timeout_s=left, environ=self._run.environ)
        how = ended.failure or (f"exit code {ended.exit_code}" if ended.exit_code else "")
        return self._run.redactor.text(ended.output.replace(f"{folder}/", "")) + (f"\n({how})" if how else "")

    def _result(
        self, node: str, asked: StageRequest, end: TurnEnd, before: str, tree: RunTree, changes: TurnChanges | None
    ) -> StageResult:
        ending, run = end.ending, self._run
        outcome = OUTCOMES.get(ending.kind, "error")
        made = changes.change if changes else None
        over = ending.status == "timeout" and not run.deadline.left()
        detail = run.deadline.reached if over else run.redactor.text(ending.detail)
        if ending.status == "budget":
            limit = min(asked.max_cost_usd or asked.agent.max_cost_usd or self._model.limit_usd, self._model.limit_usd)
            run.record.event("budget.reached", node, limit_usd=limit, not_asked=[])
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
            bundle=run.record.directory / end.folder if end.folder else None,
            error=end.error,
        )


def at_work(answers: int, tool: str) -> str:
    """What the line of a running agent says: how often its model has answered in this turn, and the tool in use."""
    return " · ".join(filter(None, (counted(answers, "answer") if answers else "begun", tool)))


def prompt_digest(asked: StageRequest, redact: Callable[[str], str]) -> str:
    """Of what is asked, without what differs from run to run; what a run that is resumed hands over was redacted."""
    own = (asked.prompt, asked.prompt_file, asked.prompt_command, asked.images)
    parts = [str(own), *handed_over(asked.context, "nonce")]
    return hashlib.sha256(redact("\0".join(parts)).encode("utf-8", "replace")).hexdigest()


def held_in(agent: Agent, gate: Gate) -> Isolation:
    """The isolation that the agent runs in: a clone, if the system lacks the wall and the gate allows that."""
    if agent.level == "sandbox" and gate.file.agent.allow_unwalled and wall_lack():
        return "clone"
    return agent.level


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
