"""The page as it is read without scripts: verdict, findings, criteria, changes, activity, cost, the
run itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import UNSET, UnsetType

from vibe_gate.domain.document import text_of
from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import PolicyChange, Summary, Unreviewed
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Finding,
    Proof,
    RubricResult,
    SecondLook,
    Vote,
)
from vibe_gate.errors import POLICY_CHANGED
from vibe_gate.report import queries, sentences
from vibe_gate.report.html import cost_pictures, glance, nodes, stage_figures
from vibe_gate.report.html.addresses import file_link, finding_element_id, place_link
from vibe_gate.report.html.authors import Authors, WritingTurn, WrittenLines, limit_prompts
from vibe_gate.report.html.view import MAX_ROWS, FileView, TurnView, View, findings_on_page
from vibe_gate.report.markup import (
    Html,
    and_more,
    join_html,
    render_facts,
    render_html_table,
    table_row,
    tag,
    text_block,
)
from vibe_gate.report.reported_finding import finding_identity

MAX_UNREVIEWED = 500
"""Places that no judge saw that are shown one by one."""

MAX_FINDING_WRITERS = 3
"""Turns that wrote a finding's lines that stand at the finding."""

MAX_WRITTEN = 500
"""Places of a turn's lines that are shown one by one."""


def page_title(view: View) -> str:
    """The text of the page's tab."""
    return f"{_outcome(view)} · {sentences.short_change_id(view.summary) if view.summary else view.graph.run_id} · vibe-gate"


def render_body(view: View) -> Html:
    """Everything that stands in the page's body but data and scripts."""
    sections = [
        ("verdict", "Verdict", _verdict(view)),
        ("changes", "Changes", _changes(view)),
        ("activity", "Activity", _activity(view)),
        ("cost", "Cost", _cost(view)),
        ("run", "Run", _run(view)),
        *([("authors", "Authors", _authors(view.authors))] if view.authors != Authors() else []),
    ]
    made = [
        tag("section", *parts, id=name, data_tab=label, aria_label=label)
        for name, label, parts in sections
    ]
    return join_html([_top(view), tag("main", *made, id="main")])


def _outcome(view: View) -> str:
    if view.summary is None:
        return "INCOMPLETE" + (" (running)" if view.state == "running" else "")
    return sentences.verdict_words(view.summary)


def _top(view: View) -> Html:
    summary = view.summary
    if summary is None:
        kind, why = "incomplete", "The run did not end, so there is no verdict."
        told: list[tuple[str, str | None]] = [("run", view.graph.run_id)]
    else:
        kind = "approval" if summary.exit_code == POLICY_CHANGED else summary.outcome
        kind = "nothing" if summary.extent == "nothing" else kind
        why = sentences.deciding_reason(summary, sentence=True) or (
            "Nothing to review." if not summary.run_id else ""
        )
        why = why[:1].upper() + why[1:] if summary.outcome == "pass" else why
        change = summary.change
        size = f"{counted(len(change.files), 'file')}, +{change.added} −{change.deleted} lines"
        told = [
            ("change", join_html([tag("code", sentences.short_change_id(summary)), f" · {size}"])),
            ("effect", queries.change_description(summary)),
            ("gate", sentences.gate_words(summary)),
            ("cost", sentences.cost_words(summary)),
            ("time", stage_figures.format_seconds(summary.duration_ms / 1000)),
        ]
    return tag(
        "header",
        tag("p", _outcome(view), class_=f"outcome {kind}"),
        tag("h1", why),
        render_facts(told),
        tag("div", id="tools"),
        class_="top",
    )


