"""The Markdown documents of a run: the comment, and the job summary that `--markdown` writes. Pure.

In sight: the verdict, why, what to do next, the findings. Everything else is in folds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from textwrap import indent
from typing import TypeVar, get_args

from msgspec import UNSET

from vibe_gate.domain.cause import NoKey, NotAsked
from vibe_gate.domain.change import ChangeType
from vibe_gate.domain.escape import counted, ended
from vibe_gate.domain.replayed import CriterionChange, totals
from vibe_gate.domain.summary import Summary, Unreviewed
from vibe_gate.domain.verdict import CriterionResult, Finding, Proof, RubricResult, SecondLook
from vibe_gate.errors import FAIL, INCONCLUSIVE, PASS, POLICY_CHANGED
from vibe_gate.report import queries, replays, sentences
from vibe_gate.report.links import Links
from vibe_gate.report.markdown import Block, code, cut_lines, fence, fit, fold, html, link, prose, table
from vibe_gate.report.next_step import next_step, remediable_cause, why_undecided
from vibe_gate.report.outcome_words import outcome_cell
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import ReportedFinding, identity
from vibe_gate.report.round import Round
from vibe_gate.report.round_record import ACCEPTED, REFUTED, count_findings, is_further, settled_title
from vibe_gate.report.round_state import RoundState, dump_state, explain_state, load_state
from vibe_gate.version import __version__

DOCS = f"https://github.com/vibe-gate/vibe-gate/blob/v{__version__}/docs"
"""The documents of this version."""

GLOSSARY = f"{DOCS}/reference/glossary.md"

MAX_SENTENCES = 20
"""Notes or downgrades that are told one by one."""

MAX_ROWS = 40
"""Criteria with a row of their own; a rubric has fewer, a hostile one may have thousands."""

MAX_POLICY_DIFF = 6_000
"""Characters of one policy change's diff."""

MAX_REASONS = 10
"""Reasons why something was not judged."""

MAX_CHANGED = 5
"""Changed files that are named."""

MAX_TEST = 4_000
"""Characters of a finding's test."""

MAX_EQUAL = 5
"""Equal findings whose place is linked."""

MAX_PLACES = 10
"""Places that share a reason or a message and are named one by one; summary.json has all."""

Thing = TypeVar("Thing")

_URGENCY = {"fail": 0, "error": 1, "abstain": 2, "pass": 3, "not_applicable": 4}
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


def _opening(report: Report) -> Block:
    """The verdict, why, and what to do next; then what is new in this round."""
    told = [_headline(report), _why(report), _replayed(report), *map(prose, report.remarks), _next(report)]
    told += [_waiting(report), _round_line(report.round)]
    return Block("\n\n".join(filter(None, told)), 0)


def _replayed(report: Report) -> str:
    """What the change's own rubrics would have said of earlier runs."""
    rows, notes = report.replayed.rows, [prose(note) for note in report.replayed.notes]
    if not rows:
        return " ".join(notes)
    told = " ".join(replays.sentences(totals(rows), report.replayed.budget_usd, prose))
    named = counted(len(rows), "run")
    return " ".join([f"**Under the rubrics of this change,** of the last {named}: {told}", *notes])


def _came_out_otherwise(report: Report) -> Block:
    """The criteria that came out otherwise when earlier runs were judged again, and the runs that could not be."""
    rows = report.replayed.rows
    cells = [
        (
            code(row.run_id[: sentences.SHORT_RUN]),
            "<br>".join([code(f"{one.rubric}/{one.criterion}", 100), *_first_findings(one)]),
            f"{prose(one.before)} → {prose(one.after)}",
            f"{row.usd:.4f}",
        )
        for row in rows
        for one in row.shown
    ]
    more = f"\n\nFurther criteria: {len(cells) - MAX_ROWS:,}." if len(cells) > MAX_ROWS else ""
    lost = [f"{code(row.run_id)}: {prose(row.why)}" for row in rows if row.is_lost]
    parts = [table(("Run", "Criterion", "Before and after", "USD"), cells[:MAX_ROWS]) + more if cells else ""]
    parts += [f"Cannot be replayed:\n\n{_list(lost, str)}" if lost else ""]
    text = "\n\n".join(filter(None, parts))
    return Block(fold("Earlier runs under the rubrics of this change", text) if text else "", 3)


