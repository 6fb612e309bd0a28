"""Findings at lines of the change: check run annotations, review comments, workflow commands.
Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import UNSET

from vibe_gate.domain import paths
from vibe_gate.domain.escape import safe
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import PASS, POLICY_CHANGED
from vibe_gate.forge import CheckAnnotation, CheckRun, Conclusion, DiffSide, LineComment
from vibe_gate.report import queries, sentences
from vibe_gate.report.anchors import Anchors
from vibe_gate.report.comment import check_summary_blocks
from vibe_gate.report.comment_findings import test_fold
from vibe_gate.report.comment_markup import link_commit
from vibe_gate.report.comment_opening import claimed_verdict, deciding_facts
from vibe_gate.report.links import Links
from vibe_gate.report.markdown import escape_code, escape_prose, fit_blocks
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import finding_identity

MAX_TEXT = 65_000
"""Bytes of summary and of text; GitHub takes 65,535 characters each."""

MAX_TITLE = 200
"""Characters of a title; GitHub cuts what it cannot show."""

MAX_ANNOTATIONS = 1_000
"""Of one check run: twenty requests, a quarter of what GitHub lets an app write in a minute. The
rest is counted.
"""


def make_check_run(
    report: Report, downgrades: Sequence[str] = (), at_lines: Collection[str] = ()
) -> CheckRun:
    """The check run of the reviewed commit: new and open findings as annotations, the gravest
    `MAX_ANNOTATIONS`.

    Not those that have a comment at their lines (`at_lines`, identities).
    """
    deleted = {file.path for file in report.summary.change.files if file.change_type == "deleted"}
    shown = [
        one
        for one in queries.worst_first(report.round.shown, report.summary)
        if finding_identity(one) not in at_lines
    ]
    able = [
        (one, each)
        for one in shown
        if one.path not in deleted and (each := annotate_finding(one, report))
    ]
    made = able[:MAX_ANNOTATIONS]
    if len(made) < len(able):
        said = (
            f"Of {len(shown):,} findings, {MAX_ANNOTATIONS:,} are annotations: the gravest first."
        )
        downgrades = (*downgrades, said)
    parts = check_summary_blocks(
        report, downgrades, {*at_lines, *(finding_identity(one) for one, _ in able)}
    )
    return CheckRun(
        title=check_title(report),
        summary=fit_blocks(parts, MAX_TEXT, "the job's summary"),
        text="",
        conclusion=check_conclusion(report),
        annotations=tuple(each for _, each in made),
    )


def check_conclusion(report: Report) -> Conclusion:
    """What the forge is told: neutral of anything but a pass if that is not to block."""
    if report.summary.exit_code == PASS:
        return "success"
    if not report.blocks:
        return "neutral"
    return "action_required" if report.summary.exit_code == POLICY_CHANGED else "failure"


def check_title(report: Report) -> str:
    """The verdict and what decided, as plain text on one line; the comment says the same."""
    would = "" if report.blocks or report.summary.exit_code == PASS else "would have failed: "
    text = would + safe(" · ".join([claimed_verdict(report), *deciding_facts(report)]))
    return text if len(text) <= MAX_TITLE else text[: MAX_TITLE - 1] + "…"


def annotate_finding(finding: Finding, report: Report) -> CheckAnnotation | None:
    """The finding at its lines; None where the forge could not show it: no file, or no path that is
    text.
    """
    path = forge_path(finding.path)
    if not path:
        return None
    line, end = queries.lines_after(finding)
    against = queries.counterexample_of(finding, report.summary)
    details = [f"Counterexample: {safe(against)}"] if against else []
    if finding.second_look is not UNSET:
        details.append(safe(sentences.second_look_sentence(finding.second_look)))
        lines = queries.refuting_lines(finding.second_look)
        details += [safe(f"{sentences.place_words_of(one)}: {one.quote}") for one in lines]
    if finding.proof is not UNSET:
        details.append(safe(sentences.proof_sentence(finding.proof)))
        details += [f"Repeat: {safe(finding.proof.command)}"] if finding.proof.test else []
    details += [f"Finding {safe(finding.fingerprint)}"] if finding.fingerprint else []
    if advice := queries.advice_behind(finding, report.summary):
        details.append(f"Would have blocked: {safe(sentences.criterion_badge(advice))}")
    return CheckAnnotation(
        path=path,
        start_line=line,
        end_line=end,
        annotation_level=finding.level,
        message=sentences.located_message(finding),
        title=_named(finding, report.summary),
        raw_details="\n".join(details),
    )


def _named(finding: Finding, summary: Summary) -> str:
    """The criterion, and how a judge's finding is known: the raw details are folded."""
    known = queries.finding_basis(finding, summary)
    return (safe(finding.criterion) + (f" ({known})" if known else ""))[:MAX_TITLE]


