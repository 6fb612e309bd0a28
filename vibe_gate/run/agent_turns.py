"""One turn of an agent in a run: what it is asked, where it works, what it made."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.agent import StoredSession, TurnProgress, TurnRequest
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Listeners, StageStep
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.world import RunContext
from vibe_gate.domain.agent import TESTS_TOOL, Agent, Isolation
from vibe_gate.domain.escape import counted, list_names
from vibe_gate.domain.event import NodeConfig
from vibe_gate.domain.gate import Gate, McpServer
from vibe_gate.domain.project_setup import ProjectSetup, command_name
from vibe_gate.domain.wire import TurnResult
from vibe_gate.errors import UsageError
from vibe_gate.gate.trusted import WORKTREE
from vibe_gate.git import Repository
from vibe_gate.run.kept_session import KeptSession
from vibe_gate.run.repair_brief import RepairBrief
from vibe_gate.run.run_tree import RunTree
from vibe_gate.run.served_tests import make_test_runner, tests_of_findings, tests_sentence
from vibe_gate.run.stage_request import (
    DATA_RULE,
    StageRequest,
    background_sections,
    context_sections,
    findings_section,
    reviewed_rounds,
)
from vibe_gate.run.stage_result import OUTCOMES, StageResult
from vibe_gate.run.turn_changes import TurnChanges
from vibe_gate.sandbox import (
    agent_wall,
    command_environment_from,
    hide_process,
    run_command,
    wall_lack,
)
from vibe_gate.sessions import SessionMeta

SHOWN_REFUSALS = 3
"""Of the tool calls of a turn that were refused."""

SHOWN_CHARACTERS = 60
"""Of what each of these was about."""

MAX_TARGET, SHOWN_TARGET = 20_000, 200
"""Characters of what a running call is about: that are searched for secrets, and that are told."""

_TARGETS = ("file_path", "path", "notebook_path", "command", "url", "pattern")
"""Of a tool's input, what tells people what the call was about."""


class TrustedFiles:
    """Files that stages name, as they are at the trusted revision, each read once."""

    def __init__(self, facts: Facts, repository: Repository, contents: Mapping[str, bytes]) -> None:
        """`contents`: by path, files that were read already."""
        self._facts = facts
        self._repository = repository
        self._contents = dict(contents)

    def read(self, path: str) -> bytes:
        """The content. UsageError: there is no such file."""
        if path not in self._contents:
            data = self._repository.tree(self._revision()).read(path)
            if data is None:
                raise UsageError(f"There is no file {path} at the trusted revision.")
            self._contents[path] = data
        return self._contents[path]

    def _revision(self) -> str:
        """The trusted revision; where there is none the files before the change."""
        revision = self._facts.gate.revision
        if revision == WORKTREE:
            revision = self._repository.snapshot()
        return revision or self._facts.change.before


class _TurnBasis(Struct, frozen=True):
    """What a turn begins with, beside its stage and the run's files."""

    folder: Path
    """Where the agent works."""

    model: str

    session: StoredSession | None
    """The conversation that is kept, or goes on; None if none is."""

    changes: TurnChanges | None
    """What takes down what the agent changes; None if it does not write."""

    setup: ProjectSetup | None
    """What is loaded of the project's own Claude Code."""


