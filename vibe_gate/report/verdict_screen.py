"""The verdict on one screen: what came out, about what, why, what it cost and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET, Struct
from rich.text import Text

from vibe_gate.domain.cause import CannotAsk, NotAsked
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.summary import Summary, Unreviewed
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, Finding
from vibe_gate.errors import FAIL, INCONCLUSIVE, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.report import next_step, queries, sentences
from vibe_gate.report.screen_criteria import rubric_rows
from vibe_gate.report.screen_findings import finding_rows
from vibe_gate.report.screen_rows import ScreenRow, break_rows, crop_text, fact_row, visible_path

MOST_CRITERIA, MOST_FINDINGS = 20, 8
"""What a terminal shows: the verdict line stays in sight."""

MOST_FINDINGS_IN_A_PIPE = 50
"""Findings of a pipe or a log; `--concise`, `--json` and the bundle have all."""

MIN_WIDTH = 40
"""The least width that lines are cut to."""

MAX_REASON_SHOWN = 120
"""Characters of a reason in the line about what was not judged; the rest is in the bundle."""

MOST_PATHS = 3
"""Paths of the change that its line names."""

MOST_POLICY_PATHS = 2
"""Paths of the gate that its line names."""


class ScreenReader(Struct, frozen=True):
    """For whom a screen says what to do next."""

    is_agent: bool = False
    """Whether a coding agent reads it, which may neither label nor let pass."""

    session_criteria: frozenset[str] = frozenset()
    """Of the gate: whose fails no change of a file repairs."""


PERSON = ScreenReader()
"""Somebody who may do everything, about a gate that asks for nothing of a session."""


def render_screen(
    summary: Summary,
    notes: Sequence[str],
    width: int,
    *,
    every: bool = True,
    then: str = "",
    decision: str = "",
    reader: ScreenReader = PERSON,
) -> Text:
    """The screen, without a final newline.

    `width` in columns. Without `every`, passed criteria beyond `MOST_CRITERIA` and the least grave
    findings beyond `MOST_FINDINGS` are only counted. `then`: what to do next, if a review's own
    sentence does not say it; `decision`: what decided, if the summary does not say it. `reader`: for
    whom the sentence is.
    """
    columns = max(width, MIN_WIDTH)
    criteria = _criterion_blocks(summary)
    findings = _finding_blocks(summary, columns)
    most_criteria, most_findings = MOST_CRITERIA, MOST_FINDINGS
    if every:
        most_criteria, most_findings = len(criteria), MOST_FINDINGS_IN_A_PIPE
    criteria_place = "see summary.json in the bundle"
    finding_place = "vibe-gate report --open, or --json"
    parts = (
        list(_head_rows(summary, decision)),
        _most_urgent(criteria, most_criteria, f"criteria: {criteria_place}"),
        _most_urgent(findings, most_findings, f"findings: {finding_place}"),
        list(_tail_rows(summary, notes, then or _next_step(summary, reader), is_uncut=bool(then))),
    )
    texts = []
    for rows in parts:
        if rows:
            texts.append(Text("\n").join(break_rows(rows, columns)))
    return Text("\n\n").join(texts)


def _criterion_blocks(summary: Summary) -> list[list[ScreenRow]]:
    """Each row of rubrics and criteria by itself."""
    error = queries.shared_error(summary)  # the headline says it
    blocks = []
    for rubric in summary.rubrics:
        blocks += [[row] for row in rubric_rows(rubric, summary.findings, error)]
    return blocks


def _finding_blocks(summary: Summary, columns: int) -> list[list[ScreenRow]]:
    """The rows of each finding, the worst first."""
    shown_texts: set[str] = set()
    findings = queries.worst_first(summary.findings, summary)
    return [finding_rows(finding, summary, columns, shown_texts) for finding in findings]


def _most_urgent(
    blocks: Sequence[Sequence[ScreenRow]], most: int, omission: str
) -> list[ScreenRow]:
    """The rows of the `most` blocks of the lowest ranks, in their order, and a last row that counts
    the others; `omission` says what these are, and where.
    """
    most_urgent = sorted(range(len(blocks)), key=lambda index: blocks[index][0].rank)[:most]
    rows: list[ScreenRow] = []
    for index in sorted(most_urgent):
        rows += blocks[index]
    omitted = len(blocks) - len(most_urgent)
    if omitted:
        rows.append(ScreenRow(0, Text(f"  … and {omitted:,} more {omission}", "dim")))
    return rows


def _head_rows(summary: Summary, decision: str) -> Iterator[ScreenRow]:
    """The verdict and what decided; the change; the gate."""
    words = sentences.verdict_words(summary)
    reason = decision or sentences.deciding_reason(summary)
    mark, style = _verdict_mark(summary)
    row = Text.assemble((f"{mark} {words}", style))
    if reason:
        row.append(safe(f" · {reason}"))
    yield ScreenRow(0, row)
    yield fact_row("change", _change_text(summary))
    yield fact_row("gate", safe(sentences.gate_words(summary)))


def _verdict_mark(summary: Summary) -> tuple[str, str]:
    """The mark of the verdict, and its style."""
    if summary.exit_code == INCONCLUSIVE:
        if summary.outcome == "inconclusive":
            return "?", "bold yellow"
        return "!", "bold red"
    if summary.extent == "nothing":
        return "·", "bold"
    marks = {PASS: ("✓", "bold green"), FAIL: ("✗", "bold red"), INTEGRITY: ("!", "bold red")}
    return marks.get(summary.exit_code, ("!", "bold yellow"))


def _change_text(summary: Summary) -> str:
    """The change by its id, its size, and the first of its paths."""
    change = summary.change
    name = sentences.short_change_id(summary)
    if summary.key.startswith("tree-"):
        name += " (uncommitted)"
    size = f"{counted(len(change.files), 'file')} +{change.added} −{change.deleted}"
    paths = [visible_path(file.path) for file in change.files[:MOST_PATHS]]
    if len(change.files) > MOST_PATHS:
        paths.append("…")
    return " · ".join(filter(None, [safe(name), size, ", ".join(paths)]))


def _tail_rows(
    summary: Summary, notes: Sequence[str], then: str, *, is_uncut: bool
) -> Iterator[ScreenRow]:
    """Changes of the gate, what was not judged, cost, run, notes and the next step."""
    for text in _policy_texts(summary):
        yield fact_row("policy", text, "yellow")
    if details := queries.quoted_details(queries.shared_error(summary)):
        yield fact_row("details", safe(details))
    if summary.exit_code != PASS or not summary.unasked:
        if queries.missed_places(summary):
            yield fact_row("judge", _unreviewed_text(summary), "yellow")
        yield fact_row("cost", sentences.cost_words(summary))
    if summary.tests is not UNSET:
        words = sentences.describe_tests(summary.tests, _quote_command)
        yield fact_row("tests", safe(words))
    if summary.bundle:
        yield fact_row("run", f"{safe(summary.run_id)} · vibe-gate report --open")
    else:
        yield fact_row("run", "not recorded")
    for note in notes:
        yield fact_row("note", safe(note))
    yield fact_row("next", safe(then), is_uncut=is_uncut)


def _quote_command(command: str) -> str:
    return f"`{safe(command)}`"


def _policy_texts(summary: Summary) -> list[str]:
    """What changes of the gate, and of what steers agents, ask of people."""
    # The line "gate" tells of the adoption, a finding of everything else.
    levels = ("block",) if summary.trusted.bootstrap else ("block", "warn")
    texts = []
    for level in levels:
        changes = [change for change in summary.policy_changes if change.level == level]
        if not changes:
            continue
        paths = []
        for change in changes[:MOST_POLICY_PATHS]:
            paths.append(f"{visible_path(change.path)} ({safe(change.change_type)})")
        names = ", ".join(paths)
        if len(changes) > MOST_POLICY_PATHS:
            names += f" and {len(changes) - MOST_POLICY_PATHS} more"
        texts.append(f"{names}: {sentences.policy_meaning(changes[0], summary)}")
    return texts


def _unreviewed_text(summary: Summary) -> str:
    """The first place that no judge saw, how many more there are, and the most frequent reason."""
    text = f"not judged: {visible_path(sentences.place_words_of(summary.unreviewed[0]))}"
    further_places = len(summary.unreviewed) - 1
    if further_places:
        text += f" and {counted(further_places, 'more place', 'more places')}"
    by_reason: dict[str, list[Unreviewed]] = {}
    for place in summary.unreviewed:
        by_reason.setdefault(place.reason, []).append(place)
    typical = max(by_reason.values(), key=len)[0]
    if typical.reason.removesuffix(".") == queries.shared_error(summary):
        return text
    reason = queries.reason_in_words(typical.reason)
    if isinstance(typical.cause, NotAsked):
        reason = typical.cause.because
    return f"{text} ({crop_text(safe(reason), MAX_REASON_SHOWN)})"


def _next_step(summary: Summary, reader: ScreenReader) -> str:
    if summary.exit_code == PASS:
        return _step_after_pass(summary, reader)
    if summary.exit_code == FAIL:
        return _step_after_fail(summary, reader)
    if summary.exit_code == POLICY_CHANGED and reader.is_agent:
        return "ask the user to have the change of the gate approved"
    if summary.exit_code == POLICY_CHANGED:
        return "ask a maintainer to approve, or run `vibe-gate override policy --reason ...`"
    if summary.exit_code == INTEGRITY:
        return "find what writes to the tree during a review, then review again"
    return next_step.at_a_terminal(summary, reader.session_criteria, is_agent=reader.is_agent)


def _step_after_pass(summary: Summary, reader: ScreenReader) -> str:
    unasked = summary.unasked
    cause = unasked[0].cause if unasked else None
    if isinstance(cause, CannotAsk):
        return f"{sentences.way_to_ask(cause)} and review again to ask them"
    for finding in summary.findings:
        if queries.advice_behind(finding, summary):
            if reader.is_agent:
                return "read what would have blocked, and tell the user if it is wrong"
            name = finding.fingerprint[:SHORT_FINGERPRINT]
            return (
                "read what would have blocked, and say whether it is right: "
                f"vibe-gate label {name} right|wrong"
            )
    if summary.key.startswith("tree-") and summary.run_id and summary.workflow == "review":
        return "git commit"
    return _step_without_need(summary)


def _step_without_need(summary: Summary) -> str:
    """What can be done after a pass that asks for nothing."""
    program = next_step.missing_program(summary)
    if program is not None:
        return next_step.remedy_at_terminal(program)
    if queries.asks_judges(summary) and not summary.unasked:
        return "nothing to do; the votes are in the bundle"
    return "nothing to do"


def _step_after_fail(summary: Summary, reader: ScreenReader) -> str:
    findings = queries.worst_first(summary.findings, summary)
    blocking = [finding for finding in findings if finding.level == "failure"]
    commands = ""
    if blocking:
        commands = _commands_about(blocking[0], summary, reader)
    has_secrets = any(finding.criterion == "no-secrets" for finding in blocking)
    if has_secrets and summary.change.head_commit:
        base = safe(summary.change.base_commit[: sentences.SHORT_ID]) or "--root"
        return (
            "a secret is in commits, and a further commit leaves it there: revoke it and rewrite "
            f"them (git rebase -i {base}; the last one alone: git commit --amend), "
            f"then review again{commands}"
        )
    session_count = sum(finding.criterion in reader.session_criteria for finding in blocking)
    if blocking and session_count == len(blocking):
        return f"{next_step.IN_SESSION}, then review again{commands}"
    repair = f"fix what is marked ✗{next_step.by_an_agent(summary)}"
    if session_count:
        repair += f" (of the session itself: {next_step.IN_SESSION})"
    return f"{repair}, then review again{commands}"


def _commands_about(finding: Finding, summary: Summary, reader: ScreenReader) -> str:
    """What can be done with a finding that blocks besides repairing it."""
    name = finding.fingerprint[:SHORT_FINGERPRINT]
    if not name:
        return ""
    commands = [f"why: vibe-gate explain {name}"]
    if reader.is_agent:
        commands.append("to accept one: ask the user")
    else:
        commands.append(f"to accept one: vibe-gate override {name} --reason ...")
    if queries.may_be_disputed(finding, summary):
        commands.append(f"if it is wrong: vibe-gate dispute {name} --reason ...")
    elif finding.basis is not UNSET and not reader.is_agent:
        # Labels measure judges: of a check's finding there is nothing to measure.
        commands.append(f"if it is wrong: vibe-gate label {name} wrong")
    return "".join(f"; {command}" for command in commands)
