"""The verdict on one screen: what came out, about what, why, what it cost and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import UNSET, Struct
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from vibe_gate.domain.cause import NoKey, NotAsked
from vibe_gate.domain.escape import counted, expression, safe
from vibe_gate.domain.summary import Summary, Unreviewed
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Finding,
    Proof,
    RubricResult,
    SecondLook,
)
from vibe_gate.errors import FAIL, INCONCLUSIVE, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.report import next_step, queries, sentences
from vibe_gate.report.outcome_words import outcome_mark

MOST_CRITERIA, MOST_FINDINGS = 20, 8
"""What a terminal shows: the verdict line stays in sight."""

MOST_FINDINGS_IN_A_PIPE = 50
"""Findings of a pipe or a log; `--concise`, `--json` and the bundle have all."""

MIN_WIDTH = 40
"""The least width that lines are cut to."""

LABEL = 10
"""Columns of a label such as "change" before its text."""

MAX_REASON_SHOWN = 120
"""Characters of a reason in the line about what was not judged; the rest is in the bundle."""

_SPACES = expression(r"\s{2,}")

_LEVELS = {"failure": ("✗", "red"), "warning": ("!", "yellow"), "notice": ("·", "dim")}
_URGENCY = {"fail": 0, "error": 0, "abstain": 2, "pass": 4, "not_applicable": 6}


class ScreenRow(Struct, frozen=True):
    """One row of the screen.

    `rank`: how soon it is left out (0 last). `indent`: columns before its second and further lines.
    `whole`: never cut; the terminal breaks it (a path that is to be copied).
    """

    rank: int
    line: Text
    indent: int = 4
    whole: bool = False


def render_screen(
    summary: Summary,
    notes: Sequence[str],
    width: int,
    *,
    every: bool = True,
    then: str = "",
    why: str = "",
) -> Text:
    """The screen, without a final newline.

    `width` in columns. Without `every`, passed criteria beyond `MOST_CRITERIA` and the least grave
    findings beyond `MOST_FINDINGS` are only counted. `then`: what to do next, if a review's own
    sentence does not say it; `why`: what decided, if the summary does not.
    """
    columns = max(width, MIN_WIDTH)
    error = queries.shared_error(summary)  # the headline says it
    criteria = [
        [row] for rubric in summary.rubrics for row in _rubric(rubric, summary.findings, error)
    ]
    told: set[str] = set()
    findings = [
        _finding(one, summary, columns, told)
        for one in queries.worst_first(summary.findings, summary)
    ]
    most = (len(criteria), MOST_FINDINGS_IN_A_PIPE) if every else (MOST_CRITERIA, MOST_FINDINGS)
    parts = [
        [
            line
            for row in rows
            for line in ([row.line] if row.whole else _wrap(row.line, columns, row.indent))
        ]
        for rows in (
            _head(summary, why),
            _most_urgent(criteria, most[0], "criteria"),
            _most_urgent(findings, most[1], "findings"),
            _tail(summary, notes, then),
        )
    ]
    return Text("\n\n").join(Text("\n").join(part) for part in parts if part)


def _head(summary: Summary, why: str) -> list[ScreenRow]:
    word, style = _verdict(summary)
    decided = (
        f" · {why}"
        if why
        else sentences.verdict_headline(summary).removeprefix(sentences.verdict_words(summary))
    )
    line = Text.assemble((word, style), safe(decided))
    facts = (_fact("change", _change(summary)), _fact("gate", safe(sentences.gate_words(summary))))
    return [ScreenRow(0, line), *(ScreenRow(0, fact, LABEL) for fact in facts)]


def _verdict(summary: Summary) -> tuple[str, str]:
    mark, style = {
        PASS: ("✓", "bold green"),
        FAIL: ("✗", "bold red"),
        INTEGRITY: ("!", "bold red"),
    }.get(summary.exit_code, ("!", "bold yellow"))
    if summary.extent == "nothing":
        mark, style = "·", "bold"
    if summary.exit_code == INCONCLUSIVE:
        mark, style = (
            ("?", "bold yellow") if summary.outcome == "inconclusive" else ("!", "bold red")
        )
    return f"{mark} {sentences.verdict_words(summary)}", style


def _change(summary: Summary) -> str:
    shown = sentences.short_change_id(summary) + (
        " (uncommitted)" if summary.key.startswith("tree-") else ""
    )
    change, files = summary.change, summary.change.files
    names = ", ".join(_path(f.path) for f in files[:3]) + (", …" if len(files) > 3 else "")
    size = f"{counted(len(files), 'file')} +{change.added} −{change.deleted}"
    return f"{safe(shown)} · {size}" + (f" · {names}" if names else "")


def _rubric(rubric: RubricResult, findings: Sequence[Finding], headline: str) -> list[ScreenRow]:
    mark, style = outcome_mark(rubric.outcome)
    score = f"score {rubric.score:.2f} · " if queries.has_score(rubric) else ""
    figures = f"{score}coverage {rubric.coverage:.0%}" if rubric.coverage else "nothing decided"
    said = f"{rubric.outcome} · {figures}"
    reasons = {one.reason for one in rubric.criteria}
    shared = reasons.pop() if len(reasons) == 1 else None
    is_told = shared is not None and shared.removesuffix(".") == headline
    if not queries.rubric_applies(rubric):  # a "pass" would claim that something was checked
        (mark, style), said = (
            outcome_mark("not_applicable"),
            f"skipped · {shared or 'no criterion applies to this change'}",
        )
    elif (
        shared
        and not is_told
        and queries.has_cause(rubric.criteria[0], NotAsked)
        and len(rubric.criteria) > 1
    ):
        said += f" · {len(rubric.criteria)} questions {shared}"
        is_told = True
    alike = _shared_badge(rubric)
    said += f" · {alike}" if alike else ""
    header = ScreenRow(
        0, Text.assemble((f"{mark} ", style), (safe(rubric.id), "bold"), f"  {safe(said)}")
    )
    if is_told or (
        rubric.outcome == "pass" and all(_is_plain(criterion) for criterion in rubric.criteria)
    ):
        return [header]
    widest = min(28, max((cell_len(safe(one.id)) for one in rubric.criteria), default=0))
    below = Counter((finding.criterion, finding.message) for finding in findings)
    rows, before = [header], ""
    for one in rubric.criteria:
        number = below[one.id, one.reason]
        told = (
            "as above"
            if one.reason and one.reason == before
            else sentences.criterion_reason(rubric.id, one, findings)
        )
        told = f"{counted(number, 'finding')} below" if number else told
        known = sentences.criterion_badge(one, short=True) if _is_judged(one) and not alike else ""
        told = " · ".join(filter(None, [told, known]))
        waived = one.outcome == "fail" and queries.is_waived(rubric.id, one.id, findings)
        rows.append(_criterion(one, told, waived, widest=widest))
        rows += _void_proofs(one, rows[-1].rank)
        before = one.reason
    return rows


def _shared_badge(rubric: RubricResult) -> str:
    """The one badge of all judge criteria, if it has no figures: those are of one criterion."""
    badges = {
        sentences.criterion_badge(one, short=True) for one in rubric.criteria if _is_judged(one)
    }
    return (
        badges.pop()
        if len(badges) == 1 and next(iter(badges)).startswith(("uncalibrated", "stale"))
        else ""
    )


def _is_judged(criterion: CriterionResult) -> bool:
    return criterion.kind == "judge" and criterion.outcome != "not_applicable"


def _is_plain(criterion: CriterionResult) -> bool:
    """Whether nothing is to be told of it: a check that passed, or what does not apply."""
    return criterion.outcome == "not_applicable" or (
        criterion.kind == "check" and criterion.outcome == "pass"
    )


def _criterion(criterion: CriterionResult, told: str, waived: bool, *, widest: int) -> ScreenRow:
    mark, style = _LEVELS["warning"] if criterion.is_advice else outcome_mark(criterion.outcome)
    if waived:
        mark, style = outcome_mark("not_applicable")
    name = _crop(safe(criterion.id), widest)
    padded = name + " " * (widest - cell_len(name))
    outcome = "accepted" if waived else criterion.outcome.replace("not_applicable", "n/a")
    if queries.is_unsteady(criterion):
        outcome, told = "unsteady", ": ".join(filter(None, [outcome, told]))
    columns = f"{'must' if criterion.must else '    '}  {outcome:<7}"
    reason = (safe(told), "dim" if criterion.outcome in ("pass", "not_applicable") else "")
    line = Text.assemble((f"  {mark} ", style), padded, f"  {columns}  ", reason)
    indent = cell_len(line.plain) - cell_len(safe(told))
    line.rstrip()
    return ScreenRow(_URGENCY[criterion.outcome] + (not criterion.must), line, indent)


def _finding(finding: Finding, summary: Summary, columns: int, told: set[str]) -> list[ScreenRow]:
    """Place, criterion and fingerprint; the quoted lines; what is wrong; once, what would go
    wrong.
    """
    mark, style = _LEVELS[finding.level]
    rank = queries.GRAVITY[finding.level]
    place = _path(finding.path) or "the change"
    if finding.line:
        place += f":{finding.line}"
    name = (
        f"  [{safe(finding.fingerprint[: sentences.SHORT_FINGERPRINT])}]"
        if finding.fingerprint
        else ""
    )
    where = Text.assemble((f"{mark} ", style), (place, "bold"))
    would = " (would have blocked)" if queries.advice_behind(finding, summary) else ""
    known = queries.finding_basis(finding, summary)
    what = Text.assemble(
        safe(finding.criterion + would), (name, "dim"), (f"  {known}" if known else "", "dim")
    )
    if cell_len(where.plain) > columns:  # broken, as a place that is cut would lose its line number
        pieces = chop_cells(where.plain, columns)
        if len(pieces) > 4:
            pieces[1:-2] = ["…"]
        rows = [ScreenRow(rank, Text(piece, "bold")) for piece in pieces]
        rows.append(ScreenRow(rank, Text("    ").append_text(what)))
    else:
        rows = [ScreenRow(rank, Text("  ").join((where, what)))]
    rows += [ScreenRow(rank, _fit(_quote(evidence), columns)) for evidence in finding.evidence]
    rows.append(ScreenRow(rank, Text(f"    {safe(sentences.finding_sentence(finding))}")))
    against = queries.counterexample_of(finding, summary)
    if against and against not in told:
        told.add(against)
        rows.append(ScreenRow(rank, Text(f"    e.g. {safe(against)}", "dim")))
    if finding.proof is not UNSET:
        rows += _proof(finding.proof, rank, told)
    if finding.second_look is not UNSET:
        rows += _second_look(finding.second_look, rank, columns, told)
    return rows


def _void_proofs(criterion: CriterionResult, rank: int) -> Iterator[ScreenRow]:
    """The tests that turned fails of an undecided criterion into abstentions: no finding shows
    them.
    """
    told: set[str] = set()
    for vote in criterion.votes:
        if (
            criterion.outcome == "abstain"
            and vote.proof is not UNSET
            and vote.proof.status == "void"
        ):
            yield from _proof(vote.proof, rank, told)


def _proof(proof: Proof, rank: int, told: set[str]) -> Iterator[ScreenRow]:
    """What running its test came to, and how to repeat it. Once for all its findings."""
    if proof.test not in told:
        told.add(proof.test)
        yield ScreenRow(rank, Text(f"    {safe(sentences.proof_sentence(proof))}"))
        if proof.test:
            yield ScreenRow(
                rank, Text(f"    repeat: {safe(proof.command)} (the bundle has the test)", "dim")
            )


def _second_look(look: SecondLook, rank: int, columns: int, told: set[str]) -> Iterator[ScreenRow]:
    """What a second look came to, unless the finding says it; the lines that prevent it. Once for
    all its findings.
    """
    sentence = sentences.second_look_sentence(look)
    if sentence in told:
        return
    told.add(sentence)
    if look.outcome != "refuted":
        yield ScreenRow(rank, Text(f"    {safe(sentence)}", "dim"))
    for evidence in queries.refuting_lines(look):
        yield ScreenRow(rank, Text(f"    {_path(sentences.place_words_of(evidence))}", "dim"))
        yield ScreenRow(rank, _fit(_quote(evidence), columns))


def _quote(evidence: CheckedEvidence) -> Text:
    number = f"{evidence.line:>7} {'-' if evidence.side == 'before' else '|'} "
    return Text.assemble((number, "dim"), safe(evidence.quote.replace("\t", "    ").rstrip()))


def _tail(summary: Summary, notes: Sequence[str], then: str) -> list[ScreenRow]:
    facts = [("policy", text, "yellow") for text in _policy(summary)]
    if said := queries.quoted_details(queries.shared_error(summary)):
        facts.append(("details", safe(said), ""))
    if not (summary.exit_code == PASS and summary.unasked):
        if queries.missed_places(summary):
            facts.append(("judge", _unreviewed(summary), "yellow"))
        facts.append(("cost", sentences.cost_words(summary), ""))
    run = f"{safe(summary.run_id)} · vibe-gate report --open" if summary.bundle else "not recorded"
    facts += [("run", run, ""), *(("note", safe(note), "") for note in notes)]
    rows = [ScreenRow(0, _fact(*fact), LABEL) for fact in facts]
    return [
        *rows,
        ScreenRow(0, _fact("next", safe(then) or _next(summary)), LABEL, whole=bool(then)),
    ]


def _policy(summary: Summary) -> list[str]:
    texts = []
    # The line "gate" tells of the adoption, a finding of everything else.
    for level in ("block",) if summary.trusted.bootstrap else ("block", "warn"):
        changes = [each for each in summary.policy_changes if each.level == level]
        paths = [f"{_path(each.path)} ({safe(each.change_type)})" for each in changes]
        if paths:
            more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
            texts.append(
                f"{', '.join(paths[:2])}{more}: {sentences.policy_meaning(changes[0], summary)}"
            )
    return texts


def _unreviewed(summary: Summary) -> str:
    place = _path(sentences.place_words_of(summary.unreviewed[0]))
    more = len(summary.unreviewed) - 1
    others = f" and {counted(more, 'more place', 'more places')}" if more else ""
    by_reason: dict[str, list[Unreviewed]] = {}
    for part in summary.unreviewed:
        by_reason.setdefault(part.reason, []).append(part)
    typical = max(by_reason.values(), key=len)[0]
    if typical.reason.removesuffix(".") == queries.shared_error(summary):
        return f"not judged: {place}{others}"
    why = (
        typical.cause.because
        if isinstance(typical.cause, NotAsked)
        else queries.reason_in_words(typical.reason)
    )
    return f"not judged: {place}{others} ({_crop(safe(why), MAX_REASON_SHOWN)})"


def _next(summary: Summary) -> str:
    if summary.exit_code == PASS:
        left = summary.unasked
        if left and isinstance(left[0].cause, NoKey):
            return "set ANTHROPIC_API_KEY and review again to ask them"
        advice = [one for one in summary.findings if queries.advice_behind(one, summary)]
        if advice:
            name = advice[0].fingerprint[: sentences.SHORT_FINGERPRINT]
            return f"read what would have blocked, and say whether it is right: vibe-gate label {name} right|wrong"
        if summary.key.startswith("tree-") and summary.run_id and summary.workflow == "review":
            return "git commit"
        return (
            "nothing to do; the votes are in the bundle"
            if queries.asks_judges(summary) and not left
            else "nothing to do"
        )
    if summary.exit_code == FAIL:
        blocking = [
            one for one in queries.worst_first(summary.findings, summary) if one.level == "failure"
        ]
        name = blocking[0].fingerprint[: sentences.SHORT_FINGERPRINT] if blocking else ""
        accept = ""
        if name:
            accept = (
                f"; why: vibe-gate explain {name}; to accept one: vibe-gate override {name} --reason ...; "
                f"if it is wrong: vibe-gate label {name} wrong"
            )
        if summary.change.head_commit and any(one.criterion == "no-secrets" for one in blocking):
            base = safe(summary.change.base_commit[: sentences.SHORT_ID]) or "--root"
            return (
                "a secret is in commits, and a further commit leaves it there: revoke it and rewrite them "
                f"(git rebase -i {base}; the last one alone: git commit --amend), then review again{accept}"
            )
        return f"fix what is marked ✗{next_step.by_an_agent(summary)}, then review again{accept}"
    if summary.exit_code == POLICY_CHANGED:
        return "ask a maintainer to approve, or run `vibe-gate override policy --reason ...`"
    if summary.exit_code == INTEGRITY:
        return "find what writes to the tree during a review, then review again"
    return next_step.at_a_terminal(summary)


def _path(path: str) -> str:
    """The path on one line; spaces in a row are written out, else a terminal that breaks a wide
    line shows two.
    """
    return _SPACES.sub(lambda run: "".join(f"\\u{ord(space):04x}" for space in run[0]), safe(path))


def _fact(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"  {label}".ljust(LABEL), "dim"), (text, style))


def _most_urgent(blocks: Sequence[Sequence[ScreenRow]], most: int, what: str) -> list[ScreenRow]:
    """The rows of the `most` blocks of the lowest ranks, in their order, and a last row that counts
    the others.
    """
    order = sorted(range(len(blocks)), key=lambda index: (blocks[index][0].rank, index))
    rows = [row for index in sorted(order[:most]) for row in blocks[index]]
    if left := len(order[most:]):
        where = (
            "vibe-gate report --open, or --json"
            if what == "findings"
            else "see summary.json in the bundle"
        )
        rows.append(ScreenRow(0, Text(f"  … and {left:,} more {what}: {where}", "dim")))
    return rows


def _fit(line: Text, columns: int) -> Text:
    """The line, cut to the columns with an ellipsis."""
    line.truncate(columns, overflow="ellipsis")
    return line


def _crop(text: str, columns: int) -> str:
    """The text, cut to the columns with an ellipsis."""
    return text if cell_len(text) <= columns else set_cell_size(text, columns - 1) + "…"


def _wrap(line: Text, columns: int, indent: int) -> list[Text]:
    """The line broken between words into lines of at most `columns`; a word that is too long is
    cut.
    """
    indent = min(indent, columns // 2)
    offsets: list[int] = []
    used, position = 0, 0
    for word in line.plain.split(" "):
        width = cell_len(word)
        if used > indent and used + width > columns and word:
            offsets.append(position)
            used = indent
        used += width + 1
        position += len(word) + 1
    first, *rest = line.divide(offsets)
    lines = [first, *(Text(" " * indent).append_text(piece) for piece in rest)]
    for piece in lines:
        piece.rstrip()
    return [_fit(piece, columns) for piece in lines]