def _first_findings(change: CriterionChange) -> list[str]:
    told = [prose(text) for text in replays.findings(change)]
    return told[:MAX_EQUAL] + ([f"and {len(told) - MAX_EQUAL:,} more"] if len(told) > MAX_EQUAL else [])


def _headline(report: Report) -> str:
    """The verdict, whose word let it pass, and the commit that it is about."""
    summary = report.summary
    name = f" ({prose(report.name, 100)})" if report.name else ""
    refuted = sentences.refuted(summary) if summary.exit_code == PASS else ""
    head = summary.change.head_commit
    parts = [
        claimed_verdict(report),
        prose(sentences.passed_by(summary)),
        prose(refuted),
        unblocked(report),
        commit(head, report.links) if head and report.links else "",
    ]
    return f"### vibe-gate{name}: {' · '.join(filter(None, parts))}"


def claimed_verdict(report: Report) -> str:
    """The verdict; that it is only claimed, if a job that the change controls says so."""
    verdict = sentences.verdict(report.summary)
    is_claim = report.claimed and report.summary.exit_code != INCONCLUSIVE  # that nothing is reviewed we say ourselves
    return f"{verdict} (claimed)" if is_claim else verdict


def unblocked(report: Report) -> str:
    """That the verdict does not stop the change, where it would otherwise; else ""."""
    return "" if report.blocks or report.summary.exit_code == PASS else "does not block (`mode: warn`)"


def _why(report: Report) -> str:
    summary = report.summary
    if not summary.run_id:
        head = summary.change.head_commit
        return f"Nothing to review in {commit(head, report.links) if head else code(sentences.key(summary))}."
    return prose(_what_decided(report)).replace("(must)", f"([must pass]({GLOSSARY}))")


def decided(report: Report) -> list[str]:
    """Who let it pass, and why it ended so, as plain text for one line behind the verdict."""
    reason = _what_decided(report).removeprefix("Passed the ").removesuffix(".").replace(" (must)", "")
    refuted = sentences.refuted(report.summary) if report.summary.exit_code == PASS else ""
    return list(filter(None, [sentences.passed_by(report.summary), refuted, reason]))


def _what_decided(report: Report) -> str:
    """What decided, and why questions have no answer, as a sentence or two of plain text; "" if there is no more."""
    summary = report.summary
    told = [] if summary.exit_code == INCONCLUSIVE else [sentences.why(summary, sentence=True)]
    if summary.exit_code == FAIL and queries.needs_approval(summary):
        told.append(f"this change also edits {sentences.edited(summary)}, which needs approval")
    if summary.exit_code in (INCONCLUSIVE, POLICY_CHANGED) and summary.outcome != "pass":
        told += _why_undecided(report)
    text = " ".join(ended(f"{each[0].upper()}{each[1:]}") for each in told if each)
    return text.replace("--no-judge", 'judge: "false"') if report.links else text  # a job's option


def _why_undecided(report: Report) -> Iterator[str]:
    """The undecided criteria with the reason of the first; why judge questions have no answer, and how many."""
    summary = report.summary
    left = sum(one.kind == "judge" for one in queries.unanswered(summary))
    if not left or queries.abstained(summary):
        yield sentences.why_by_rubrics(summary)
    if left:
        cause = remediable_cause(summary)
        if report.fork and isinstance(cause, NoKey):
            yield "a fork's job gets no API key"
        elif isinstance(cause, NotAsked):
            yield cause.because
        else:
            yield why_undecided(summary)
        yield f"{counted(left, 'judge question has', 'judge questions have')} no answer"