def _verdict(view: View) -> Iterator[Html]:
    summary = view.summary
    yield from glance.render_rounds(view)
    yield tag("h2", "Findings")
    if summary is None:
        yield tag("p", "None is shown until the run ends.", class_="none")
        return
    numbers = {id(summary.findings[number]): number for number in findings_on_page(summary)}
    ranked = queries.worst_first([one for one in summary.findings if id(one) in numbers], summary)
    news = glance.find_news(view)
    for finding in ranked:
        yield _finding(
            finding, numbers[id(finding)], view, summary, news.get(finding_identity(finding), "")
        )
    if more := len(summary.findings) - len(ranked):
        yield tag(
            "p", f"And {more:,} more, no graver than these; the bundle has them.", class_="none"
        )
    if not ranked:
        yield tag("p", "No findings.", class_="none")
    yield from glance.render_file_bars(summary)
    yield tag("h2", "Criteria")
    yield from glance.render_vote_rows(summary)
    yield from (part for rubric in summary.rubrics for part in _rubric(rubric, view))
    if not summary.rubrics:
        yield tag("p", "No rubric applied.", class_="none")
    yield from _unreviewed(summary)
    if summary.policy_changes:
        yield tag("h2", "Changes to the gate")
        yield from (_policy(change, summary) for change in summary.policy_changes)
    if view.annotations:
        yield tag("h2", "Notes added to the bundle")
        yield tag(
            "ul", *(tag("li", tag("b", note.type), " ", note.message) for note in view.annotations)
        )


def _finding(finding: Finding, number: int, view: View, summary: Summary, news: str) -> Html:
    """`news`: "new" or "back" in this round, or ""."""
    place = _place(finding, before=queries.is_removed(finding), class_="place")
    badges = [tag("span", news, class_="badge") if news else None, " ", _basis(finding, summary)]
    parts = [
        tag("h3", tag("span", finding.level, class_="level"), " ", place, " ", *badges),
        tag(
            "p",
            sentences.finding_sentence(finding)
            if queries.waiver_sentence(finding)
            else finding.message,
            class_="said",
        ),
        *(text_block(quoted.quote, class_="quote") for quoted in finding.evidence if quoted.quote),
        _against(queries.counterexample_of(finding, summary)),
        _proof(finding.proof),
        _second_look(finding.second_look, view),
        tag("p", *_sources(finding, view, summary), class_="from"),
        _written_by(finding, view.authors),
        _next_step(finding),
    ]
    name = f"finding {finding.level}" + (" waived" if queries.waiver_sentence(finding) else "")
    return tag("article", *parts, class_=name, id=finding_element_id(number))


def _next_step(finding: Finding) -> Html | None:
    """What its reader can do: the command that tells more names the others."""
    if not finding.fingerprint or queries.waiver_sentence(finding):
        return None
    fingerprint = finding.fingerprint[: sentences.SHORT_FINGERPRINT]
    commands = f"vibe-gate explain {fingerprint}"
    return tag(
        "p",
        "Next: fix it, or see how to label, dispute or accept it: ",
        tag("code", commands),
        class_="from",
    )


def _place(
    of: Finding | Unreviewed | CheckedEvidence, *, before: bool = False, **attributes: str
) -> Html:
    """Its place, which leads to the lines."""
    if not of.path:
        return tag("span", sentences.place_words_of(of), **attributes)
    line = f"{'-' if before else ''}{of.line}" if of.line else ""
    return tag("a", sentences.place_words_of(of), href=file_link(of.path, line), **attributes)


def _against(counterexample: str | None) -> Html | None:
    return tag("p", "For example: ", counterexample, class_="against") if counterexample else None


def _basis(finding: Finding, summary: Summary) -> Html | None:
    known = queries.finding_basis(finding, summary)
    return tag("span", known, class_="badge") if known else None


def _proof(proof: Proof | UnsetType) -> Html | None:
    """What running its test came to, and the test, with the command that repeats it."""
    if proof is UNSET:
        return None
    badge = tag(
        "span",
        proof.status.replace("_", " "),
        class_=f"badge {_PROOFS.get(proof.status, '')}".strip(),
    )
    name = tag("summary", "Test ", tag("code", proof.path))
    repeat = tag("p", "To repeat it: ", tag("code", proof.command))
    test = tag("details", name, text_block(proof.test), repeat) if proof.test else None
    return tag(
        "div", tag("p", badge, " ", proof.reason), _evidence(proof.obligation), test, class_="proof"
    )


