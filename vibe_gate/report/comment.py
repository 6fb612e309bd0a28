"""The Markdown documents of a run: the comment, and the job summary that `--markdown` writes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import get_args

from vibe_gate.domain.change import ChangeType
from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import PolicyChange, Summary
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.errors import FAIL, POLICY_CHANGED
from vibe_gate.report import words
from vibe_gate.report.markdown import Block, code, cut_lines, fence, fit, fold, html, link, prose, table
from vibe_gate.report.report import Links, Report
from vibe_gate.report.round import ReportedFinding, Round, RoundState, dump, identity, load

MAX_SENTENCES = 20
"""Notes or downgrades that are told one by one."""

MAX_ROWS = 40
"""Criteria with a row of their own; a rubric has fewer, a hostile one may have thousands."""

MAX_POLICY_DIFF = 6_000
"""Characters of one policy change's diff."""

MAX_UNREVIEWED = 100
"""Places that no judge saw that are told one by one."""

_URGENCY = {"fail": 0, "error": 1, "abstain": 2, "pass": 3, "not_applicable": 4}
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


def opening(report: Report) -> Block:
    """The headline, what decided, and what is new in this round."""
    first = "\n\n".join(filter(None, [_reason(report), _round_line(report.round)]))
    return Block(f"{_headline(report)}\n\n{first}", 0)


def _headline(report: Report) -> str:
    summary = report.summary
    name = f" ({prose(report.name, 100)})" if report.name else ""
    price = words.price(summary).partition(" at most")
    figures = [prose(words.scores(summary.rubrics)), f"cost {price[0].partition(':')[0]}{price[1]}"]
    return f"### vibe-gate{name}: {words.verdict(summary)} · {' · '.join(filter(None, figures))}"


def _reason(report: Report) -> str:
    summary = report.summary
    size = f"{counted(len(summary.change.files), 'file')}, " + (
        f"+{sum(file.added for file in summary.change.files)} "
        f"−{sum(file.deleted for file in summary.change.files)} lines"
    )
    head = summary.change.head_commit
    about = commit(head, report.links) if head else code(words.key(summary))
    why = f"{prose(words.why(summary))}. " if words.why(summary) else ""
    if not summary.run_id:
        return f"{why}Nothing to review in {about}."
    return f"{why}Reviewed: {about} ({size}) against {prose(words.gate(summary))}."


def commit(id: str, links: Links | None) -> str:
    """A commit by its short id, linked where the forge is known."""
    return link(id[: words.SHORT_ID], links.commit(id) if links and _COMMIT.match(id) else "")


def _list(title: str, texts: Sequence[str], rank: int) -> Block:
    """Sentences below a title, the first of many; nothing without any."""
    shown = [f"- {prose(text)}" for text in texts[:MAX_SENTENCES]]
    more = len(texts) - len(shown)
    lines = "\n".join([*shown, *([f"- and {more:,} more."] if more > 0 else [])])
    return Block(f"**{title}**\n\n{lines}" if texts else "", rank)


def _round_line(told: Round) -> str:
    if told.number == 1 and not (told.held or told.unanswered):
        return ""
    fixed_now = sum(seen.fixed == told.head for seen in told.fixed)
    parts = [f"{len(told.new)} new", f"{len(told.open)} still open", f"{fixed_now} fixed"]
    parts += [f"{len(told.unanswered)} not found again"] if told.unanswered else []
    held = counted(len(told.held), "finding")
    quiet = f" Held back: {held} on lines that did not change since the last round; none blocks." if told.held else ""
    return f"Round {told.number}: {', '.join(parts)}.{quiet}"


def criteria(summary: Summary) -> Iterator[Block]:
    """A table of criteria for each rubric: what failed first, what passed last."""
    for rubric in summary.rubrics:
        rows = sorted(rubric.criteria, key=lambda one: (_URGENCY[one.outcome], not one.must))
        shown = [_criterion(one) for one in rows[:MAX_ROWS]]
        more = len(rows) - len(shown)
        text = f"{_rubric(rubric)}\n\n{table(('Criterion', 'Outcome', 'Why'), shown)}"
        if more > 0:
            text += f"\n\nFurther criteria: {more:,}; see summary.json."
        yield Block(text, 1, "rubrics")


def _rubric(rubric: RubricResult) -> str:
    if not words.applies(rubric):
        return f"**{prose(rubric.id, 100)}**: skipped"
    figures = f"score {rubric.score:.2f}, coverage {rubric.coverage:.0%}" if rubric.coverage else "nothing decided"
    return f"**{prose(rubric.id, 100)}**: {rubric.outcome}, {figures}"


def _criterion(one: CriterionResult) -> tuple[str, str, str]:
    outcome = one.outcome.replace("not_applicable", "n/a").replace("_", " ")
    must = " (must)" if one.must else ""
    votes = f", {counted(len(one.votes), 'vote')}" if len(one.votes) > 1 else ""
    return (
        code(one.id, 64) + must,
        f"**{outcome}**" if one.outcome == "fail" else outcome + votes,
        prose(one.reason, 280),
    )


