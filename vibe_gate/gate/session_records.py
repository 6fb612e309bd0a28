"""The record of the captured sessions that wrote a change, and what their agents said of it, as a judge
is shown both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.review_request import LastWords
from vibe_gate.domain import escape
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import counted, shorten_text
from vibe_gate.domain.session_record import (
    LATENCY,
    MAX_LINE,
    CapturedRecord,
    CommandRecord,
    LastWrite,
    make_session_record,
)
from vibe_gate.gate.prompts import sessions_until
from vibe_gate.store import captures
from vibe_gate.store.session_acts import (
    SessionActs,
    SpokenWords,
    moment_of_content,
    session_acts_of,
)

MAX_WORDS = 20_000
"""Characters of all last words that a judge is shown; of more, those in the middle are left out."""

MAX_ROWS = 200
"""Commands that a judge is shown, the latest."""

MAX_ROW = 300
"""Characters of a command's line that a judge is shown."""

_ROUNDING = timedelta(milliseconds=2)
"""By so much the same moment may differ between an event and state.db."""

_SPOKEN = "  "
"""Before each line of an agent's words, so that none can be taken for a row of ours."""


class WrittenChange(Struct, frozen=True):
    """What of a change captured sessions may have written."""

    files: tuple[FileDiff, ...]

    last_writes: Mapping[str, Mapping[str, int]]
    """As `CapturedBlobs.last_writes` gives them."""

    roots: Sequence[Path]
    """The working trees in whose stores sessions may lie."""

    tree: Path
    """The top of the working tree that has the files."""


class WritingSession(Struct, frozen=True):
    """A captured session that wrote files of a change."""

    acts: SessionActs

    last_write: datetime
    """When it last wrote one as the change has it."""


def find_writing_sessions(change: WrittenChange) -> tuple[WritingSession, ...]:
    """The captured sessions that wrote files of the change, by their tools or by a command."""
    writing: list[WritingSession] = []
    sessions = sessions_until(change.files, change.last_writes)
    for session, ms in sessions.items():
        writing.append(WritingSession(session_acts_of(change.roots, session), _moment_of(ms)))
    moments: list[datetime] = []
    for file in change.files:
        moment = None
        if file.brought_blob not in change.last_writes:
            moment = _moment_on_disk(file, change.tree)
        if moment is not None:
            moments.append(moment)
    if not moments:
        return tuple(writing)
    for session in captures.sessions_active_at(change.roots, moments):
        if session in sessions:
            continue
        acts = session_acts_of(change.roots, session)
        spans = _command_spans(acts)
        own_moments = [moment for moment in moments if _is_within(moment, spans)]
        if own_moments:
            writing.append(WritingSession(acts, max(own_moments)))
    return tuple(writing)


def _command_spans(acts: SessionActs) -> list[tuple[datetime, datetime]]:
    """Within which times the session's commands ran."""
    spans: list[tuple[datetime, datetime]] = []
    for command in acts.commands:
        if command.began_at is not None and command.ended_at is not None:
            spans.append((command.began_at - LATENCY, command.ended_at))
    return spans


def _moment_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _is_within(moment: datetime, spans: Iterable[tuple[datetime, datetime]]) -> bool:
    return any(start <= moment <= end for start, end in spans)


def _moment_on_disk(file: FileDiff, tree: Path) -> datetime | None:
    """When the file on the disk was written, if that is the change's version of it."""
    if file.after is None:
        return None
    return moment_of_content(tree / file.path, file.after.blob, file.after.size)


def session_record_of(
    change: WrittenChange, writing: Sequence[WritingSession], redact: Callable[[str], str]
) -> CapturedRecord | None:
    """The record of these sessions; None if there are none. `redact` is given whole commands."""
    if not writing:
        return None
    commands: list[CommandRecord] = []
    for session in writing:
        commands += _command_records(session.acts, redact)
    return make_session_record(
        [session.acts.session for session in writing],
        list(_last_writes(change, writing)),
        commands,
        sum(session.acts.damaged for session in writing),
    )


def _command_records(acts: SessionActs, redact: Callable[[str], str]) -> Iterator[CommandRecord]:
    agent = captures.agent_title(acts.session)
    for command in acts.commands:
        line = redact(command.line)  # a secret that is cut is not found
        yield CommandRecord(
            session=acts.session,
            agent=agent,
            turn=bisect_right(acts.prompts, command.at),
            line=line[:MAX_LINE],
            is_cut=len(line) > MAX_LINE,
            began_at=command.began_at,
            ended_at=command.ended_at,
            exit_status=command.exit_status,
        )


# When the files were written


def _last_writes(change: WrittenChange, writing: Sequence[WritingSession]) -> Iterator[LastWrite]:
    """The last write to each file of the change that a session wrote."""
    tool_times = _tool_times(change, writing)
    sessions = {session.acts.session for session in writing}
    spans: list[tuple[datetime, datetime]] = []
    for session in writing:
        spans += _command_spans(session.acts)
    for file in change.files:
        write_times: list[datetime] = []
        for name in file.names:
            write_times += tool_times.get(name, ())
        blob_times: list[datetime] = []
        for name, ms in change.last_writes.get(file.brought_blob, {}).items():
            if name in sessions:
                blob_times.append(_moment_of(ms))
        moment = _moment_on_disk(file, change.tree)
        if moment is not None and not _is_within(moment, spans):
            moment = None
        write = _last_write(file, write_times, blob_times, moment)
        if write is not None:
            yield write