_PROOFS = {"proven": "fail", "shown": "abstain", "void": "pass"}
"""The colours of what a test's runs came to."""


def _sources(finding: Finding, view: View, summary: Summary) -> Iterator[str]:
    """Links to the criterion, to each vote that gave this finding, and to the conversation it comes
    from.
    """
    for rubric, criterion in queries.sources_of_finding(finding, summary):
        name = f"{rubric.id}/{criterion.id}"
        yield tag("a", criterion.id, href=place_link("c", name), class_="criterion")
        for number, vote in enumerate(criterion.votes, start=1):
            if queries.has_evidence(vote, finding):
                yield " · "
                yield tag("a", f"vote {number}", href=place_link("c", f"{name}/{number}"))
                if talk := _conversation(vote.turn, view):
                    yield join_html([" · ", talk])
    if finding.fingerprint:
        yield join_html(
            [
                " ",
                tag(
                    "code", finding.fingerprint[: sentences.SHORT_FINGERPRINT], class_="fingerprint"
                ),
            ]
        )


def _written_by(finding: Finding, authors: Authors) -> Html | None:
    """Links to the turns of captured sessions that wrote its lines, and to their prompts.

    Nothing tells who removed a line, so there stand the turns that wrote others of the file.
    """
    is_there = finding.line and not queries.is_removed(finding)
    first = finding.line if is_there else 0
    writers = authors.of(finding.path, first, max(first, finding.end_line))[:MAX_FINDING_WRITERS]
    links = [
        join_html(
            [
                tag("a", _said_name(authors.turns[at]), href=f"#{writer_element_id(at)}"),
                _prompt_link(at, authors),
            ]
        )
        for at in sorted(writers, key=lambda at: bool(claimed_tool(authors.turns[at])))
    ]
    parts = [part for link in links for part in (", ", link)][1:]
    of_file = "" if is_there else "lines of this file "
    what = (
        f"{of_file}written by "
        if any(not claimed_tool(authors.turns[at]) for at in writers)
        else of_file
    )
    return tag("p", what, *parts, class_="from") if links else None


def _prompt_link(at: int, authors: Authors) -> Html | None:
    if not authors.turns[at].prompt:
        return None
    return join_html([" (", tag("a", "prompt", href=f"#{writer_element_id(at)}-prompt"), ")"])


def _conversation(folder: str, view: View) -> Html | None:
    """A link to the conversation that is recorded there."""
    turn = next((turn for turn in view.turns if turn.id == folder), None)
    if turn is None:
        return (
            tag("span", f"asked in an earlier run: {folder}", class_="earlier") if folder else None
        )
    target = place_link("e", turn.id + (f"/{turn.answer}" if turn.answer else ""))
    recorded = view.summary is not None and view.summary.cost.basis == "none"
    paid = "" if turn.usd is None or recorded else f" ({format_dollars(turn.usd)})"
    return tag("a", f"conversation{paid}", href=target)


def _rubric(rubric: RubricResult, view: View) -> Iterator[Html]:
    score = f"score {rubric.score:.2f}, " if queries.has_score(rubric) else ""
    decided = f"{score}{rubric.coverage:.0%} of the weight decided"
    figures = (
        "skipped"
        if not queries.rubric_applies(rubric)
        else decided
        if rubric.coverage
        else "nothing decided"
    )
    yield tag(
        "h3",
        rubric.id,
        " ",
        tag("span", rubric.outcome, class_=f"badge {rubric.outcome}"),
        " ",
        figures,
    )
    worst = sorted(rubric.criteria, key=lambda one: one.outcome in ("pass", "not_applicable"))
    shown = rubric.criteria if len(worst) <= MAX_ROWS else worst[:MAX_ROWS]
    yield render_html_table(
        ("Outcome", "Criterion", "Why"),
        (_criterion(one, rubric, view) for one in shown),
        class_="criteria",
    )
    if more := len(worst) - len(shown):
        yield tag("p", f"And {more:,} more; the bundle has them.", class_="none")