def forge_path(shown: str) -> str:
    """The path as the forge knows it; "" where there is none, or none that is text."""
    path = paths.unquote(shown)
    try:
        path.encode()
    except UnicodeEncodeError:
        return ""
    return path


FINDING_MARKER = "<!-- vibe-gate:finding "
"""Begins the first line of a comment of ours about a finding; its fingerprint follows."""

MAX_COMMENTS = 10
"""New findings that get comments at their lines: more bury a pull request, so then all are
annotations.
"""

MAX_LINES = 100
"""Lines that one comment may span; a longer place is marked at its first lines."""

_MARKED = re.compile(FINDING_MARKER + r"([0-9a-f]{16}) -->\Z")
_FIXED = "**Fixed** at "
_ACCEPTED = "**Accepted** "
_REFUTED = "**Refuted** "
_LEVEL = r"(\*\*(?:failure|warning|notice)\*\*)"
_THUMBS = "<sub>👍 right · 👎 wrong</sub>"
_PENDING = "<!-- vibe-gate:thread -->"


def make_review_comments(report: Report, anchors: Anchors) -> tuple[LineComment, ...]:
    """The new findings that stand at lines of the diff; what somebody let pass, or was refuted,
    needs no thread.
    """
    ordered = queries.worst_first(report.round.new, report.summary)
    made = (
        _comment(one, report, anchors)
        for one in ordered
        if not (queries.waiver_sentence(one) or one.is_refuted)
    )
    return tuple(comment for comment in made if comment is not None)


def read_finding_marker(body: str) -> str:
    """The fingerprint of the finding that a comment of ours is about, "" for any other comment."""
    lines = body.splitlines()
    found = _MARKED.match(lines[0].rstrip()) if lines else None
    return found[1] if found else ""


def mark_fixed(old_body: str, commit: str, links: Links | None = None) -> str:
    """The comment of a finding that is gone: says so first and keeps what it said; the same text
    where it says so.
    """
    if is_marked_fixed(old_body) or not read_finding_marker(old_body):
        return old_body
    return _with_state(old_body, f"{_FIXED}{link_commit(commit, links)}.")


def mark_accepted(old_body: str, grounds: str) -> str:
    """The comment of a finding that people let pass (`grounds`: by whom, until when and why), or
    not any more ("").

    The same text if it says so already, and if it says that the finding is fixed.
    """
    state = _ACCEPTED + escape_prose(grounds) if grounds else ""
    if is_marked_fixed(old_body) or not read_finding_marker(old_body) or _state(old_body) == state:
        return old_body
    level, shown = (f"^{_LEVEL}", r"~~\1~~") if grounds else (f"^~~{_LEVEL}~~", r"\1")
    return re.sub(level, shown, _with_state(old_body, state), count=1, flags=re.MULTILINE)


def mark_refuted(old_body: str, why: str) -> str:
    """The comment of a finding that a second look refuted: says so first and keeps what it said."""
    state = f"{_REFUTED}by a second look: {escape_prose(why)}"
    return (
        old_body if is_marked_fixed(old_body) else _with_state(mark_accepted(old_body, ""), state)
    )


def is_marked_fixed(body: str) -> bool:
    """Whether a comment of ours says already that its finding is gone."""
    return _state(body).startswith(_FIXED)


def is_marked_settled(body: str) -> bool:
    """Whether a comment of ours says that its finding is fixed, accepted or refuted: then its
    thread is resolved.
    """
    return bool(_state(body))


def is_thread_pending(body: str) -> bool:
    """Whether the thread of this comment of ours is not yet what its text says."""
    return body.rstrip().endswith(_PENDING)


def mark_thread_pending(body: str, pending: bool) -> str:
    """The comment with or without a note to later runs that its thread could not be resolved or
    reopened.
    """
    if is_thread_pending(body) == pending:
        return body
    return (
        f"{body.rstrip()}\n\n{_PENDING}\n"
        if pending
        else body.rstrip().removesuffix(_PENDING).rstrip() + "\n"
    )