def _last_write(
    file: FileDiff,
    write_times: Sequence[datetime],
    blob_times: Sequence[datetime],
    command_moment: datetime | None,
) -> LastWrite | None:
    """The last write to one file; None if no session wrote it.

    Args:
        file: The file.
        write_times: When tools wrote it, whatever they left.
        blob_times: When they left what the change has.
        command_moment: When the file was written on the disk, if a command ran then.
    """
    times = [*write_times, *blob_times]
    if command_moment is not None and all(command_moment > time for time in times):
        return LastWrite(path=file.path, at=command_moment, is_exact=True)
    if not times:
        return None
    is_as_left = any(time + _ROUNDING >= max(times) for time in blob_times)
    if not file.brought_blob or is_as_left or command_moment is not None:
        return LastWrite(path=file.path, at=max(times))
    return LastWrite(path=file.path, at=None)


def _tool_times(
    change: WrittenChange, writing: Sequence[WritingSession]
) -> dict[str, list[datetime]]:
    """By path from the root, when tools wrote the file."""
    tops = set(map(str, change.roots))
    tops.update(str(root.resolve()) for root in change.roots)
    longest_first = sorted(tops, key=len, reverse=True)
    times: dict[str, list[datetime]] = {}
    for session in writing:
        for write in session.acts.writes:
            name = _name_below(write.path, longest_first)
            times.setdefault(name, []).append(write.at)
    return times


def _name_below(path: str, tops: Sequence[str]) -> str:
    """The path from the first of these folders that it lies in; "" if it is in none."""
    for top in tops:
        if path.startswith(f"{top}/"):
            return path[len(top) + 1 :]
    return ""


# What a judge is shown


def words_text(
    writing: Sequence[WritingSession],
    record: CapturedRecord | None,
    ending: LastWords | None,
    redact: Callable[[str], str],
) -> str:
    """The record and the agents' last words, at most `MAX_WORDS` characters of these; "" if no agent
    said anything.

    The words are those that ended the turn in which a session last wrote a file of the change. So
    they stay the same when the session goes on, and so does the question.
    """
    sections: list[str] = []
    for session in writing:
        acts = session.acts
        words = closing_words(session, ending)
        if words is None or record is None:
            continue
        title = captures.session_title(acts.session)
        turn = bisect_right(acts.prompts, words.at)
        rows = [f"==== record of {title}, until the end of turn {turn}"]
        rows += _record_rows(record, acts.session, words.at)
        rows.append(f"==== the agent's words at the end of turn {turn} of {title}")
        spoken_lines = escape.without_middle(words.text, MAX_WORDS).splitlines()
        rows += [_SPOKEN + line for line in spoken_lines]
        sections.append("\n".join(rows))
    return redact("\n".join(sections))


def closing_words(session: WritingSession, ending: LastWords | None) -> SpokenWords | None:
    """What the agent said at the end of the turn in which it last wrote a file of the change; None
    if that turn has not ended.
    """
    acts, last_write = session.acts, session.last_write
    words = list(acts.words)
    if ending is not None and ending.session == acts.session:
        words.append(SpokenWords(ending.at, ending.text))
    later_requests = [moment for moment in acts.requests if moment > last_write]
    closing: SpokenWords | None = None
    for spoken in words:
        if spoken.at >= last_write and not any(moment <= spoken.at for moment in later_requests):
            closing = spoken
    return closing


def _record_rows(record: CapturedRecord, session: str, until: datetime) -> Iterator[str]:
    """A row for each command of the session that ended, or began, until then."""
    commands: list[CommandRecord] = []
    for command in record.commands:
        if command.session == session and (command.began_at or until) <= until:
            commands.append(_as_seen_until(command, until))
    if not commands:
        yield "- no command was run"
    if len(commands) > MAX_ROWS:
        yield f"- {counted(len(commands) - MAX_ROWS, 'earlier command')}"
    for command in commands[-MAX_ROWS:]:
        yield f"- {_describe_command(command)}"
    if record.unrecorded:
        yield f"- {counted(record.unrecorded, 'event')} could not be recorded"


def _as_seen_until(command: CommandRecord, until: datetime) -> CommandRecord:
    """The command as it was then: one in the background may have ended later."""
    if command.ended_at is None or command.ended_at <= until:
        return command
    return replace(command, ended_at=None, exit_status=None, order="unknown")


def _describe_command(command: CommandRecord) -> str:
    """The command with what was seen of it, on one line."""
    orders = {
        "after": "after the last write to the change's files",
        "before": "before the last write to the change's files",
        "unknown": "unknown whether before or after the last write",
    }
    status = "unknown" if command.exit_status is None else str(command.exit_status)
    end = f"ended {command.ended_at:%H:%M:%S}" if command.ended_at else "its end was not seen"
    shown_line = shorten_text(" ".join(command.line.split()), MAX_ROW)
    return (
        f"turn {command.turn}, {end}, exit status {status}, {orders[command.order]}: {shown_line}"
    )


def words_in(text: str) -> str:
    """The agents' words, a line each, of the text that `words_text` made."""
    rows = [row.removeprefix(_SPOKEN) for row in text.split("\n") if row.startswith(_SPOKEN)]
    return "\n".join(rows)