def _next(report: Report) -> str:
    if not report.summary.run_id:
        return ""
    return f"**Next:** {next_step(report)}. [What this means]({DOCS}/guides/github.md#the-comment)."


def _waiting(report: Report) -> str:
    waiting = queries.waiting(report.summary)
    if not waiting.questions:
        return ""
    named = _first([code(id, 64) for id in waiting.questions], 3)
    how = ' `ask-anyway: "true"` asks all the same.' if report.links and waiting.check != "no-secrets" else ""
    number = counted(len(waiting.questions), "judge question")
    return f"Not asked until {code(waiting.check, 64)} passes: {number}, {named}.{how}"


def commit(id: str, links: Links | None) -> str:
    """A commit by its short id, linked where the forge is known."""
    return link(id[: sentences.SHORT_ID], links.commit(id) if links and _COMMIT.match(id) else "")


def _list(things: Sequence[Thing], show: Callable[[Thing], str]) -> str:
    """A list, the first of many."""
    more = [f"- and {len(things) - MAX_SENTENCES:,} more."] if len(things) > MAX_SENTENCES else []
    return "\n".join([*(f"- {show(thing)}" for thing in things[:MAX_SENTENCES]), *more])


def _round_line(told: Round) -> str:
    if not is_further(told):
        return ""
    held = counted(len(told.held), "finding")
    quiet = f" Held back: {held} on lines that did not change since the last round; none blocks." if told.held else ""
    return f"Round {told.number}: {count_findings(told)}.{quiet}"


def _changed(summary: Summary) -> Block:
    """What the change does, as a judge said it, and its files by risk."""
    files, said = queries.riskiest_first(summary), queries.changes(summary)
    if len(files) < 2 and not said:
        return Block("")
    rows = [
        (code(file.path), f"+{file.added:,} −{file.deleted:,}" if not file.binary else "binary", reason)
        for file, reason in files[:MAX_CHANGED]
    ]
    more = f"\n\nFurther files: {len(files) - MAX_CHANGED:,}." if len(files) > MAX_CHANGED else ""
    text = "\n\n".join(filter(None, [prose(said), table(("File", "Lines", "Look at"), rows) + more]))
    return Block(fold(f"What changed: {counted(len(files), 'file')}, by risk", text), 4)


def _criteria(summary: Summary) -> Iterator[Block]:
    """A table of criteria for each rubric: what failed first, what passed last."""
    for rubric in summary.rubrics:
        rows = sorted(rubric.criteria, key=lambda one: (_URGENCY[one.outcome], not one.must))
        above = ["", *(one.reason for one in rows)]
        pairs = zip(rows[:MAX_ROWS], above, strict=False)
        cells = [_criterion(one, rubric.id, before, summary) for one, before in pairs]
        text = table(("Criterion", "Outcome", "Why"), cells)
        if len(rows) > MAX_ROWS:
            text += f"\n\nFurther criteria: {len(rows) - MAX_ROWS:,}; see summary.json."
        yield Block(fold(_rubric(rubric), f"{text}\n\n[Glossary]({GLOSSARY})"), 1, "rubrics")


def _rubric(rubric: RubricResult) -> str:
    if not queries.applies(rubric):
        return f"Rubric {html(rubric.id, 100)}: skipped"
    open_ = len(queries.undecided(rubric)) if rubric.coverage else 0
    facts = [
        f"score {rubric.score:.2f}" if queries.has_score(rubric) else "",
        f"{open_} of {len(rubric.criteria)} undecided" if open_ else "",
        "" if rubric.coverage else "nothing decided",
    ]
    return f"Rubric {html(rubric.id, 100)}: {', '.join(filter(None, [rubric.outcome, *facts]))}"