def _state(body: str) -> str:
    """The second line of a comment about a finding if it says that this is fixed, accepted or
    refuted; else "".
    """
    lines = [line.rstrip() for line in body.splitlines()]
    return (
        lines[1]
        if read_finding_marker(body)
        and lines[1:]
        and lines[1].startswith((_FIXED, _ACCEPTED, _REFUTED))
        else ""
    )


def _with_state(body: str, state: str) -> str:
    """The comment with this second line, in place of another state's; "" for none."""
    lines = body.replace("\r\n", "\n").split("\n")
    rest = "\n".join(lines[2 if _state(body) else 1 :]).strip("\n")
    return "\n".join(filter(None, [lines[0].rstrip(), f"{state}\n" if state else "", f"{rest}\n"]))


def _comment(finding: Finding, report: Report, anchors: Anchors) -> LineComment | None:
    path = forge_path(finding.path)
    if not path or finding.line == 0:
        return None
    side: DiffSide = "LEFT" if queries.is_removed(finding) else "RIGHT"
    end = min(max(finding.end_line, finding.line), finding.line + MAX_LINES - 1)
    while end > finding.line and not anchors.holds(finding.path, finding.line, end, side):
        end -= 1
    if not anchors.holds(finding.path, finding.line, end, side):
        return None
    return LineComment(
        path, _body(finding, report), end, side, finding.line, finding_identity(finding)
    )


def _body(finding: Finding, report: Report) -> str:
    name = (
        f" · {escape_code(finding.fingerprint[: sentences.SHORT_FINGERPRINT])}"
        if finding.fingerprint
        else ""
    )
    known = f" · {queries.finding_basis(finding, report.summary)}".removesuffix(" · ")
    parts = [
        f"**{finding.level}** · {escape_code(finding.criterion, 64)}{name}{known}",
        escape_prose(sentences.finding_sentence(finding)),
    ]
    against = queries.counterexample_of(finding, report.summary)
    if against:
        parts.append(f"Counterexample: {escape_prose(against, 500)}")
    if finding.proof is not UNSET:
        parts += [escape_prose(sentences.proof_sentence(finding.proof)), test_fold(finding.proof)]
    if finding.second_look is not UNSET:
        parts.append(escape_prose(sentences.second_look_sentence(finding.second_look)))
    if advice := queries.advice_behind(finding, report.summary):
        parts.append(f"Would have blocked: {escape_prose(sentences.criterion_badge(advice))}")
    parts.append(_THUMBS)
    return (
        f"{FINDING_MARKER}{finding_identity(finding)} -->\n"
        + "\n\n".join(filter(None, parts))
        + "\n"
    )


OF_EACH = 10
"""Annotations of each level that GitHub keeps of one step."""

_COMMANDS = {"failure": "error", "warning": "warning", "notice": "notice"}


def render_workflow_commands(
    report: Report, token: str, downgrades: Sequence[str] = (), at_lines: Collection[str] = ()
) -> str:
    """A command for the verdict and for the gravest findings that stand nowhere at their lines,
    then the downgrades.

    `at_lines`: identities of the others. `token` is unguessable; between two lines with it the
    runner obeys nothing.
    """
    summary = report.summary
    level = "notice" if summary.exit_code == PASS else "error" if report.blocks else "warning"
    lines = [_command(level, check_title(report), {"title": "vibe-gate"})]
    left = Counter(dict.fromkeys(_COMMANDS.values(), OF_EACH))
    left[level] -= 1
    for finding in queries.worst_first(report.round.shown, summary):
        name = _COMMANDS[finding.level]
        if left[name] > 0 and finding.path and finding_identity(finding) not in at_lines:
            left[name] -= 1
            line, end = (0, 0) if queries.is_removed(finding) else (finding.line, finding.end_line)
            shown = {
                "file": _file(finding.path),
                "line": str(line or ""),
                "endLine": str(end or ""),
            }
            shown["title"] = _named(finding, summary)
            lines.append(_command(name, safe(sentences.finding_sentence(finding)), shown))
    return "\n".join(lines) + "\n" + guard_log_text("\n".join(map(safe, downgrades)), token)


def guard_log_text(text: str, token: str) -> str:
    """Text for the log, between lines that keep the runner from obeying any of it."""
    return f"::stop-commands::{token}\n{text.rstrip()}\n::{token}::\n" if text.strip() else ""


def _file(shown: str) -> str:
    return paths.unquote(shown) if paths.is_plain(paths.unquote(shown)) else safe(shown)


def _command(name: str, message: str, properties: dict[str, str]) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