def _criterion(criterion: CriterionResult, rubric: RubricResult, view: View) -> Html:
    outcome = criterion.outcome.replace("not_applicable", "n/a")
    name = f"{rubric.id}/{criterion.id}"
    alone = "would block alone" if criterion.is_advice else "blocks alone"
    blocking = alone if criterion.must else f"weight {criterion.weight:g}"
    by = {
        "check": "check",
        "cache": "judge, answered in an earlier run",
        "none": f"{criterion.kind}, no answer",
    }
    about = f"{by.get(criterion.decided_by, f'judge, {criterion.decided_by}')} · {blocking}"
    if known := sentences.criterion_badge(criterion):
        about += f" · {known}"
    if criterion.would_block is True:
        outcome = "would have blocked"
    if queries.is_unsteady(criterion):
        outcome = f"unsteady: {outcome}"
    votes = [_vote(vote, number, view) for number, vote in enumerate(criterion.votes, start=1)]
    asked = view.about.get("questions")
    question = text_of(asked, name) if isinstance(asked, dict) else ""
    why = sentences.criterion_reason(
        rubric.id, criterion, view.summary.findings if view.summary else ()
    )
    folded = (
        tag("details", tag("summary", "Question"), tag("p", question, class_="question"))
        if question
        else None
    )
    told = [tag("p", why) if why else None, folded]
    if votes:
        fold = [tag("summary", _tally(criterion.votes)), tag("ol", *votes)]
        told.append(tag("details", *fold, class_="votes", data_c=name))
    badge = tag("span", outcome, class_=f"badge {criterion.outcome}")
    cells = (badge, join_html([tag("code", criterion.id), tag("small", about)]), join_html(told))
    return table_row(cells, class_=criterion.outcome, data_c=name)


def _tally(votes: Sequence[Vote]) -> str:
    """How many votes said what, and how many answered fail without evidence that holds."""
    each = ", ".join(
        f"{number} {outcome}" for outcome, number in Counter(vote.outcome for vote in votes).items()
    )
    void = sum(vote.said == "fail" and vote.outcome != "fail" for vote in votes)
    passing = sum(vote.proof is not UNSET and vote.proof.status == "void" for vote in votes)
    why = [f"{void - passing} answered fail without evidence"] if void > passing else []
    why += [f"{passing} answered fail, and its own test passes"] if passing else []
    return f"{counted(len(votes), 'vote')}: {each}" + (f" ({'; '.join(why)})" if why else "")


def _vote(vote: Vote, number: int, view: View) -> Html:
    changed = f", answered {vote.said}" if vote.said and vote.said != vote.outcome else ""
    model = f", by {vote.model}" if vote.model else ""
    talk = _conversation(vote.turn, view)
    parts = [
        tag(
            "p",
            tag("span", vote.outcome, class_=f"badge {vote.outcome}"),
            changed,
            model,
            " ",
            talk,
        ),
        tag("p", vote.reason),
        _against(vote.counterexample),
        _evidence(vote.evidence),
        _proof(vote.proof),
        _second_look(vote.second_look, view),
    ]
    return tag("li", *parts, class_=f"vote {vote.outcome}", data_vote=number)


def _evidence(lines: Sequence[CheckedEvidence]) -> Html | None:
    quoted = [
        tag(
            "li",
            tag("span", each.standing, class_=f"standing {each.standing}"),
            " ",
            _place(each, before=each.side == "before"),
            f" {each.why}" if each.why else None,
            text_block(each.quote, class_="quote"),
        )
        for each in lines
    ]
    return tag("ul", *quoted, class_="evidence") if quoted else None


