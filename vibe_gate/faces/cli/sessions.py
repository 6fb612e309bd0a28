"""`vibe-gate sessions`: our agents' conversations listed, shown, copied, renamed, deleted, taken
over, gone on with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.agent import fork_stored_session, read_session_messages, rename_stored_session
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, shorten_text
from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces.cli import captured_sessions, run
from vibe_gate.faces.cli.captured_sessions import CapturedSessions
from vibe_gate.faces.cli.command import (
    JSON,
    Command,
    argument,
    group,
    parse_json,
    whole_number,
)
from vibe_gate.faces.cli.output import complain, emit_lines, emit_result, now
from vibe_gate.faces.cli.request import ChangeArguments
from vibe_gate.faces.cli.run import (
    AgentArguments,
    AgentOptions,
    add_agent_options,
    parse_agent_options,
    require_prompt,
)
from vibe_gate.faces.cli.runs import StoredRuns
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.report.sentences import RECORDS_SESSIONS
from vibe_gate.secrets import Redactor
from vibe_gate.sessions import SessionMeta, Sessions, SessionTurn, message_blocks
from vibe_gate.store.captured_heads import CapturedHead
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.store import open_store

NO_SESSIONS = (
    "No sessions yet; `vibe-gate run` begins one. Sessions of Claude Code, Gemini CLI and Codex: "
    f"{RECORDS_SESSIONS}"
)

SHOWN_CHARACTERS = 400
"""Of one message; `--json` has all of it."""


@contextmanager
def _opened() -> Iterator[Sessions]:
    """The sessions of the repository around the current folder. GateError."""
    runs, redact = StoredRuns(), Redactor(read_process_environment().variables)
    with runs.repository() as repository:
        if repository is None:
            yield Sessions(open_store(runs.root, redact, now).sessions(), redact.value, now)
            return
        store = open_store(runs.root, redact, now, repository.tracked_in_store)
        with open_state(repository.common_dir) as state:
            index = state.run_index(runs.root / STORE / "sessions")
            yield Sessions(store.sessions(), redact.value, now, index, state.begun)


def _document(meta: SessionMeta) -> dict[str, Any]:
    return {"id": meta.id, **plain(meta), "usd": meta.usd}


def _line(meta: SessionMeta) -> str:
    turns = f"{meta.agent or '-':<12}  {counted(len(meta.turns), 'turn'):>8}  ${meta.usd:.4f}"
    return f"{meta.updated_at:%Y-%m-%d %H:%M}  {meta.id}  {turns}  {meta.title}"


class SessionArguments(Struct, frozen=True):
    """The arguments of a subcommand about one session."""

    id: str
    """A session's id, or its beginning."""
    as_json: bool


class CopyArguments(Struct, frozen=True):
    """`vibe-gate sessions fork` and `rewind`."""

    id: str
    """A session's id, or its beginning."""
    turn: int | None
    """The last turn that is copied; None: all."""
    newest: bool
    """Whether the copy is the newest session then, with which `continue` goes on."""
    as_json: bool


class RenameArguments(Struct, frozen=True):
    """`vibe-gate sessions rename`."""

    id: str
    """A session's id, or its beginning."""
    title: str


class MigrateArguments(Struct, frozen=True):
    """`vibe-gate sessions migrate`."""

    source: str
    """A JSON file of the older form, or the id of a session that was copied from another clone."""
    as_json: bool


class GoOnArguments(Struct, frozen=True):
    """`vibe-gate sessions continue` and `resume`."""

    id: str | None
    """A session's id, or its beginning; None: the newest."""
    prompt: str
    agent: str
    """The agent that goes on; "": the session's."""
    options: AgentOptions


def _parse_session(args: argparse.Namespace) -> SessionArguments:
    return SessionArguments(args.id, args.json)


def _parse_id(args: argparse.Namespace) -> str:
    """A session's id, or its beginning."""
    return str(args.id)


def _parse_fork(args: argparse.Namespace) -> CopyArguments:
    return CopyArguments(args.id, args.turn, newest=False, as_json=args.json)


def _parse_rewind(args: argparse.Namespace) -> CopyArguments:
    return CopyArguments(args.id, args.turn, newest=True, as_json=args.json)


def _parse_rename(args: argparse.Namespace) -> RenameArguments:
    return RenameArguments(args.id, args.title)


def _parse_migrate(args: argparse.Namespace) -> MigrateArguments:
    return MigrateArguments(args.file, args.json)


def _parse_continue(args: argparse.Namespace) -> GoOnArguments:
    require_prompt(args.prompt)
    return GoOnArguments(None, args.prompt, args.agent or "", parse_agent_options(args))


def _parse_resume(args: argparse.Namespace) -> GoOnArguments:
    require_prompt(args.prompt)
    return GoOnArguments(args.id, args.prompt, args.agent or "", parse_agent_options(args))