def _criterion(one: CriterionResult, rubric: str, before: str, summary: Summary) -> tuple[str, str, str]:
    """Its row. `before`: the reason in the row above, which is not repeated."""
    votes = f", {counted(len(one.votes), 'vote')}" if len(one.votes) > 1 and one.outcome != "fail" else ""
    outcome = outcome_cell(one.outcome) + votes
    if one.would_block is True:
        outcome = "would have blocked"
    if one.outcome == "fail" and queries.is_waived(rubric, one.id, summary.findings):
        outcome = "accepted"
    if queries.is_unsteady(one):
        outcome = f"unsteady: {outcome}"
    reason = (
        "as above" if one.reason and one.reason == before else prose(sentences.reason(rubric, one, summary.findings))
    )
    badge = f"<br>{prose(sentences.badge(one))}" if one.trust is not UNSET else ""
    return code(one.id, 64) + (" (must)" if one.must else "") + badge, outcome, reason


def _findings(report: Report, *, held: bool = False, without: Collection[str] = ()) -> Iterator[Block]:
    """The findings of this round, the gravest first, each with its place; equal ones as one item.

    `held`: those too that are otherwise only counted; `without`: the identities of findings to leave out.
    """
    told = report.round
    held_back = told.held if held else ()
    first = [("Findings", told.shown)] if told.number == 1 else [("New findings", told.new), ("Still open", told.open)]
    tests: set[str] = set()
    done = [(name, (*told.shown, *held_back)) for name in (REFUTED, ACCEPTED)]
    for title, group in (*first, ("Held back", held_back), *done):
        wanted = [one for one in group if identity(one) not in without]
        kept = [one for one in wanted if settled_title(one) == (title if title in (REFUTED, ACCEPTED) else "")]
        alike: dict[object, list[Finding]] = {}
        for finding in queries.worst_first(kept, report.summary):
            against = queries.counterexample(finding, report.summary)
            back = identity(finding) in told.reappeared
            what = (
                *(finding.level, finding.criterion, finding.message, against, back),
                *(finding.second_look, finding.basis, finding.proof),
            )
            alike.setdefault(what, []).append(finding)
        for index, equal in enumerate(alike.values()):
            head = f"#### {title} ({len(kept):,})\n\n" if index == 0 else ""
            rank = 2 if equal[0].level == "failure" else 3
            test = equal[0].proof.test if equal[0].proof else ""
            yield Block(head + _item(equal, report, with_test=test not in tests), rank, "findings", len(equal))
            tests.add(test)


def _item(equal: Sequence[Finding], report: Report, *, with_test: bool) -> str:
    """Equal findings as an item of a list: their places and fingerprints."""
    finding = equal[0]
    back = " (back)" if identity(finding) in report.round.reappeared else ""
    name = _first([code(each.fingerprint[: sentences.SHORT_FINGERPRINT]) for each in equal if each.fingerprint], 3)
    known = queries.basis(finding, report.summary)
    asked = ", ".join(filter(None, [code(finding.criterion, 64) if finding.criterion != "policy" else "", name, known]))
    said = prose(sentences.said(finding))
    places = _first([_where(each, report.links) for each in equal], MAX_EQUAL)
    advice = queries.advice_behind(finding, report.summary)
    would = f" (would have blocked: {sentences.why_advice(advice)})" if advice else ""
    told = f"- **{finding.level}**{would}{back} {places}: {said}" + (f" ({asked})" if asked else "")
    against = queries.counterexample(finding, report.summary)
    if against:
        told += f"\n  Counterexample: {prose(against, 500)}"
    if finding.proof is not UNSET:
        told += f"\n  {prose(sentences.proof(finding.proof))}"
    if finding.second_look is not UNSET:
        told += "".join(f"\n  {line}" for line in _second_look(finding.second_look, report.links))
    if finding.proof is not UNSET and finding.proof.test and with_test:
        told += f"\n\n{indent(test_fold(finding.proof), '  ')}"
    return told