_LOOKS = {"refuted": "pass", "stands": "fail", "undecided": "abstain"}
"""The colours of what a second look came to."""


def _second_look(look: SecondLook | UnsetType, view: View) -> Html | None:
    """What a second look came to, with the lines that prevent it and a link to its conversation."""
    if look is UNSET:
        return None
    came_to = "no answer" if look.said is None else look.outcome
    badge = tag("span", f"second look: {came_to}", class_=f"badge {_LOOKS[look.outcome]}")
    told = tag("p", badge, " ", look.reason, " ", _conversation(look.turn, view))
    return tag("div", told, _evidence(look.evidence), class_="second-look")


def _unreviewed(summary: Summary) -> Iterator[Html]:
    yield tag("h2", "Not judged")
    places = queries.missed_places(summary)
    if not places:
        seen = "Every changed line was shown to a judge."
        yield tag(
            "p",
            seen if queries.asks_judges(summary) else "No criterion asks a judge.",
            class_="none",
        )
        return
    items = []
    for each in places[:MAX_UNREVIEWED]:
        by = f" (by {', '.join(each.rubrics)}; other rubrics did)" if each.rubrics else None
        items.append(tag("li", _place(each), f": {each.reason}", by))
    yield tag("ul", *items, and_more(len(places) - len(items), "li"), class_="unreviewed")


def _policy(change: PolicyChange, summary: Summary) -> Html:
    does = sentences.policy_meaning(change, summary)
    head = tag(
        "summary", tag("code", change.path), f" {change.change_type.replace('_', ' ')}: {does}"
    )
    return tag("details", head, text_block(change.diff, class_="diff"), class_="policy")


def _changes(view: View) -> Iterator[Html]:
    yield tag("h2", "Changed files")
    if not view.files:
        yield tag(
            "p", "No file changed." if view.summary else "Shown when the run ends.", class_="none"
        )
        return
    yield render_html_table(
        ("File", "Added", "Deleted", "Change"),
        map(_file, view.files),
        class_="files",
    )


def _file(file: FileView) -> Html:
    name = f"{file.old_path} → {file.path}" if file.old_path else file.path
    kind = file.type.replace("_", " ") + (", binary" if file.binary else "")
    cells = (tag("a", name, href=file_link(file.path)), f"+{file.added}", f"−{file.deleted}", kind)
    return table_row(cells, id=f"f={file.path}")


def _activity(view: View) -> Iterator[Html]:
    yield tag("h2", "Turns of agents and judges")
    if not view.turns:
        alone = "This page holds the verdict alone; the bundle has the rest."
        why = "No agent and no judge was asked." if view.graph.run_id else alone
        yield tag("p", why, class_="none")
        return
    cost = (
        "Cost when recorded" if view.summary and queries.is_from_recording(view.summary) else "Cost"
    )
    heads = ("Turn", "Agent", "Model", "Ended", "Tool calls", "Tokens in", "Tokens out", cost)
    yield render_html_table(heads, map(_turn, view.turns), class_="turns")


def _turn(turn: TurnView) -> Html:
    states = Counter(call.state for call in turn.calls if call.state != "completed")
    ends = ", ".join(f"{number} {state}" for state, number in states.items())
    name = tag("a", turn.id.removeprefix("nodes/"), href=place_link("e", turn.id))
    calls = f"{len(turn.calls)}" + (f" ({ends})" if ends else "")
    tokens = (f"{turn.input_tokens:,}", f"{turn.output_tokens:,}")
    cells = (
        name,
        turn.agent or turn.kind,
        turn.model,
        turn.status,
        calls,
        *tokens,
        format_dollars(turn.usd),
    )
    return table_row(cells, id=f"e={turn.id}")