class AgentTurns:
    """Runs the turns of a run's agents."""

    def __init__(
        self,
        facts: Facts,
        run: RunContext,
        model: ModelAccess,
        trusted_files: TrustedFiles,
        root: Path,
        listeners: Listeners,
    ) -> None:
        """`root`: the repository's, which kept sessions name."""
        self.notes: list[str] = []
        """Sentences for people about turns that have ended."""
        self.private = False
        """Whether a session that a turn is shown, or goes on with, may not leave the clone."""
        self._gate = facts.gate
        self._tests = facts.tests
        self._run = run
        self._model = model
        self._command_environment = command_environment_from(run.environment.variables)
        self._trusted_files = trusted_files
        self._root = root
        self._progress = listeners.progress
        self._tick = listeners.tick

    async def run_stage(
        self,
        node: str,
        request: StageRequest,
        tree: RunTree,
        earlier: SessionMeta | None,
        brief: Callable[[], RepairBrief],
        began: Callable[[str], object],
        setup: ProjectSetup | None,
    ) -> StageResult:
        """One turn, in the workspace if the agent writes. UsageError, StorageError.

        `earlier`: the session that it goes on with. `began` is told the tree before it, once that
        is free; `brief` then gives what the agent is shown of the repair that it is part of. `setup`:
        what is loaded of the project's Claude Code.
        """
        self._model.open()
        hide_process()
        agent = request.agent
        async with tree.reading() if agent.level == "none" else tree.writing() as workspace:
            before = tree.now
            began(before)
            folder, changes = self._folder_of(request.id, node, tree, workspace)
            model = self._model_for(request)
            kept_session = KeptSession(
                self._run,
                self._root,
                folder,
                earlier,
                agent=agent.id,
                model=model,
                node=node,
                private=self.private,
            )
            with closing(kept_session) as session:
                basis = _TurnBasis(folder, model, session.stored, changes, setup)
                turn = self._turn_request(node, request, tree, basis, brief())
                async with self._model.slots:
                    turn_result = await self._model.run_turn(turn)
                if changes is not None and workspace is not None:
                    place = turn_result.folder.removeprefix("nodes/")
                    tree.end_turn(
                        changes.after,
                        request.agent.id,
                        request.id,
                        f"{self._run.record.run_id}/{place}",
                        is_readable=changes.change is not None,
                    )
                result = self._stage_result(node, request, turn_result, before, tree, changes)
                session.finish(turn_result, result, self._run.redactor.data(result.patch))
        if session.problem:
            self.notes.append(session.problem)
        self.notes += _refused_calls(
            node, turn_result.permission_denials, folder, self._run.redactor.text
        )
        return result

    def config_of(self, request: StageRequest) -> NodeConfig:
        """With what the stage's turn will be held."""
        agent = request.agent
        return NodeConfig(
            model=self._model_for(request),
            tools=agent.tools,
            disallowed_tools=agent.disallowed_tools,
            mcp_servers=agent.mcp_servers,
            isolation=isolation_of(agent, self._gate),
            max_turns=agent.max_turns or self._gate.file.budget.max_turns,
            max_cost_usd=request.max_cost_usd or agent.max_cost_usd,
            timeout_s=request.timeout_s or agent.timeout_s,
        )

    def _model_for(self, request: StageRequest) -> str:
        default_model = self._gate.default_model(self._run.environment)
        return request.model or request.agent.model or default_model

    def _folder_of(
        self, stage: str, node: str, tree: RunTree, workspace: Path | None
    ) -> tuple[Path, TurnChanges | None]:
        """Where the agent works: in the run's workspace, whose changes are noted, or in an
        export.
        """
        changes = None
        if workspace is not None or tree.steps:
            changes = TurnChanges(
                tree.workspace,
                tree.now,
                stage=stage,
                start=tree.start,
                steps=tree.steps,
                writes=workspace is not None,
            )
        if workspace is not None:
            self._model.placeholders[str(workspace)] = "{{workspace}}"
            return workspace, changes
        folder = self._model.folder / node / "tree"
        with self._run.deadline.interrupting():
            tree.repository.export(tree.now, folder)
        return folder, changes

    def _turn_request(
        self,
        node: str,
        request: StageRequest,
        tree: RunTree,
        basis: _TurnBasis,
        brief: RepairBrief,
    ) -> TurnRequest:
        """What the agent is asked, with the limits of the stage, of the agent, else of the gate."""
        agent = request.agent
        budget = self._gate.file.budget
        setup = basis.setup
        wall = self._wall_of(agent, tree)
        command = ""
        if setup is not None and command_name(request.prompt):
            command = request.prompt
        prompt, system_prompt = self._prompts(node, request, tree, brief, command)
        images = request.load_images(self._trusted_files.read)
        mcp_servers = dict(self._mcp_servers(agent))
        if setup is not None:
            mcp_servers |= setup.mcp_servers
        time_left = self._run.deadline.seconds_left()
        return TurnRequest(
            node=node,
            prompt=prompt,
            system_prompt=system_prompt,
            model=basis.model,
            folder=basis.folder,
            homes=self._model.folder,
            schema=request.schema,
            images=images,
            tools=agent.tools,
            disallowed_tools=agent.disallowed_tools,
            mcp_servers=mcp_servers,
            setup=setup,
            has_program_prompt=setup is not None and not agent.system_prompt,
            command=command,
            run_tests=self._test_runner(agent, tree, brief),
            working=True,
            wall=wall,
            session=basis.session,
            max_turns=agent.max_turns or budget.max_turns,
            max_cost_usd=request.max_cost_usd or agent.max_cost_usd,
            timeout_s=min(request.timeout_s or agent.timeout_s or time_left, time_left),
            watch=self._watch_of(node, request, basis.folder),
            stop=request.stop,
            change=basis.changes,
        )

    def _prompts(
        self, node: str, request: StageRequest, tree: RunTree, brief: RepairBrief, command: str
    ) -> tuple[str, str]:
        """The prompt, without a command that it begins with, and the system prompt."""
        nonce = self._model.nonce
        output_of = partial(self._command_output, tree, node)
        sections = list(request.text(nonce, self._trusted_files.read, output_of))
        if command:
            sections.remove(command)
        if TESTS_TOOL in request.agent.tools:
            sections.append(tests_sentence(self._tests))
        sections += findings_section(brief.rounds, nonce, brief.title)
        sections += context_sections(request.context, nonce)
        sections += background_sections(brief.materials, nonce)
        system_prompt = request.agent.system_prompt
        if request.context or request.prompt_command or brief.rounds or brief.materials:
            system_prompt += DATA_RULE.replace("NONCE", nonce)
        return "\n\n".join(sections), system_prompt

    def _mcp_servers(self, agent: Agent) -> Mapping[str, Mapping[str, Any]]:
        """The agent's servers by name, in the CLI's own form. UsageError: gate.toml does not name
        one.
        """
        variables = self._run.environment.variables
        servers = {}
        for name in agent.mcp_servers:
            servers[name] = _mcp_server(self._gate.file.mcp, name, variables)
        return servers

    def _test_runner(
        self, agent: Agent, tree: RunTree, brief: RepairBrief
    ) -> Callable[[str], Awaitable[str]] | None:
        """What the agent's tool for tests does; None if it lists none or can have none."""
        tests = self._tests
        servers = agent.mcp_servers or agent.setup_mcp_servers
        if TESTS_TOOL not in agent.tools or tests is None or tests.lack or servers:
            return None
        return make_test_runner(tests, tree, self._run, tests_of_findings(brief.rounds))

    def _wall_of(self, agent: Agent, tree: RunTree) -> Callable[[Path, Path], Sequence[str]] | None:
        """What wraps the agent's program; None: nothing does, which is said if it should."""
        if isolation_of(agent, self._gate) == "sandbox":
            workspace = tree.workspace
            return agent_wall(workspace.root, workspace.borrowed, self._command_environment)
        if agent.level == "sandbox":
            self.notes.append(
                "An agent ran without a wall: this system has none, and the gate allows it."
            )
        return None

    def _watch_of(
        self, node: str, request: StageRequest, folder: Path
    ) -> Callable[[TurnProgress], object]:
        """Tell people of each step, then the request's own watchers."""
        answers = 0

        async def watch(step: TurnProgress) -> None:
            nonlocal answers
            answers += step.kind == "usage"
            if step.kind == "notification" and not answers:
                self._progress(node, step.text)
            elif self._tick is not None:
                self._tick(self._stage_step(node, step, answers, folder))
            for watcher in request.watchers:
                result = watcher(step)
                if inspect.isawaitable(result):
                    await result

        return watch

    def _stage_step(self, node: str, step: TurnProgress, answers: int, folder: Path) -> StageStep:
        """The step as people are told of it, without secrets and without the folder's path."""
        target = _target_of(step.input)[:MAX_TARGET].replace(f"{folder}/", "")
        return StageStep(
            node=node,
            kind=step.kind,
            tool=step.tool,
            target=self._run.redactor.text(target)[:SHOWN_TARGET] if target else "",
            ok=step.ok,
            tokens=step.tokens.get("input", 0) + step.tokens.get("output", 0),
            answers=answers,
        )

    def _command_output(self, tree: RunTree, node: str, argv: tuple[str, ...]) -> str:
        """What a prompt's command prints in an export of the files as they are."""
        folder = self._model.folder / node / "command"
        time_left = self._run.deadline.seconds_left()
        tree.repository.export(tree.now, folder)
        process = run_command(
            argv, cwd=folder, timeout_s=time_left, environment=self._command_environment
        )
        output = self._run.redactor.text(process.output.replace(f"{folder}/", ""))
        if process.failure:
            return f"{output}\n({process.failure})"
        if process.exit_code:
            return f"{output}\n(exit code {process.exit_code})"
        return output

    def _stage_result(
        self,
        node: str,
        request: StageRequest,
        turn_result: TurnResult,
        before: str,
        tree: RunTree,
        changes: TurnChanges | None,
    ) -> StageResult:
        run = self._run
        change = changes.change if changes else None
        if turn_result.status == "budget":
            run_limit_usd = self._model.limit_usd
            stage_limit_usd = request.max_cost_usd or request.agent.max_cost_usd or run_limit_usd
            limit_usd = min(stage_limit_usd, run_limit_usd)
            run.record.event("budget.reached", node, limit_usd=limit_usd, not_asked=[])
        return StageResult(
            id=request.id,
            node=node,
            outcome=OUTCOMES.get(turn_result.kind, "error"),
            reason=self._reason_of(turn_result),
            before=before,
            after=tree.now,
            agent=request.agent.id,
            status=turn_result.status,
            message=turn_result.text,
            answer=turn_result.answer,
            session_id=turn_result.session_id,
            patch=tree.repository.patch(change) if change and change.files else b"",
            bundle=run.record.directory / turn_result.folder if turn_result.folder else None,
            error=turn_result.error,
        )

    def _reason_of(self, turn_result: TurnResult) -> str:
        """Why the turn did not pass, "" if it did."""
        if turn_result.status == "timeout" and not self._run.deadline.seconds_left():
            return self._run.deadline.reached
        if OUTCOMES.get(turn_result.kind, "error") == "pass":
            return ""
        return self._run.redactor.text(turn_result.detail)