def test_fold(proof: Proof) -> str:
    """The test as a file to take over, with the command that repeats it; "" without one."""
    if not proof.test:
        return ""
    text, more = cut_lines(proof.test, MAX_TEST)
    cut = f"\n\n{counted(more, 'more line')}; the bundle has all of it." if more else ""
    shown = fence(text, "python" if proof.path.endswith(".py") else "")
    return fold(f"Test {html(proof.path)}", f"{shown}{cut}\n\nTo repeat it: {code(proof.command)}")


def _second_look(look: SecondLook, links: Links | None) -> Iterator[str]:
    """What a second look came to, unless the finding says it, and the lines that prevent it."""
    if look.outcome != "refuted":
        yield prose(sentences.second_look(look))
        return
    for one in queries.preventing(look):
        address = links.permalink(one.path, one.line, one.end_line, before=one.side == "before") if links else ""
        yield f"{link(sentences.place_of(one), address)}: {code(one.quote.strip(), 200)}"


def _where(finding: Finding, links: Links | None) -> str:
    if not finding.path:
        return "the change"
    before = queries.is_removed(finding)
    address = links.permalink(finding.path, finding.line, finding.end_line, before=before) if links else ""
    return link(sentences.place_of(finding), address) + (" (removed)" if before else "")


def _fixed(report: Report) -> Iterator[Block]:
    """What was said before and is gone, and since which commit; what nobody fixed; what this run could not look for."""
    groups = {
        "Fixed": report.round.fixed,
        "Not raised again, on lines that did not change": report.round.unraised,
        "Not found again, but this run could not tell whether it is gone": report.round.unanswered,
    }
    for title, group in groups.items():
        rows = _list(group, lambda seen: _seen(seen, report.links))
        yield Block(fold(f"{title} ({len(group):,})", rows) if group else "", 4, "earlier findings")


def _seen(seen: ReportedFinding, links: Links | None) -> str:
    old = Links(links.server, links.repository, seen.since) if links else None
    place = sentences.place(seen.path, seen.line)
    address = old.permalink(seen.path, seen.line) if old and seen.path else ""
    since = f"fixed at {commit(seen.fixed, links)}: " if seen.fixed else ""
    shown = link(place, address) if seen.path else place
    return f"{since}{shown}: {prose(seen.message, 280)} ({code(seen.criterion, 64)})"


def _policy(summary: Summary) -> Iterator[Block]:
    """Changes of the gate itself and of what steers agents, each with its diff."""
    for change in summary.policy_changes:
        approver = queries.approver(summary) if change.level == "block" else ""
        meaning = sentences.policy_meaning(change, summary)
        if approver:
            meaning = f"approved by {html(approver)}"
        text, more = cut_lines(_without_names(change.diff), MAX_POLICY_DIFF)
        shown = fence(text, "diff") if text.strip() else "No text to show."
        cut = f"\n\n{counted(more, 'more line')} of this diff." if more else ""
        title = f"{html(change.path)} ({_type(change.change_type)}): {meaning}"
        yield Block(fold(title, shown + cut), 3 if change.level == "block" else 5, "policy changes")


def _without_names(diff: str) -> str:
    """The diff without the lines that name its file: its fold does, and git writes octal for letters beyond ASCII."""
    if not diff.startswith("diff --git "):
        return diff
    head, hunks, rest = diff.partition("\n@@ ")
    kept = [line for line in head.split("\n") if not line.startswith(("diff --git ", "index ", "--- ", "+++ "))]
    return "\n".join([*kept, hunks.removeprefix("\n") + rest])


def _type(change_type: str) -> str:
    """A change's type as a word; what is none of ours is shown as code."""
    return change_type.replace("_", " ") if change_type in get_args(ChangeType) else html(change_type, 40)