def _list(as_json: bool) -> int:
    with _opened() as sessions:
        own_sessions = sessions.all()
        for name in sessions.damaged:
            complain(f"note: {name} cannot be read; `vibe-gate sessions delete {name}` removes it.")
    captured_heads = CapturedSessions().all()
    lines = [_line(meta) for meta in own_sessions]
    if captured_heads:
        if lines:
            lines.append("")
        lines.append("Captured sessions of other programs:")
        lines += map(captured_sessions.render_captured_head, captured_heads)
    document = {
        "sessions": [_document(meta) for meta in own_sessions],
        "captured": [plain(head) for head in captured_heads],
    }
    return emit_result(document, lines or [NO_SESSIONS], as_json=as_json)


def _find_captured_session(sessions: Sessions, text: str) -> CapturedHead | None:
    """The captured session that is meant, if no session of our own agents is. UsageError: several.
    GateError.
    """
    if sessions.matching(text):
        return None
    return CapturedSessions().find(text)


def _find_own_session(sessions: Sessions, text: str, subcommand: str) -> SessionMeta:
    """The session of an agent of ours that is meant.

    UsageError: it is a captured one, for which `subcommand` does nothing, or none. GateError.
    """
    if head := _find_captured_session(sessions, text):
        raise captured_sessions.refuse_captured(head, subcommand)
    return sessions.find(text)


def _show(arguments: SessionArguments) -> int:
    with _opened() as sessions:
        if head := _find_captured_session(sessions, arguments.id):
            return _show_captured(head, as_json=arguments.as_json)
        meta = sessions.find(arguments.id)
        place = sessions.place(meta.id)
        messages = asyncio.run(read_session_messages(sessions.open(place), meta.session_id))
    names = {
        "agent": meta.agent,
        "model": meta.model,
        "run": meta.run,
        "parent": meta.parent_session_id,
    }
    lines = [f"{meta.id}  {meta.title}", ""]
    for name, value in names.items():
        if value:
            lines.append(f"{name:<9} {value}")
    turns = counted(len(meta.turns), "turn")
    lines.append(f"{'session':<9} {meta.session_id} · {turns} · ${meta.usd:.4f}")
    ends = {turn.last: _turn(number, turn) for number, turn in enumerate(meta.turns, 1)}
    for message in messages:
        lines += _lines(message, str(place))
        lines += ends.get(message["uuid"], [])
    document = {**_document(meta), "messages": messages}
    return emit_result(document, lines, as_json=arguments.as_json)


def _show_captured(head: CapturedHead, *, as_json: bool) -> int:
    sessions = CapturedSessions()
    turns = sessions.turns(head)
    lines = sessions.lines(head, turns)
    return emit_result(
        captured_sessions.build_captured_document(head, turns, lines),
        captured_sessions.render_captured_turns(head, turns, lines),
        as_json=as_json,
    )


def _turn(number: int, turn: SessionTurn) -> list[str]:
    files_text = f" · files {turn.after[:12]}" if turn.after else ""
    return [
        f"-- turn {number} · {turn.ended_at:%Y-%m-%d %H:%M} · {turn.status or 'ended'} · ${turn.usd:.4f}{files_text}"
    ]


def _lines(message: dict[str, Any], place: str) -> Iterator[str]:
    """A message for people, with paths of the workspace as they are below it."""
    for block in message_blocks(message):
        match block.get("type"):
            case "text":
                text = f"{'you' if message['type'] == 'user' else 'agent'}: {block.get('text')}"
            case "tool_use":
                text = f"  {block.get('name')} {json.dumps(block.get('input'))}"
            case "tool_result":
                result = block.get("content")
                text = f"  {'failed' if block.get('is_error') else 'result'}: "
                text += result if isinstance(result, str) else json.dumps(result)
            case _:
                continue
        text = text.replace(f"{place}/", "").replace(place, ".")
        yield from shorten_text(text, SHOWN_CHARACTERS).splitlines()


def _copy(arguments: CopyArguments) -> int:
    newest = arguments.newest
    with _opened() as sessions:
        subcommand = "rewind" if newest else "fork"
        source = _find_own_session(sessions, arguments.id, subcommand)
        sessions.require_begun(source)
        turn = len(source.turns) if arguments.turn is None else arguments.turn
        copy = asyncio.run(sessions.copy(source, turn, fork_stored_session, newest=newest))
    extent = f", up to turn {turn}" if turn else ""
    next_command = "continue PROMPT" if newest else f"resume {copy.id} PROMPT"
    lines = [
        f"{copy.id}  a copy of {source.id}{extent}",
        f"Go on with: vibe-gate sessions {next_command}",
    ]
    return emit_result(_document(copy), lines, as_json=arguments.as_json)


def _rename(arguments: RenameArguments) -> int:
    with _opened() as sessions:
        session_id = _find_own_session(sessions, arguments.id, "rename").session_id
        with closing(sessions.open(sessions.place(session_id))) as mirror:
            asyncio.run(rename_stored_session(mirror, session_id, arguments.title))
            meta = mirror.hold(session_id)
    emit_lines(f"{meta.id}  {meta.title}")
    return PASS


