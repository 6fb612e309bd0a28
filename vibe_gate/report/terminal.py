"""The verdict on one screen: what came out, about what, why, what it cost and what to do next.

`render` is pure. Its Text carries the colours; its `.plain` is the same screen
without them. Nothing in it is ever read as markup, and all that comes from the
repository, a model or a definition goes through `text.safe`.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.errors import FAIL, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.report.text import safe

MIN_WIDTH = 40
"""Columns below which lines are no longer cut to fit: there is no screen to fit then."""

LEAST_FINDINGS = 4
"""Findings that get their lines before passed criteria do."""

SHORT_ID = 12
"""Characters of a commit or tree id that are shown: enough to be unique, and to paste."""

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


class _Row(NamedTuple):
    """A line, and how soon it is left out where lines are short (0 last)."""

    rank: int
    line: Text


def render(summary: Summary, notes: Sequence[str], width: int, height: int | None) -> Text:
    """The screen, without a final newline.

    `width` in columns; `height` in lines, of which one is left for the prompt;
    None: everything is shown. Where lines are short, passed criteria go first and
    the gravest findings last, and a line says how many are missing.
    """
    columns = max(width, MIN_WIDTH)
    head = [_headline(summary), _fact("change", _change(summary)), _fact("gate", _gate(summary))]
    tail = _tail(summary, notes, columns)
    criteria = [row for rubric in summary.rubrics for row in _rubric(rubric)]
    findings = [_Row(_GRAVITY[f.level], _finding(f)) for f in sorted(summary.findings, key=lambda f: _GRAVITY[f.level])]
    if height is not None:
        blanks = 1 + bool(criteria) + bool(findings)
        room = max(height - 1 - len(head) - _lines(tail, columns) - blanks, 4)
        urgent = min(len(criteria), 1 + sum(row.rank < _URGENCY["pass"] for row in criteria))
        for_findings = min(len(findings), max(LEAST_FINDINGS, room - urgent), room - 2)
        criteria = _cut(criteria, room - for_findings, "criteria")
        findings = _cut(findings, for_findings, "findings")
    parts = [head, [row.line for row in criteria], [row.line for row in findings], tail]
    return Text("\n\n").join(Text("\n").join(_fit(line, columns) for line in part) for part in parts if part)


def _lines(part: list[Text], columns: int) -> int:
    return sum(1 if _may_be_cut(line) else -(-cell_len(line.plain) // columns) for line in part)


def _may_be_cut(line: Text) -> bool:
    return not line.plain.startswith("  bundle")  # a path that is to be copied has to be whole


def _headline(summary: Summary) -> Text:
    word, style = _verdict(summary)
    return Text.assemble((word, style), "  ", _why(summary))


def _verdict(summary: Summary) -> tuple[str, str]:
    if summary.exit_code == PASS:
        return "✓ PASS", "bold green"
    if summary.exit_code == FAIL:
        return "✗ FAIL", "bold red"
    if summary.exit_code == POLICY_CHANGED:
        return "! APPROVAL NEEDED", "bold yellow"
    if summary.exit_code == INTEGRITY:
        return "! INTEGRITY", "bold red"
    if summary.outcome == "inconclusive":
        return "? NOT REVIEWED (inconclusive)", "bold yellow"
    return "! ERROR", "bold red"


def _why(summary: Summary) -> str:
    if summary.exit_code == POLICY_CHANGED:
        return f'the gate itself changed; the verdict "{summary.outcome}" is advisory'
    if summary.exit_code == INTEGRITY:
        return "what was reviewed is not what is there"
    decisive = [rubric for rubric in summary.rubrics if rubric.outcome == summary.outcome]
    if not decisive:
        return {"pass": "nothing in this change has to be judged", "fail": "a finding blocks"}.get(summary.outcome, "")
    if summary.outcome == "pass":
        return safe(", ".join(rubric.id for rubric in decisive))
    return "; ".join(f"{safe(rubric.id)}: {_cause(rubric)}" for rubric in decisive)


def _cause(rubric: RubricResult) -> str:
    wanted = {"fail": "fail", "inconclusive": "abstain", "error": "error"}[rubric.outcome]
    ids = [safe(c.id) for c in rubric.criteria if c.outcome == wanted and c.must]
    verb = {"fail": "failed", "abstain": "undecided", "error": "could not be decided"}[wanted]
    if ids:
        return f"{', '.join(ids)} {verb} (must)"
    if rubric.outcome == "fail":
        return f"score {rubric.score:.2f} is under the threshold"
    return f"only {rubric.coverage:.0%} could be decided"


def _change(summary: Summary) -> str:
    key = summary.key
    shown = key[: len("tree-") + SHORT_ID] + " (uncommitted)" if key.startswith("tree-") else key[:SHORT_ID]
    files = summary.change.files
    added, deleted = sum(f.added for f in files), sum(f.deleted for f in files)
    names = ", ".join(safe(f.path) for f in files[:3]) + (", …" if len(files) > 3 else "")
    return f"{safe(shown)} · {_count(len(files), 'file')} +{added} −{deleted}" + (f" · {names}" if names else "")


def _gate(summary: Summary) -> str:
    if summary.trusted.bootstrap:
        return "the change's own definitions: there are none yet where they could be trusted"
    if not summary.trusted.revision:
        return "built in: there is no .vibe-gate where it could be trusted"
    return f".vibe-gate at {safe(summary.trusted.revision[:SHORT_ID])}"


def _rubric(rubric: RubricResult) -> list[_Row]:
    mark, style = _MARKS[rubric.outcome]
    figures = f"score {rubric.score:.2f} · coverage {rubric.coverage:.0%}" if rubric.coverage else "nothing decided"
    header = Text.assemble((f"{mark} ", style), (safe(rubric.id), "bold"), f"  {rubric.outcome} · {figures}")
    widest = max((cell_len(safe(c.id)) for c in rubric.criteria), default=0)
    reasons = [criterion.reason for criterion in rubric.criteria]
    told = ["as above" if reason and reason == before else reason for before, reason in pairwise(["", *reasons])]
    rows = [_criterion(c, min(widest, 28), reason) for c, reason in zip(rubric.criteria, told, strict=True)]
    return [_Row(0, header), *rows]


def _criterion(criterion: CriterionResult, widest: int, told: str) -> _Row:
    mark, style = _MARKS[criterion.outcome]
    name = _crop(safe(criterion.id), widest)
    padded = name + " " * (widest - cell_len(name))
    outcome = criterion.outcome.replace("_", " ")
    if criterion.outcome == "not_applicable":
        outcome = "n/a"
    columns = f"{'must' if criterion.must else '    '}  {outcome:<7}"
    reason = (safe(told), "dim" if criterion.outcome in ("pass", "not_applicable") else "")
    line = Text.assemble((f"  {mark} ", style), padded, f"  {columns}  ", reason)
    line.rstrip()
    return _Row(_URGENCY[criterion.outcome] + (not criterion.must), line)


def _finding(finding: Finding) -> Text:
    mark, style = _LEVELS[finding.level]
    place = safe(finding.path) or "the change"
    if finding.line:
        place += f":{finding.line}"
    return Text.assemble((f"{mark} ", style), (place, "bold"), "  ", safe(finding.message))


def _tail(summary: Summary, notes: Sequence[str], columns: int) -> list[Text]:
    lines = [_fact("policy", text, "yellow") for text in _policy(summary)]
    if summary.unreviewed:
        lines.append(_fact("unseen", _unreviewed(summary), "yellow"))
    lines.append(_fact("cost", _cost(summary)))
    lines.append(_fact("bundle", safe(summary.bundle) or "none: nothing was recorded"))
    for note in notes:
        first, *more = textwrap.wrap(safe(note), columns - 10) or [""]
        lines += [_fact("note", first), *(_fact("", rest) for rest in more)]
    lines.append(_fact("next", _next(summary)))
    return lines


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
    often = reasons.most_common(1)[0][0]
    return f"{_count(len(summary.unreviewed), 'place')} that no judge saw, first {place}: {often}"


def _cost(summary: Summary) -> str:
    cost = summary.cost
    cached = f" · {_count(summary.cache.hits, 'answer')} from earlier verdicts" if summary.cache.hits else ""
    if cost.basis == "none":
        return "none: no model was asked" + cached
    tokens = f"{cost.input_tokens:,} tokens in, {cost.output_tokens:,} out"
    price = f"${cost.usd:.4f}"
    if cost.basis == "unknown":
        price = f"{price} at most (a model without a listed price counts as the dearest)"
    return f"{price} · {tokens}{cached}"


def _next(summary: Summary) -> str:
    if summary.exit_code == PASS:
        return "git commit" if summary.key.startswith("tree-") else "nothing to do; the bundle has every vote"
    if summary.exit_code == FAIL:
        return "fix what is marked ✗, then run the same review again"
    if summary.exit_code == POLICY_CHANGED:
        return "show the change of the gate to someone who may approve it"
    if summary.exit_code == INTEGRITY:
        return "find out what writes to the tree during a review, then review again"
    return "vibe-gate doctor"


def _fact(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"  {label:<8}", "dim"), (text, style))


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _cut(rows: list[_Row], room: int, what: str) -> list[_Row]:
    if len(rows) <= room:
        return rows
    kept = sorted(sorted(range(len(rows)), key=lambda index: (rows[index].rank, index))[: max(room - 1, 0)])
    missing = Text(f"  … and {len(rows) - len(kept)} more {what}: see summary.json in the bundle", "dim")
    return [*(rows[index] for index in kept), _Row(0, missing)]


def _fit(line: Text, columns: int) -> Text:
    if cell_len(line.plain) <= columns or not _may_be_cut(line):
        return line
    kept = len(set_cell_size(line.plain, columns - 1).rstrip())
    cut = line[:kept]
    cut.append("…")
    return cut


def _crop(text: str, columns: int) -> str:
    return text if cell_len(text) <= columns else set_cell_size(text, columns - 1) + "…"