def _unreviewed(summary: Summary) -> Iterator[Block]:
    """What was not judged: how much and why in the fold's title, the places in it."""
    places = queries.missed(summary)
    if not places or queries.waiting(summary).questions:
        return
    by_reason: dict[str, list[Unreviewed]] = {}
    for place in places:
        by_reason.setdefault(place.reason, []).append(place)
    groups = sorted(by_reason.values(), key=lambda group: -len(group))
    opening = why_undecided(summary) if summary.exit_code == INCONCLUSIVE else ""
    lines = []
    for group in groups[:MAX_REASONS]:
        is_told = queries.place_fact(group[0]) == opening
        reason = "" if is_told else f"{prose(queries.fact(group[0].reason), 280)}: "
        lines.append(f"- {reason}{_first([code(sentences.place_of(place)) for place in group])}")
    if len(groups) > MAX_REASONS:
        lines.append("- for other reasons: see summary.json.")
    yield Block(fold(f"Not judged: {counted(len(places), 'place')}", "\n".join(lines)), 1, "lists")


def _first(shown: Sequence[str], most: int = MAX_PLACES) -> str:
    """The first of many."""
    more = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {more:,} more" if more > 0 else "")


def _details(report: Report) -> Block:
    """What was reviewed and what it cost, the run and its notes, and how to repeat it or accept a finding."""
    summary = report.summary
    if not summary.run_id:
        return Block("")
    change, score = summary.change, queries.score(summary)
    size = f"{counted(len(change.files), 'file')} (+{change.added:,} −{change.deleted:,})"
    about = commit(change.head_commit, report.links) if change.head_commit else code(sentences.key(summary))
    parts = [
        f"Reviewed: {about} against {prose(sentences.gate(summary))}.",
        _cost(report),
        _provenance(report),
        _list(report.notes, prose),
        *_again(report),
    ]
    title = ", ".join(filter(None, ["" if score is None else f"score {score:.2f}", _spent(report), size]))
    return Block(fold(f"Details: {title}", "\n\n".join(filter(None, parts))), 1)


def _spent(report: Report) -> str:
    """What the run cost, and beside it what the pull request has cost so far; "" if nothing."""
    so_far = report.round.usd_before + report.usd
    if not so_far:
        return ""
    before = f" (${so_far:.4f} so far)" if report.round.usd_before and not report.claimed else ""
    return f"${report.usd:.4f}{before}"


def _cost(report: Report) -> str:
    """What the models of this run cost, its replays, and all runs of the pull request."""
    parts = [f"Cost: {prose(sentences.cost(report.summary))}."]
    if report.replayed.usd:
        parts.append(f"The replays cost ${report.replayed.usd:.4f} more.")
    if report.round.runs_before and not report.claimed:
        so_far = report.round.usd_before + report.usd
        runs = counted(report.round.runs_before + bool(report.usd), "run")
        parts.append(f"This pull request so far: ${so_far:.4f} in {runs} that asked a model.")
    return " ".join(parts)


def _provenance(report: Report) -> str:
    """Who wrote the change, and where run and bundle are."""
    authored = report.summary.agent_authored
    facts = []
    if authored.decision and authored.hints:
        signs = sentences.agent_signs([prose(hint, 200) for hint in authored.hints])
        facts = [f"Written by an agent: {signs}."]
    place = "its bundle was not uploaded"
    if report.artifact and report.claimed:
        place = "its summary is an artifact of that job"
    elif report.artifact:
        place = "its bundle is an artifact of the job: open report.html in it"
    elif report.links is None and report.summary.bundle:
        place = f"its bundle is {code(report.summary.bundle)}"
    run = link(report.summary.run_id, report.links.run_url if report.links else "")
    return " ".join([*facts, f"Run {run}; {place}."])