def _delete(text: str) -> int:
    with _opened() as sessions:
        ids = {meta.id for meta in sessions.all()}
        is_damaged = text in sessions.damaged
        if not is_damaged and (head := _find_captured_session(sessions, text)):
            CapturedSessions().delete(head)
            emit_lines(
                f"{head.id} is deleted, with its prompts. That it wrote files is known for 30 days."
            )
            return PASS
        name = text if is_damaged and text not in ids else sessions.find(text).id
        sessions.delete(name)
    emit_lines(f"{name} is deleted.")
    return PASS


def _migrate(arguments: MigrateArguments) -> int:
    file = Path(arguments.source)
    with _opened() as sessions:
        if not file.exists() and sessions.matching(arguments.source):
            return _take_over(arguments, sessions)
        meta, count, is_new = asyncio.run(sessions.migrate(file))
    source = f"{counted(count, 'message')} of {file}"
    line = f"{meta.id}  {source} taken over" if is_new else f"{meta.id}  has the {source} already"
    document = {**_document(meta), "messages": count, "new": is_new}
    return emit_result(document, [line], as_json=arguments.as_json)


def _take_over(arguments: MigrateArguments, sessions: Sessions) -> int:
    """Take over a session that was copied here from another clone."""
    meta = sessions.find(arguments.source)
    is_new = not sessions.is_begun(meta)
    sessions.take_over(meta)
    line = f"{meta.id}  {'taken over' if is_new else 'was of this clone already'}"
    return emit_result({**_document(meta), "new": is_new}, [line], as_json=arguments.as_json)


def _session_to_go_on(sessions: Sessions, text: str | None) -> SessionMeta:
    if text is None:
        return sessions.newest()
    return _find_own_session(sessions, text, "resume")


def _go_on(arguments: GoOnArguments) -> int:
    with _opened() as sessions:
        meta = _session_to_go_on(sessions, arguments.id)
        sessions.require_begun(meta)
    agent = arguments.agent or meta.agent
    if not agent:
        raise UsageError(f"{meta.id} does not say which agent it is of; name one with --agent ID.")
    turn = AgentArguments(
        agent, arguments.prompt, ChangeArguments(), arguments.options, session=meta.id
    )
    return run.run_agents(turn)


ID = argument("id", metavar="ID", help="a session's id, or an unambiguous beginning of it")
PROMPT = argument("prompt", metavar="PROMPT", help="what the agent is asked next")
AGENT = argument("--agent", metavar="ID", help="another agent than the session's")

SESSIONS = group(
    "Look at the conversations of your agents, and go on with one.",
    """\
An agent that works (`vibe-gate run`) leaves its conversation below
.vibe-artifacts/sessions, redacted. ID is a session's id or an unambiguous
beginning of it. Your files are never touched: an agent works in a clone.
Sessions of other programs, captured by their hooks, are listed and shown, too.

examples:
  vibe-gate sessions list                    what there is, newest first
  vibe-gate sessions show 6f1c               what was said, turn by turn
  vibe-gate sessions continue "Now the tests."
  vibe-gate sessions fork 6f1c --at 2        try something else after turn 2
  vibe-gate sessions rewind 6f1c --to 2      go back: the copy is the newest
  vibe-gate sessions migrate old.json        take over an older file
""",
    {
        "list": Command(
            "list the sessions, that which was used last first", (JSON,), parse_json, _list
        ),
        "show": Command("print a session, turn by turn", (ID, JSON), _parse_session, _show),
        "continue": Command(
            "go on with the newest session",
            (PROMPT, AGENT, add_agent_options),
            _parse_continue,
            _go_on,
        ),
        "resume": Command(
            "go on with a session", (ID, PROMPT, AGENT, add_agent_options), _parse_resume, _go_on
        ),
        "fork": Command(
            "copy a session; the copy goes on by itself, the original stays as it is",
            (
                ID,
                argument(
                    "--at",
                    dest="turn",
                    type=whole_number,
                    metavar="TURN",
                    help="copy up to this turn",
                ),
                JSON,
            ),
            _parse_fork,
            _copy,
        ),
        "rewind": Command(
            "go back to a turn: a copy up to there, which `continue` goes on with, from that turn's files",
            (
                ID,
                argument(
                    "--to",
                    dest="turn",
                    type=whole_number,
                    required=True,
                    metavar="TURN",
                    help="the last turn",
                ),
                JSON,
            ),
            _parse_rewind,
            _copy,
        ),
        "rename": Command(
            "give a session another title",
            (ID, argument("title", metavar="TITLE", help="the new one")),
            _parse_rename,
            _rename,
        ),
        "delete": Command("delete a session for good", (ID,), _parse_id, _delete),
        "migrate": Command(
            "take over a session: one of the older form, a JSON file, or one that was copied from another clone",
            (
                argument(
                    "file",
                    metavar="FILE|ID",
                    help='{"metadata": {...}, "messages": [...]}, or a copied session\'s id',
                ),
                JSON,
            ),
            _parse_migrate,
            _migrate,
        ),
    },
)
