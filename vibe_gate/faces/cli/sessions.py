"""`vibe-gate sessions`: our agents' conversations listed, shown, copied, renamed, deleted, taken over, gone on with."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from vibe_gate.agent import sessions as by_sdk
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli import captured_sessions, run
from vibe_gate.faces.cli.captured_sessions import CapturedSessions
from vibe_gate.faces.cli.command import JSON, Command, argument, group, whole_number
from vibe_gate.faces.cli.output import complain, emit_result, now
from vibe_gate.faces.cli.runs import StoredRuns
from vibe_gate.secrets import Redactor
from vibe_gate.sessions import SessionMeta, Sessions, SessionTurn, blocks
from vibe_gate.store import captured, open_state, open_store

SHOWN_CHARACTERS = 400
"""Of one message; `--json` has all of it."""


@contextmanager
def _opened(environ: Mapping[str, str]) -> Iterator[Sessions]:
    """The sessions of the repository around the current folder. GateError."""
    runs, redact = StoredRuns(environ), Redactor(environ)
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


def _list(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with _opened(environ) as sessions:
        found = sessions.all()
        for name in sessions.damaged:
            complain(f"note: {name} cannot be read; `vibe-gate sessions delete {name}` removes it.")
    others = CapturedSessions(environ).all()
    lines = [_line(meta) for meta in found]
    if others:
        lines += ["", "Captured sessions of other programs:"][not found :]
        lines += map(captured_sessions.line, others)
    told = {"sessions": [_document(meta) for meta in found], "captured": [plain(head) for head in others]}
    return emit_result(args, told, lines or ["No sessions yet."])


def _captured(sessions: Sessions, text: str, environ: Mapping[str, str]) -> captured.CapturedHead | None:
    """The captured session that is meant, if no session of our own agents is. UsageError: several. GateError."""
    return None if sessions.matching(text) else CapturedSessions(environ).find(text)


def _own(sessions: Sessions, args: argparse.Namespace, environ: Mapping[str, str]) -> SessionMeta:
    """The session of an agent of ours that is meant. UsageError: it is a captured one, or none. GateError."""
    if head := _captured(sessions, args.id, environ):
        raise captured_sessions.refusal(head, args.subcommand)
    return sessions.find(args.id)


def _show(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with _opened(environ) as sessions:
        if head := _captured(sessions, args.id, environ):
            return _show_captured(args, head, environ)
        meta = sessions.find(args.id)
        place = sessions.place(meta.id)
        said = asyncio.run(by_sdk.messages(sessions.open(place), meta.session_id))
    names = {"agent": meta.agent, "model": meta.model, "run": meta.run, "parent": meta.parent_session_id}
    lines = [f"{meta.id}  {meta.title}", "", *(f"{name:<9} {value}" for name, value in names.items() if value)]
    lines.append(f"{'session':<9} {meta.session_id} · {counted(len(meta.turns), 'turn')} · ${meta.usd:.4f}")
    ends = {turn.last: _turn(number, turn) for number, turn in enumerate(meta.turns, 1)}
    for message in said:
        lines += _lines(message, str(place))
        lines += ends.get(message["uuid"], [])
    return emit_result(args, {**_document(meta), "messages": said}, lines)


def _show_captured(args: argparse.Namespace, head: captured.CapturedHead, environ: Mapping[str, str]) -> int:
    sessions = CapturedSessions(environ)
    turns = sessions.turns(head)
    told = head, turns, sessions.lines(head, turns)
    return emit_result(args, captured_sessions.document(*told), captured_sessions.turn_by_turn(*told))


def _turn(number: int, turn: SessionTurn) -> list[str]:
    made = f" · files {turn.after[:12]}" if turn.after else ""
    return [f"-- turn {number} · {turn.ended_at:%Y-%m-%d %H:%M} · {turn.status or 'ended'} · ${turn.usd:.4f}{made}"]


def _lines(message: dict[str, Any], place: str) -> Iterator[str]:
    """A message for people, with paths of the workspace as they are below it."""
    for block in blocks(message):
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
        cut = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
        yield from cut.splitlines()


def _copy(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    newest = args.subcommand == "rewind"
    with _opened(environ) as sessions:
        source = _own(sessions, args, environ)
        sessions.require_begun(source)
        turn = args.turn if args.turn is not None else len(source.turns)
        made = asyncio.run(sessions.copy(source, turn, by_sdk.fork, newest=newest))
    what = f"a copy of {source.id}" + (f", up to turn {turn}" if turn else "")
    on = "continue PROMPT" if newest else f"resume {made.id} PROMPT"
    return emit_result(args, _document(made), [f"{made.id}  {what}", f"Go on with: vibe-gate sessions {on}"])


def _rename(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with _opened(environ) as sessions:
        session_id = _own(sessions, args, environ).session_id
        with closing(sessions.open(sessions.place(session_id))) as mirror:
            asyncio.run(by_sdk.rename(mirror, session_id, args.title))
            made = mirror.hold(session_id)
    return emit_result(args, _document(made), [f"{made.id}  {made.title}"])


def _delete(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with _opened(environ) as sessions:
        known = {meta.id for meta in sessions.all()}
        if args.id not in sessions.damaged and (head := _captured(sessions, args.id, environ)):
            CapturedSessions(environ).delete(head)
            said = f"{head.id} is deleted, with its prompts. That it wrote files is known for 30 days."
            return emit_result(args, {"deleted": head.id}, [said])
        name = args.id if args.id in sessions.damaged and args.id not in known else sessions.find(args.id).id
        sessions.delete(name)
    return emit_result(args, {"deleted": name}, [f"{name} is deleted."])


def _migrate(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with _opened(environ) as sessions:
        if not Path(args.file).exists() and sessions.matching(args.file):
            return _take_over(args, sessions)
        meta, count, is_new = asyncio.run(sessions.migrate(Path(args.file)))
    what = f"{counted(count, 'message')} of {args.file}"
    said = f"{meta.id}  {what} taken over" if is_new else f"{meta.id}  has the {what} already"
    return emit_result(args, {**_document(meta), "messages": count, "new": is_new}, [said])


def _take_over(args: argparse.Namespace, sessions: Sessions) -> int:
    """A session that was copied here from another clone."""
    meta = sessions.find(args.file)
    is_new = not sessions.is_begun(meta)
    sessions.take_over(meta)
    text = f"{meta.id}  {'taken over' if is_new else 'was of this clone already'}"
    return emit_result(args, {**_document(meta), "new": is_new}, [text])


def _go_on(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with _opened(environ) as sessions:
        meta = sessions.newest() if args.subcommand == "continue" else _own(sessions, args, environ)
        sessions.require_begun(meta)
    args.session, args.agent = meta.id, args.agent or meta.agent
    if not args.agent:
        raise UsageError(f"{meta.id} does not say which agent it is of; name one with --agent ID.")
    return run.run(args, environ)


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
        "list": Command("list the sessions, that which was used last first", (JSON,), _list),
        "show": Command("print a session, turn by turn", (ID, JSON), _show),
        "continue": Command("go on with the newest session", (PROMPT, AGENT, run.add_how), _go_on),
        "resume": Command("go on with a session", (ID, PROMPT, AGENT, run.add_how), _go_on),
        "fork": Command(
            "copy a session; the copy goes on by itself, the original stays as it is",
            (ID, argument("--at", dest="turn", type=whole_number, metavar="TURN", help="copy up to this turn"), JSON),
            _copy,
        ),
        "rewind": Command(
            "go back to a turn: a copy up to there, which `continue` goes on with, from that turn's files",
            (
                ID,
                argument("--to", dest="turn", type=whole_number, required=True, metavar="TURN", help="the last turn"),
                JSON,
            ),
            _copy,
        ),
        "rename": Command(
            "give a session another title", (ID, argument("title", metavar="TITLE", help="the new one"), JSON), _rename
        ),
        "delete": Command("delete a session for good", (ID, JSON), _delete),
        "migrate": Command(
            "take over a session: one of the older form, a JSON file, or one that was copied from another clone",
            (
                argument(
                    "file", metavar="FILE|ID", help='{"metadata": {...}, "messages": [...]}, or a copied session\'s id'
                ),
                JSON,
            ),
            _migrate,
        ),
    },
)