def _again(report: Report) -> Iterator[str]:
    """How to run the review in a clone, and how to let something pass."""
    change, named = report.summary.change, report.review
    if not named and _COMMIT.match(change.base_commit) and _COMMIT.match(change.head_commit):
        named = f"{change.base_commit[: sentences.SHORT_ID]}..{change.head_commit[: sentences.SHORT_ID]}"
    yield "Run this review in a clone:"
    yield fence(f"vibe-gate review {named}".rstrip(), "")
    if report.summary.exit_code == FAIL or report.round.shown:
        yield (
            "Accept a finding: for everybody with `vibe-gate suppress FINDING --reason TEXT` (it writes "
            "`.vibe-gate/suppressions.toml`, whose change needs approval); temporarily, in one clone, with "
            "`vibe-gate override FINDING --reason TEXT`; for this commit, where the workflow `commands.yml` is "
            "installed, with a comment `/vibe-gate override FINDING REASON`."
        )
        yield (
            "Say whether a finding is right, to measure the judge (no verdict changes): 👍 or 👎 at its comment at the "
            "line, or a comment `/vibe-gate right FINDING` or `/vibe-gate wrong FINDING REASON`, by people with write "
            f"access.{_labels(report.summary)}"
        )


def _labels(summary: Summary) -> str:
    """How many findings of this pull request people have labelled; "" if none."""
    labels = summary.labels or ()
    right = len({one.finding for one in labels if one.right})
    wrong = len({one.finding for one in labels if not one.right})
    return f" Until now: {right} right, {wrong} wrong." if labels else ""


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
    tail = state_line(_state(report)) if report.round.head else ""
    room = MAX_COMMENT - len(head) - len(tail)
    parts = _blocks(report, downgrades)
    return head + fit(parts, room, "the job's summary") + tail


def _state(report: Report) -> RoundState:
    run = report.round.run or (report.links.run if report.links else 0)
    state = report.round.state
    if not report.claimed:  # what a fork says of its cost is no figure of this repository
        state = state.with_cost(report.usd)
    return explain_state(state, report.summary, run)


def state_line(state: RoundState) -> str:
    """The end of a comment of ours: what the next round has to know, unseen."""
    return f"\n<!-- vibe-gate:state {dump_state(state)} -->\n"


def state_of(body: str) -> RoundState | None:
    """The state in a comment of ours, from its last line and nowhere else."""
    lines = body.rstrip().splitlines()
    if len(lines) < 2 or not lines[0].startswith(MARKER.removesuffix(" -->")):
        return None
    found = _STATE.match(lines[-1])
    return load_state(found[1]) if found else None


def _blocks(report: Report, downgrades: Sequence[str], *, held: bool = False) -> list[Block]:
    """All parts of a document in their order; `held`: findings too that are otherwise only counted."""
    summary = report.summary
    said = [*_findings(report, held=held), *_fixed(report), _changed(summary)]
    facts = [*_criteria(summary), *_policy(summary), *_unreviewed(summary), _details(report), _lost(downgrades)]
    return [_opening(report), _came_out_otherwise(report), *said, *facts]


def check_summary(report: Report, downgrades: Sequence[str], without: Collection[str]) -> list[Block]:
    """The parts of a check run's summary: what stands at lines (`without`, identities) and diffs are not said again."""
    facts = [*_criteria(report.summary), *_unreviewed(report.summary), _details(report), _lost(downgrades)]
    return [_opening(report), *_findings(report, without=without), *facts]


def _lost(downgrades: Sequence[str]) -> Block:
    """What could not be posted, in sight: below the folds."""
    return Block(f"**Not everything was posted:**\n\n{_list(downgrades, prose)}" if downgrades else "", 0)


MAX_SUMMARY = 1_000_000
"""Bytes; GitHub takes 1 MiB a step, and other lines of the step count too."""


def job_summary(report: Report, downgrades: Sequence[str] = ()) -> str:
    """The comment's parts and the findings that it held back; `MAX_SUMMARY` bytes at most."""
    return fit(_blocks(report, downgrades, held=True), MAX_SUMMARY, "the bundle")