def prompt_digest(
    request: StageRequest, redact: Callable[[str], str], setup: ProjectSetup | None
) -> str:
    """Of what is asked, without what differs from run to run; what a run that is resumed hands over
    was redacted.
    """
    prompts = (request.prompt, request.prompt_file, request.prompt_command, request.images)
    parts = [str(prompts), *findings_section(reviewed_rounds(request.context), "nonce")]
    parts += context_sections(request.context, "nonce")
    if setup is not None:
        parts.append(setup.digest)
    return hashlib.sha256(redact("\0".join(parts)).encode("utf-8", "replace")).hexdigest()


def isolation_of(agent: Agent, gate: Gate) -> Isolation:
    """The isolation that the agent runs in: a clone, if the system lacks the wall and the gate
    allows that.
    """
    if agent.level == "sandbox" and gate.file.agent.allow_unwalled and wall_lack():
        return "clone"
    return agent.level


def _refused_calls(
    node: str, denials: Sequence[Mapping[str, Any]], folder: Path, redact: Callable[[str], str]
) -> list[str]:
    """A sentence about the tool calls of a turn that were refused; none if none was.

    Redacted before it is cut: what a limit leaves of a secret is not known as one any more.
    """
    calls = []
    for denial in denials:
        target = _target_of(denial.get("tool_input") or {})
        target = redact(target.removeprefix(f"{folder}/"))[:SHOWN_CHARACTERS]
        calls.append(f"{denial.get('tool_name')} {target}".rstrip())
    if not calls:
        return []
    first_calls = list_names(dict.fromkeys(calls), SHOWN_REFUSALS)
    return [f"{node}: {counted(len(calls), 'tool call')} refused: {first_calls}."]


def _target_of(tool_input: Mapping[str, Any]) -> str:
    """What a tool call was about, "" if nothing tells."""
    for name in _TARGETS:
        if tool_input.get(name):
            return str(tool_input[name])
    return ""


def _mcp_server(
    servers: Mapping[str, McpServer], name: str, variables: Mapping[str, str]
) -> Mapping[str, Any]:
    """A server in the CLI's own form. UsageError: gate.toml names no such server."""
    server = servers.get(name)
    if server is None:
        raise UsageError(f"There is no [mcp.{name}] in gate.toml.")
    if server.url is not None:
        return {"type": "http", "url": server.url}
    server_variables = {}
    for variable in server.env:
        if variable in variables:
            server_variables[variable] = variables[variable]
    return {
        "type": "stdio",
        "command": server.command,
        "args": list(server.args),
        "env": server_variables,
    }
