"""The verdict on one screen: what came out, about what, why, what it cost and what to do next.

`render` is pure. Its Text carries the colours; its `.plain` is the same screen
without them. Nothing in it is ever read as markup, and all that comes from the
repository, a model or a definition goes through `text.safe`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.text import Text

from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.errors import FAIL, INCONCLUSIVE, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.report import page, words
from vibe_gate.report.page import Row
from vibe_gate.report.text import safe

MIN_WIDTH = 40
"""Columns below which lines are no longer cut to fit: there is no screen to fit then."""

LEAST_FINDINGS = 4
"""Findings that get their lines before passed criteria do."""

LABEL = 10
"""Columns of a label such as "change" before its text."""

MAX_REASON_SHOWN = 120
"""Characters of a reason in the line about what no judge saw; the rest is in the bundle."""

_MARKS = {
    "pass": ("✓", "green"),
    "fail": ("✗", "bold red"),
    "abstain": ("?", "yellow"),
    "inconclusive": ("?", "yellow"),
    "error": ("!", "bold yellow"),
    "not_applicable": ("·", "dim"),
}
_LEVELS = {"failure": ("✗", "red"), "warning": ("!", "yellow"), "notice": ("·", "dim")}
_URGENCY = {"fail": 0, "error": 0, "abstain": 2, "pass": 4, "not_applicable": 6}
_GRAVITY = {"failure": 0, "warning": 1, "notice": 2}


def render(summary: Summary, notes: Sequence[str], width: int, height: int | None) -> Text:
    """The screen, without a final newline.

    `width` in columns; `height` in lines, of which one is left for the prompt;
    None: everything is shown. Where lines are short, passed criteria go first and
    the gravest findings last, and a line says how many are missing.
    """
    columns = max(width, MIN_WIDTH)
    head = [page.fit(line, columns) for line in _head(summary)]
    tail = page.lay_out(_tail(summary, notes), columns, None)
    criteria = [row for rubric in summary.rubrics for row in _rubric(rubric)]
    findings = [_finding(finding) for finding in sorted(summary.findings, key=lambda finding: _GRAVITY[finding.level])]
    spare = None
    if height is not None:
        blanks = 1 + bool(criteria) + bool(findings)
        room = max(height - 1 - len(head) - page.height(tail, columns) - blanks, 4)
        urgent = min(len(criteria), 1 + sum(row.rank < _URGENCY["pass"] for row in criteria))
        for_findings = min(len(findings), max(LEAST_FINDINGS, room - urgent), room - 2)
        criteria = page.keep(criteria, room - for_findings, "criteria")
        findings = page.keep(findings, for_findings, "findings")
        spare = max(room - len(criteria) - len(findings), 0)
    lower = page.lay_out(findings, columns, spare)
    if spare is not None:
        spare -= len(lower) - len(findings)
    parts = [head, page.lay_out(criteria, columns, spare), lower, tail]
    return Text("\n\n").join(Text("\n").join(part) for part in parts if part)


def _head(summary: Summary) -> list[Text]:
    word, style = _verdict(summary)
    verdict = Text.assemble((word, style), "  ", safe(words.why(summary)))
    return [verdict, _fact("change", _change(summary)), _fact("gate", safe(words.gate(summary)))]


def _verdict(summary: Summary) -> tuple[str, str]:
    mark, style = {PASS: ("✓", "bold green"), FAIL: ("✗", "bold red"), INTEGRITY: ("!", "bold red")}.get(
        summary.exit_code, ("!", "bold yellow")
    )
    if summary.exit_code == INCONCLUSIVE:
        mark, style = ("?", "bold yellow") if summary.outcome == "inconclusive" else ("!", "bold red")
    return f"{mark} {words.verdict(summary)}", style


def _change(summary: Summary) -> str:
    key = summary.key
    shown = (
        key[: len("tree-") + words.SHORT_ID] + " (uncommitted)" if key.startswith("tree-") else key[: words.SHORT_ID]
    )
    files = summary.change.files
    added, deleted = sum(f.added for f in files), sum(f.deleted for f in files)
    names = ", ".join(safe(f.path) for f in files[:3]) + (", …" if len(files) > 3 else "")
    return f"{safe(shown)} · {counted(len(files), 'file')} +{added} −{deleted}" + (f" · {names}" if names else "")


def _rubric(rubric: RubricResult) -> list[Row]:
    mark, style = _MARKS[rubric.outcome]
    figures = f"score {rubric.score:.2f} · coverage {rubric.coverage:.0%}" if rubric.coverage else "nothing decided"
    said = f"{rubric.outcome} · {figures}"
    if not words.applies(rubric):  # a "pass" here would read as if somebody had looked
        (mark, style), said = _MARKS["not_applicable"], "nothing was asked or checked"
    header = Text.assemble((f"{mark} ", style), (safe(rubric.id), "bold"), f"  {said}")
    widest = max((cell_len(safe(c.id)) for c in rubric.criteria), default=0)
    reasons = [criterion.reason for criterion in rubric.criteria]
    told = ["as above" if reason and reason == before else reason for before, reason in pairwise(["", *reasons])]
    rows = [_criterion(c, min(widest, 28), reason) for c, reason in zip(rubric.criteria, told, strict=True)]
    return [Row(0, header), *rows]


def _criterion(criterion: CriterionResult, widest: int, told: str) -> Row:
    mark, style = _MARKS[criterion.outcome]
    name = page.crop(safe(criterion.id), widest)
    padded = name + " " * (widest - cell_len(name))
    outcome = criterion.outcome.replace("_", " ")
    if criterion.outcome == "not_applicable":
        outcome = "n/a"
    columns = f"{'must' if criterion.must else '    '}  {outcome:<7}"
    reason = (safe(told), "dim" if criterion.outcome in ("pass", "not_applicable") else "")
    line = Text.assemble((f"  {mark} ", style), padded, f"  {columns}  ", reason)
    indent = cell_len(line.plain) - cell_len(safe(told))
    line.rstrip()
    return Row(_URGENCY[criterion.outcome] + (not criterion.must), line, indent)


def _finding(finding: Finding) -> Row:
    mark, style = _LEVELS[finding.level]
    place = safe(finding.path) or "the change"
    if finding.line:
        place += f":{finding.line}"
    name = (f"  [{safe(finding.fingerprint[: words.SHORT_FINGERPRINT])}]", "dim") if finding.fingerprint else ""
    line = Text.assemble((f"{mark} ", style), (place, "bold"), "  ", safe(finding.message), name)
    return Row(_GRAVITY[finding.level], line)


def _tail(summary: Summary, notes: Sequence[str]) -> list[Row]:
    facts = [_fact("policy", text, "yellow") for text in _policy(summary)]
    if summary.unreviewed:
        facts.append(_fact("unseen", _unreviewed(summary), "yellow"))
    facts.append(_fact("cost", words.cost(summary)))
    bundle = _fact("bundle", safe(summary.bundle) or "none: nothing was recorded")
    last = [*(_fact("note", safe(note)) for note in notes), _fact("next", _next(summary))]
    rows = [Row(0, fact, LABEL) for fact in (*facts, *last)]
    rows.insert(len(facts), Row(0, bundle, whole=True))
    return rows


def _policy(summary: Summary) -> list[str]:
    texts = []
    for level, meaning in (("block", "a human must approve"), ("warn", "can steer agents, diffs or tests")):
        paths = [f"{safe(p.path)} ({safe(p.change_type)})" for p in summary.policy_changes if p.level == level]
        if paths:
            more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
            texts.append(f"{', '.join(paths[:2])}{more}: {meaning}")
    return texts


def _unreviewed(summary: Summary) -> str:
    first = summary.unreviewed[0]
    place = safe(first.path) + (f":{first.line}-{first.end_line}" if first.line else "")
    reasons = Counter(safe(part.reason) for part in summary.unreviewed)
    often = page.crop(reasons.most_common(1)[0][0], MAX_REASON_SHOWN)
    return f"{counted(len(summary.unreviewed), 'place')} that no judge saw, first {place}: {often}"


def _next(summary: Summary) -> str:
    if summary.exit_code == PASS:
        if summary.key.startswith("tree-") and summary.run_id:
            return "git commit"
        return "nothing to do; the bundle has every vote" if summary.bundle else "nothing to do"
    if summary.exit_code == FAIL:
        return "fix what is marked ✗, then run the same review again"
    if summary.exit_code == POLICY_CHANGED:
        return "show the change of the gate to someone who may approve it"
    if summary.exit_code == INTEGRITY:
        return "find out what writes to the tree during a review, then review again"
    return "vibe-gate doctor"


def _fact(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"  {label}".ljust(LABEL), "dim"), (text, style))