def format_dollars(usd: float | None) -> str:
    """A cost."""
    return "not known" if usd is None else stage_figures.format_stage_dollars(usd)


def _cost(view: View) -> Iterator[Html]:
    yield tag("h2", "Cost")
    summary = view.summary
    if summary is None:
        yield tag("p", "Known when the run ends.", class_="none")
        return
    yield tag("p", sentences.cost_words(summary))
    recorded = (
        sum(turn.usd or 0 for turn in view.turns) if queries.is_from_recording(summary) else 0
    )
    if recorded:
        yield tag("p", f"When the answers were recorded they cost {format_dollars(recorded)}.")
    known = stage_figures.collect_stages(view)
    yield from cost_pictures.render_cost_pictures(view, known)
    by_node = summary.cost.by_node
    names = list(dict.fromkeys([*by_node, *(turn.node for turn in view.turns)]))
    shown = [_stage(name, view.turns, by_node) for name in names[:MAX_ROWS]]
    by_model = summary.cost.by_model
    if shown or by_model:
        yield tag("h3", "By stage and model")
    if shown:
        stages_of = render_html_table(
            ("Stage", "Turns", "Tokens in", "Tokens out", "US dollars"), shown, class_="costs"
        )
        is_long = len(shown) > cost_pictures.MOST_ROWS
        first = f" (the first {len(shown):,})" if len(shown) < len(names) else ""
        yield (
            tag("details", tag("summary", f"{len(names):,} stages{first}"), stages_of)
            if is_long
            else stages_of
        )
    if by_model:
        models = [
            table_row((name, format_dollars(usd)))
            for name, usd in islice(by_model.items(), MAX_ROWS)
        ]
        yield render_html_table(("Model", "US dollars"), models, class_="costs")
        if more := len(by_model) - len(models):
            yield tag("p", f"And {more:,} more; the bundle has them.", class_="none")


def _stage(node: str, turns: Sequence[TurnView], usd: Mapping[str, float]) -> Html:
    own = [turn for turn in turns if turn.node == node]
    counts = (
        len(own),
        sum(turn.input_tokens for turn in own),
        sum(turn.output_tokens for turn in own),
    )
    return table_row(
        (
            node,
            *(f"{count:,}" if own else "" for count in counts),
            format_dollars(usd[node]) if node in usd else "",
        )
    )


def _run(view: View) -> Iterator[Html]:
    if view.graph.nodes:
        yield tag("h2", "Graph")
        yield from nodes.render_graph_section(view, stage_figures.collect_stages(view))
    yield tag("h2", "Run")
    yield render_facts(_about(view))
    if view.left_out:
        yield tag(
            "p",
            f"This page leaves out {', '.join(view.left_out)}; the bundle has them.",
            class_="none",
        )


_MEANINGS = {
    ("mode", "auto"): "auto (nobody was asked before a stage)",
    ("mode", "interactive"): "interactive (a person approved each agent before it began)",
    ("isolation", "none"): "none (judges and agents only read an export of the files)",
    ("isolation", "clone"): "clone (agents wrote in a clone of their own)",
    ("isolation", "sandbox"): "sandbox (agents ran behind a wall of the kernel)",
}
"""What words of run.json say."""


def _about(view: View) -> Iterator[tuple[str, str | None]]:
    about, summary = view.about, view.summary
    yield "run", view.graph.run_id
    for name in ("created_at", "workflow", "mode", "isolation", "prompt", "replay_of"):
        value = text_of(about, name)
        yield (
            name.replace("created_at", "started").replace("_", " "),
            _MEANINGS.get((name, value), value),
        )
    if summary is not None:
        change = summary.change
        yield "before", _code(change.base_commit or change.before)
        yield "after", _code(change.head_commit or change.after)
        yield "patch-id", _code(change.patch_id)
        yield "gate", sentences.gate_words(summary)
        signs = sentences.agent_signs(summary.agent_authored.hints) or "no sign of an AI agent"
        yield (
            "written by an agent",
            f"{'yes' if summary.agent_authored.decision else 'no'} ({signs})",
        )
        yield "exit code", str(summary.exit_code)
        yield "bundle", _code(summary.bundle)
    for name in ("budgets", "versions", "definitions"):
        values = about.get(name)
        if isinstance(values, dict):
            yield (
                name,
                ", ".join(f"{key} {value}" for key, value in values.items() if value is not None),
            )