def findings(report: Report, *, held: bool = False) -> Iterator[Block]:
    """The findings of this round, the gravest first, each with its place.

    `held`: those too that are otherwise only counted.
    """
    told = report.round
    groups = (("New findings", told.new), ("Still open", told.open), ("Held back", told.held if held else ()))
    for title, group in groups:
        if title == "New findings" and told.number == 1:
            title = "Findings"
        for index, finding in enumerate(words.worst_first(group, report.summary)):
            head = f"#### {title} ({len(group):,})\n\n" if index == 0 else ""
            rank = 2 if finding.level == "failure" else 3
            yield Block(head + item(finding, report), rank, "findings")


def item(finding: Finding, report: Report) -> str:
    """One finding as an item of a list."""
    back = " (back)" if identity(finding) in report.round.back else ""
    name = f", {code(finding.fingerprint[: words.SHORT_FINGERPRINT])}" if finding.fingerprint else ""
    asked = f"({code(finding.criterion, 64)}{name})"
    waived = words.waiver(finding)
    said = prose(finding.message.removeprefix(f"{waived} | ")) + (f" Accepted: {prose(waived)}." if waived else "")
    told = f"- **{finding.level}**{back} {_where(finding, report.links)}: {said} {asked}"
    against = words.counterexample(finding, report.summary)
    if against:
        told += f"\n  Counterexample: {prose(against, 500)}"
    return told


def _where(finding: Finding, links: Links | None) -> str:
    if not finding.path:
        return "the change"
    before = words.is_removed(finding)
    address = links.permalink(finding.path, finding.line, finding.end_line, before=before) if links else ""
    text = words.place(finding.path, finding.line, finding.end_line)
    return link(text, address) + (" (removed)" if before else "")


def fixed(report: Report) -> Iterator[Block]:
    """What was said before and is gone, and since which commit; what nobody could look for."""
    told = report.round
    yield from _seen("Fixed", told.fixed, report.links, lambda seen: f"fixed at {commit(seen.fixed, report.links)}")
    again = "reported before, not found this time, and not known to be fixed"
    yield from _seen("Not found again", told.unanswered, report.links, lambda _: again)


def _seen(
    title: str, group: Sequence[ReportedFinding], links: Links | None, say: Callable[[ReportedFinding], str]
) -> Iterator[Block]:
    for index, seen in enumerate(group):
        head = f"#### {title} ({len(group):,})\n\n" if index == 0 else ""
        address = ""
        if links and seen.path:
            old = Links(links.server, links.repository, seen.since)
            address = old.permalink(seen.path, seen.line, seen.line)
        place = link(words.place(seen.path, seen.line, seen.line), address) if seen.path else "the change"
        told = f"- {say(seen)}: {place}: {prose(seen.message, 280)} ({code(seen.criterion, 64)})"
        yield Block(head + told, 4, "earlier findings")


def policy(changes: Sequence[PolicyChange]) -> Iterator[Block]:
    """Changes of the gate itself and of what steers agents, each with its diff."""
    for index, change in enumerate(changes):
        meaning = "needs approval" if change.level == "block" else "affects agents, diffs or tests"
        text, more = cut_lines(change.diff, MAX_POLICY_DIFF)
        shown = fence(text, "diff") if text.strip() else "No text to show."
        cut = f"\n\n{counted(more, 'more line')} of this diff." if more else ""
        title = f"{html(change.path)} ({_type(change.change_type)}): {meaning}"
        head = f"#### Policy changes ({len(changes):,})\n\n" if index == 0 else ""
        yield Block(head + fold(title, shown + cut), 3 if change.level == "block" else 5, "policy changes")


def _type(change_type: str) -> str:
    """A change's type as a word; what is none of ours is shown as code."""
    return change_type.replace("_", " ") if change_type in get_args(ChangeType) else html(change_type, 40)


def unreviewed(summary: Summary) -> Iterator[Block]:
    """What was not judged: how much and why in sight, the places in a fold."""
    places = summary.unreviewed
    if not places or (summary.rubrics and not words.judges(summary)):  # no criterion asks one
        return
    reasons = Counter(item.reason for item in places)
    often = reasons.most_common(3)
    why = "; ".join(prose(said, 280) + (f" ({number:,})" if len(often) > 1 else "") for said, number in often)
    yield Block(f"**Not judged**: {counted(len(places), 'place')}: {why}.", 1)
    lines = [
        f"- {code(words.place(one.path, one.line, one.end_line))}: {prose(one.reason, 280)}"
        for one in places[:MAX_UNREVIEWED]
    ]
    if len(places) > len(lines):
        lines.append(f"- and {len(places) - len(lines):,} more: see summary.json.")
    yield Block(fold(f"Not judged: {counted(len(places), 'place')}", "\n".join(lines)), 5, "lists")


def again(report: Report) -> Block:
    """How to run the review here, and how to let something pass."""
    change = report.summary.change
    if not report.summary.run_id:
        return Block("")
    named = report.review
    if not named and _COMMIT.match(change.base_commit) and _COMMIT.match(change.head_commit):
        named = f"{change.base_commit[: words.SHORT_ID]}..{change.head_commit[: words.SHORT_ID]}"
    steps = ["In a clone, run:", fence(f"vibe-gate review {named}".rstrip(), "")]
    if report.summary.exit_code == FAIL or report.summary.findings:
        steps += [
            "Accept a finding: for everybody with `vibe-gate suppress FINDING --reason TEXT` (it writes "
            "`.vibe-gate/suppressions.toml`, whose change needs approval); temporarily, in one clone, with "
            "`vibe-gate override FINDING --reason TEXT`."
        ]
    if report.summary.exit_code == POLICY_CHANGED or any(one.level == "block" for one in report.summary.policy_changes):
        steps += [
            "Approve a change of the gate: someone with write access who is not the author submits an approving review "
            "of this commit; then run the job again."
        ]
    return Block(fold("Run this review locally, or accept a finding", "\n\n".join(steps)), 1)


def provenance(report: Report) -> Block:
    """Who wrote the change, and where its receipt, run and bundle are."""
    authored = report.summary.agent_authored
    facts = [f"Written by an agent: {'; '.join(prose(hint, 200) for hint in authored.hints[:3])}."]
    facts = (facts if authored.decision and authored.hints else []) + (
        [prose(report.receipt)] if report.receipt else []
    )
    if report.summary.run_id:
        run = link(report.summary.run_id, report.links.run_url if report.links else "")
        kept = "its bundle was not uploaded"
        if report.artifact:
            kept = "its bundle is an artifact of the job: open report.html in it"
        elif report.links is None and report.summary.bundle:
            kept = f"its bundle is {code(report.summary.bundle)}"
        facts.append(f"Run {run}; {kept}.")
    return Block(" ".join(facts), 1)


MAX_COMMENT = 65_000
"""Bytes; GitHub takes 65,536 characters, and a byte is at least as short."""

_NAME = re.compile(r"[^A-Za-z0-9._/-]")
_STATE = re.compile(r"<!-- vibe-gate:state ([A-Za-z0-9+/=_-]{1,20000}) -->\Z")


def marker(name: str = "") -> str:
    """The first line of our comment; `name` tells several gates of one repository apart."""
    plain = _NAME.sub(lambda match: f"%{ord(match[0]):x}", name[:100]).replace("--", "-%2d")
    return f"<!-- vibe-gate:summary{' ' + plain if plain else ''} -->"


MARKER = marker()
"""Of the comment of a repository's only gate."""


def comment(report: Report, downgrades: Sequence[str] = ()) -> str:
    """The comment, `MAX_COMMENT` bytes at most; what does not fit is counted, and said to be where."""
    head = f"{marker(report.name)}\n"
    tail = f"\n<!-- vibe-gate:state {dump(report.round.state)} -->\n" if report.round.head else ""
    room = MAX_COMMENT - len(head) - len(tail)
    parts = blocks(report, downgrades)
    return head + fit(parts, room, lambda what, number: _missing(report, what, number)) + tail


def state_of(body: str) -> RoundState | None:
    """The state in a comment of ours, from its last line and nowhere else."""
    lines = body.rstrip().splitlines()
    if len(lines) < 2 or not lines[0].startswith(MARKER.removesuffix(" -->")):
        return None
    found = _STATE.match(lines[-1])
    return load(found[1]) if found else None


def blocks(report: Report, downgrades: Sequence[str], *, held: bool = False) -> list[Block]:
    """All parts of a document in their order; `held`: findings too that are otherwise only counted."""
    summary = report.summary
    return [
        opening(report),
        _list("Not everything was posted", downgrades, 0),
        *criteria(summary),
        *findings(report, held=held),
        *fixed(report),
        *policy(summary.policy_changes),
        *unreviewed(summary),
        Block(f"**Cost**: {prose(words.cost(summary))}.", 1),
        _list("Notes", report.notes, 1),
        provenance(report),
        again(report),
    ]


def _missing(report: Report, what: str, number: int) -> str:
    places = ["the job's summary"]
    places += ["the check run's annotations"] if what == "findings" else []
    places += ["the bundle among the job's artifacts"] if report.artifact else []
    return _left_out(what, number, ", ".join(places[:-1]) + " and " + places[-1] if len(places) > 1 else places[0])


def _left_out(what: str, number: int, places: str) -> str:
    return f"**{number:,} more {what}** did not fit: see {places}."


MAX_SUMMARY = 1_000_000
"""Bytes; GitHub takes 1 MiB a step, and other lines of the step count too."""


def job_summary(report: Report, downgrades: Sequence[str] = ()) -> str:
    """The comment's parts and the findings that it held back; `MAX_SUMMARY` bytes at most."""
    parts = blocks(report, downgrades, held=True)
    return fit(parts, MAX_SUMMARY, lambda what, number: _left_out(what, number, "the bundle"))