def _authors(authors: Authors) -> Iterator[Html]:
    yield tag("h2", "Turns that wrote changed lines")
    if authors.untold:
        told = "Who wrote the lines is not known: the reviewed files are not in git any more, nor wholly in the bundle."
        yield tag("p", told, class_="none")
        return
    count = sum(lines.end_line - lines.line + 1 for lines in authors.lines)
    told = f"Agents wrote {counted(count, 'added line')}, as captured sessions and records of tools say."
    if authors.withheld:
        told += " This page was made without the prompts; `vibe-gate report` shows them in the clone that has them."
    yield tag("p", told, class_="none")
    by_turn: dict[int, list[WrittenLines]] = {}
    for lines in authors.lines:
        by_turn.setdefault(lines.writer, []).append(lines)
    prompts = list(limit_prompts(authors.turns))
    for at, written in by_turn.items():
        yield _writing_turn(at, authors.turns[at], prompts[at], written)


def writer_element_id(at: int) -> str:
    """The id of the element of the turn with that index among those that wrote lines."""
    return f"w-{at + 1}"


def turn_name(turn: WritingTurn) -> str:
    """What people call a turn."""
    if turn.turn is None:
        return turn.agent
    return (
        f"{turn.agent}, turn {turn.turn}" if turn.turn else f"{turn.agent}, before the first prompt"
    )


def claimed_tool(turn: WritingTurn) -> str:
    """The tool whose record says who wrote the lines; "" for a captured session."""
    return "" if turn.source == "captured" else turn.source


def _said_name(turn: WritingTurn) -> str:
    """The turn's name, as a claim if it is one."""
    return f"{tool} says: {turn_name(turn)}" if (tool := claimed_tool(turn)) else turn_name(turn)


def _writing_turn(at: int, turn: WritingTurn, prompt: str, written: Sequence[WrittenLines]) -> Html:
    own = writer_element_id(at)
    asked = tag("a", turn.asked, href=f"#{own}-prompt") if prompt else turn.asked
    began = f"{turn.at:%Y-%m-%d %H:%M} UTC" if turn.at else ""
    claimed = f"{tool} (a record of that tool)" if (tool := claimed_tool(turn)) else ""
    told = render_facts(
        [("session", turn.session), ("began", began), ("said by", claimed), ("asked", asked)]
    )
    items = [tag("li", _written(lines)) for lines in written[:MAX_WRITTEN]]
    left_out = tag("p", "This page leaves the prompt out; it would be too large.", class_="none")
    about = {"id": f"{own}-prompt", "class_": "prompt", "tabindex": "0", "role": "region"}
    shown = (
        text_block(prompt, **about, aria_label=f"Prompt of {turn_name(turn)}") if prompt else None
    )
    return tag(
        "article",
        tag("h3", _said_name(turn)),
        told,
        shown or (left_out if turn.prompt else None),
        tag("ul", *items, and_more(len(written) - len(items), "li"), class_="written"),
        class_="writer",
        id=own,
    )


def _written(lines: WrittenLines) -> Html:
    shown = sentences.place_words(lines.path, lines.line, lines.end_line)
    place = tag("a", shown, href=file_link(lines.path, str(lines.line)))
    call = " ".join(filter(None, (lines.tool, lines.tool_use_id)))
    return join_html([place, tag("small", f" {call}") if call else None])


def _code(text: str) -> Html | None:
    return tag("code", text) if text else None
