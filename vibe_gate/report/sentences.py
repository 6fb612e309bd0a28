"""The sentences of a verdict, the same on the terminal, in a comment and in a file. Plain text, not
yet escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from vibe_gate.domain.bundles import REPLAY
from vibe_gate.domain.cause import NoKey
from vibe_gate.domain.escape import counted, ended, safe
from vibe_gate.domain.summary import PolicyChange, Summary, Unreviewed
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Finding,
    Proof,
    RubricResult,
    SecondLook,
    TrustBadge,
)
from vibe_gate.errors import FAIL, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.report import queries

SHORT_ID = 12
"""Characters of a commit or tree id that are shown: enough to be unique, and to paste."""

SHORT_RUN = 18
"""Characters of a run id: when it began, to the millisecond."""

SHORT_FINGERPRINT = 8
"""Characters of a finding's fingerprint: enough for `override` and `suppress`."""

MAX_NAMES = 3
"""Criteria that a sentence names; it counts the others."""

MAX_SIGNS = 3
"""Signs of an agent that a line names; it counts the others."""


def verdict_words(summary: Summary) -> str:
    """A few words, the first in capitals: `PASS with 2 warnings`. A confirmed fail that does not
    block is a warning.

    `DONE`: a workflow, or one agent, ended well and has no rubrics.
    """
    if summary.extent == "nothing":
        return "NOTHING REVIEWED" if summary.run_id else "NOTHING TO REVIEW"
    if summary.exit_code == PASS and summary.has_only_agents:
        return "DONE"
    if summary.exit_code == PASS:
        warnings = sum(finding.level == "warning" for finding in summary.findings)
        only = " (checks only)" if summary.extent == "checks" else ""
        return f"PASS{only}" + (f" with {counted(warnings, 'warning')}" if warnings else "")
    if summary.exit_code == FAIL:
        return "FAIL"
    if summary.exit_code == POLICY_CHANGED:
        return "NEEDS APPROVAL"
    if summary.exit_code == INTEGRITY:
        return "INTEGRITY"
    return "NOT REVIEWED (inconclusive)" if summary.outcome == "inconclusive" else "ERROR"


def verdict_headline(summary: Summary) -> str:
    """The verdict line that the terminal, hooks, check runs and files share: the verdict and what
    decided.
    """
    return f"{verdict_words(summary)} · {deciding_reason(summary)}".removesuffix(" · ")


def concise_lines(summary: Summary) -> list[str]:
    """A line for each finding, `path:line: level: message [criterion] [fingerprint]`, and one with
    the verdict.
    """
    lines = []
    for one in queries.worst_first(summary.findings, summary):
        where = f"{one.path or '.'}:{one.line}" if one.line else one.path or "."
        names = f"[{one.criterion}] [{one.fingerprint[:SHORT_FINGERPRINT]}]"
        lines.append(safe(f"{where}: {one.level}: {finding_sentence(one)} {names}"))
    return [*lines, safe(verdict_headline(summary))]


def deciding_reason(summary: Summary, *, sentence: bool = False) -> str:
    """What decided, as a part of a sentence, and what only advised; "" if there is nothing to add.

    `sentence`: as a sentence of its own, below a verdict that names who approved.
    """
    return "; ".join(filter(None, [_decided_by(summary, sentence=sentence), advice_count(summary)]))


def reason_by_rubrics(summary: Summary) -> str:
    """As `deciding_reason` as a sentence, of the rubrics alone: whatever is to be approved."""
    return "; ".join(
        filter(None, [_decided_by_rubrics(summary, sentence=True), advice_count(summary)])
    )


def _decided_by(summary: Summary, *, sentence: bool) -> str:
    if summary.exit_code == POLICY_CHANGED:
        if summary.trusted.bootstrap and all(
            change.level == "warn" for change in summary.policy_changes
        ):
            return f"{gate_words(summary)}; its own outcome: {summary.outcome}"
        return f"this change edits {edited_gate_files(summary)}, which controls the gate; everything else: {summary.outcome}"
    if summary.exit_code == INTEGRITY:
        return "the files changed during the review"
    return _decided_by_rubrics(summary, sentence=sentence)


def _decided_by_rubrics(summary: Summary, *, sentence: bool) -> str:
    decisive = [rubric for rubric in summary.rubrics if rubric.outcome == summary.outcome]
    if not decisive and summary.has_only_agents:  # its stages say what was done
        return "no rubric judged it" if summary.outcome == "pass" else ""
    if not decisive:
        return {"pass": "no rubric of the gate is for these files", "fail": "a finding blocks"}.get(
            summary.outcome, ""
        )
    if summary.outcome == "pass":
        if left := summary.unasked:
            return f"{counted(len(left), 'question')} {left[0].reason}"
        places = len(queries.missed_places(summary))
        skipped = f"; {counted(places, 'place')} not judged" if places else ""
        if left_open := [one for rubric in decisive for one in queries.undecided_criteria(rubric)]:
            skipped = f"; undecided: {_names(left_open)}{skipped}"
        passed = [rubric.id for rubric in decisive if queries.rubric_applies(rubric)]
        names = join_words(passed) or _none_applies(summary)
        if sentence and passed:
            plural = "s" if len(passed) > 1 else ""
            names = (
                f"passed the rubric{plural} {names} ({counted(len(summary.change.files), 'file')})"
            )
        above = [] if sentence else [passed_by_words(summary), refuted_words(summary)]
        return "; ".join(filter(None, [*above, names])) + skipped
    causes = "; ".join(
        f"{rubric.id}: {_cause(rubric, summary.findings, reason=sentence)}" for rubric in decisive
    )
    return queries.reason_in_words(queries.shared_error(summary)) or (
        f"rubric {causes}" if sentence else causes
    )


def advice_count(summary: Summary) -> str:
    """How many criteria would have blocked, and which, had their judges earned to block; "" if
    none.
    """
    found = queries.advisory_fails(summary)
    names = [f"{one.id} ({advice_cause(one)})" for one in found[:MAX_NAMES]]
    more = f" and {len(found) - MAX_NAMES} more" if len(found) > MAX_NAMES else ""
    number = counted(len(found), "criterion", "criteria")
    return f"{number} would have blocked: {', '.join(names)}{more}" if found else ""


def advice_cause(criterion: CriterionResult) -> str:
    """Why the criterion only advises, in a word or two: "uncalibrated", "stale", "not earned"."""
    state = criterion.trust.state if criterion.trust is not UNSET else ""
    return state if state in ("uncalibrated", "stale") else "not earned"


KEY_ADVICE = (
    "No API key: {questions} skipped. Set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or "
    "CLAUDE_CODE_OAUTH_TOKEN (or ANTHROPIC_BASE_URL for a local model), or use --no-judge."
)


def missing_key_note(summary: Summary) -> tuple[str, ...]:
    """A note that a key is missing, if the gate demands answers that need one."""
    questions = [criterion for criterion in summary.criteria if isinstance(criterion.cause, NoKey)]
    demanded = [criterion for criterion in questions if criterion.outcome == "abstain"]
    return (
        (KEY_ADVICE.format(questions=counted(len(demanded), "judge question")),) if demanded else ()
    )


def criterion_badge(criterion: CriterionResult, *, short: bool = False) -> str:
    """What is known of the criterion's judge; "" if nothing is said. `short`: without the figures
    at 95 %.
    """
    trust = criterion.trust
    if trust is UNSET:
        return ""
    figures = [
        f"at most {trust.at_most:.1%} of clean changes blocked"
        if trust.at_most is not UNSET
        else ""
    ]
    if trust.recall is not UNSET:
        figures.append(f"{trust.recall.low:.0%} to {trust.recall.high:.0%} found")
    at_95 = ", ".join(filter(None, figures))
    parts = [trust.sentence, f" (at 95%: {at_95})" if at_95 and not short else ""]
    return "".join(parts) + ("" if trust.blocks else f"; {advice_sentence(trust)}")


def advice_sentence(trust: TrustBadge) -> str:
    """That the fail of a judge only advises, and until when."""
    more = max(1, trust.needed - trust.clean) if trust.needed is not UNSET else 0
    until = (
        f" until {counted(more, 'more clean change')} {'is' if more == 1 else 'are'} labelled"
        if more
        else ""
    )
    return f"only advises{until}"


def join_words(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def agent_signs(hints: Sequence[str]) -> str:
    """The signs of an agent as one line: the first of them, and how many more."""
    line = "; ".join(hints[:MAX_SIGNS])
    rest = len(hints) - MAX_SIGNS
    return f"{line}; and {rest:,} more" if rest > 0 else line


def edited_gate_files(summary: Summary) -> str:
    """The files that control the gate: the first, and how many more."""
    paths = [change.path for change in summary.policy_changes if change.level == "block"]
    return (
        (paths[0] + (f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""))
        if paths
        else ".vibe-gate"
    )


def _cause(rubric: RubricResult, findings: Sequence[Finding], *, reason: bool) -> str:
    """The criteria that decide the outcome; with the `reason` of the first if it has no findings
    that say it.
    """
    wanted = {"fail": "fail", "inconclusive": "abstain", "error": "error"}[rubric.outcome]
    verb = {"fail": "failed", "abstain": "undecided", "error": "could not be decided"}[wanted]
    decisive = [one for one in rubric.criteria if one.outcome == wanted]
    found = [one for one in decisive if not queries.is_waived(rubric.id, one.id, findings)]
    if musts := [one for one in found if one.must]:
        named = f"{_names(musts)} {verb} (must)"
        return named if wanted == "fail" or not reason else _with_reason(named, musts)
    if silent := [one for one in found if one.unanswered]:
        named = f"{_names(silent)} {verb}"
        return _with_reason(named, silent) if reason else named
    if rubric.outcome == "fail":
        threshold = f" of {rubric.pass_threshold:.2f}" if rubric.pass_threshold is not None else ""
        decided = sum(
            one.weight for one in rubric.criteria if one.outcome == "pass" or one in found
        )
        cost = (
            f": {_names(found)} failed (weight {sum(one.weight for one in found):g} of {decided:g})"
            if found
            else ""
        )
        return f"score {rubric.score:.2f} is under the threshold{threshold}{cost}"
    left = queries.undecided_criteria(rubric)
    named = (
        f"only {rubric.coverage:.0%} could be decided"
        if rubric.coverage
        else "nothing could be decided"
    )
    return _with_reason(f"{named}, {_names(left)} undecided", left) if reason and left else named


def _names(criteria: Sequence[CriterionResult]) -> str:
    more = f" and {len(criteria) - MAX_NAMES} more" if len(criteria) > MAX_NAMES else ""
    return ", ".join(one.id for one in criteria[:MAX_NAMES]) + more


def _with_reason(named: str, criteria: Sequence[CriterionResult]) -> str:
    """What is undecided, with why the first of it is."""
    first = criteria[0]
    why = queries.reason_in_words(first.reason)
    return f"{named}{f'; {first.id}' if len(criteria) > 1 else ''}: {why}" if why else named


def _none_applies(summary: Summary) -> str:
    asked = any(one.votes for one in summary.criteria)
    return f"no criterion applies to this change{', says the judge' if asked else ''}"


def gate_words(summary: Summary) -> str:
    """Which definitions were used."""
    if not summary.run_id:
        return "not read (nothing to review)"
    if summary.trusted.bootstrap:
        branch = summary.trusted.branch
        if summary.trusted.absence == "broken":
            return f"this branch's .vibe-gate/ (that of {branch or 'the base'} does not parse; repair it there)"
        if summary.trusted.absence == "removed":
            return f"this branch's .vibe-gate/ ({branch or 'the base'} has none any more; restore it there)"
        if branch:
            return f"this branch's .vibe-gate/ (not on {branch} yet; merge it to make it binding)"
        return "this change's .vibe-gate/ (the first one; later changes are bound by it)"
    if not summary.trusted.revision:
        return "built-in (no .vibe-gate/ before this change)"
    return f".vibe-gate at {summary.trusted.revision[:SHORT_ID]}"


def short_change_id(summary: Summary) -> str:
    """The change by a short id."""
    if summary.key.startswith(REPLAY):
        return f"replay of {summary.key.removeprefix(REPLAY)[:SHORT_RUN]}"
    length = SHORT_ID + (len("tree-") if summary.key.startswith("tree-") else 0)
    return summary.key[:length]


def program_outcome(summary: Summary) -> str:
    """The verdict for programs: the outcome, "needs-approval" of a change of the gate, or "nothing"
    to review.
    """
    if not summary.run_id:
        return "nothing"
    return "needs-approval" if summary.exit_code == POLICY_CHANGED else summary.outcome


def price_words(summary: Summary) -> str:
    """What the models cost, in US dollars, and how certain that is."""
    if summary.cost.basis == "none":
        if queries.is_from_recording(summary):
            return "none: the model's answers come from a recording"
        asked = any(vote.turn for vote in queries.asked_votes(summary))
        return "none: no model answered" if asked else "none: no model was asked"
    return f"${summary.cost.usd:.4f}" + (
        " at most (a model without a listed price is counted at the highest price)"
        if summary.cost.basis == "unknown"
        else ""
    )


def cost_words(summary: Summary) -> str:
    """The price, the tokens, and what earlier verdicts answered."""
    hits = summary.cache.hits
    cached = f" · {counted(hits, 'answer')} from earlier verdicts" if hits else ""
    spent = summary.cost
    if spent.basis == "none":
        return price_words(summary) + cached
    read = (
        f" ({spent.cache_read_tokens:,} from the prompt cache)" if spent.cache_read_tokens else ""
    )
    return f"{price_words(summary)} · {spent.input_tokens:,} tokens in{read}, {spent.output_tokens:,} out{cached}"


def passed_by_words(summary: Summary) -> str:
    """Whose word let it pass, and what, in a few words: an approved change of the gate, overridden
    findings; or "".
    """
    accounts = queries.overriding_accounts(summary)
    approver = queries.gate_approver(summary)
    parts = []
    if approver:
        parts.append(f"gate change approved by {approver}")
    if accounts:
        names = join_words(list(dict.fromkeys(accounts)))
        parts.append(f"{counted(len(accounts), 'finding')} overridden by {names}")
    return "; ".join(parts)


def proof_sentence(of: Proof) -> str:
    """What running a finding's test came to."""
    word = {"proven": "Proven: ", "shown": "Shown: "}.get(of.status, "")
    return f"{word}{of.reason[:1].lower()}{of.reason[1:]}" if word else of.reason


def refuted_words(summary: Summary) -> str:
    """How many findings a second look refuted, in a few words; "" if none."""
    number = sum(finding.is_refuted for finding in summary.findings)
    return f"{number:,} raised and refuted" if number else ""


def second_look_sentence(look: SecondLook) -> str:
    """What a second look came to, and why."""
    how = "no answer" if look.said is None else look.outcome
    return f"Second look: {how}. {look.reason}".strip()


def policy_meaning(change: PolicyChange, summary: Summary) -> str:
    """What a change of the gate, or of what steers agents, asks of people."""
    if change.level == "warn":
        return "read this change yourself"
    approver = queries.gate_approver(summary)
    if approver:
        return f"approved by {approver}"
    return "let pass" if summary.policy_let_pass else "needs approval"


def place_words(path: str, line: int, end_line: int = 0) -> str:
    """`path:line-end`, as far as there is a line; "the change" without a path."""
    if not path:
        return "the change"
    lines = f"{line}-{end_line}" if end_line > line else str(line)
    return f"{path}:{lines}" if line else path


def place_words_of(shown: Finding | Unreviewed | CheckedEvidence) -> str:
    """The place of what has one."""
    return place_words(shown.path, shown.line, shown.end_line)


def located_message(finding: Finding) -> str:
    """What the finding says, with its place first if that is not there any more: other programs
    show no such line.
    """
    removed = f"(removed: {place_words_of(finding)}) " if queries.is_removed(finding) else ""
    return safe(removed + finding_sentence(finding)) or "(no message)"


def finding_sentence(finding: Finding) -> str:
    """What the finding says; if somebody accepted it, or a second look refuted it, that is a
    sentence of its own.
    """
    waived, look = queries.waiver_sentence(finding), finding.second_look
    if look is UNSET or look.outcome != "refuted" or waived:
        return _accepted(finding.message, waived)
    return f"Raised: {ended(finding.message)} Refuted: {ended(look.reason)}"


def criterion_reason(rubric: str, criterion: CriterionResult, findings: Sequence[Finding]) -> str:
    """Why the criterion of the rubric came out so; if somebody accepted its findings, with the
    waiver as `said`.

    Only the findings tell whether somebody did: a judge can begin its reason with the same words.
    """
    is_accepted = criterion.outcome == "fail" and queries.is_waived(rubric, criterion.id, findings)
    waived = queries.waiver_sentences(rubric, criterion.id, findings) if is_accepted else ""
    return _accepted(criterion.reason, waived)


def _accepted(text: str, waived: str) -> str:
    """`waived` is what the text begins with; of several waivers in any order, so its length says
    where they end.
    """
    said = text[len(waived) :].removeprefix(" | ") or text
    return f"{ended(said)} Accepted: {ended(waived)}" if waived else text


def finding_line(finding: Finding) -> str:
    """Level, place and message."""
    return f"{finding.level} {place_words_of(finding)} {finding_sentence(finding)}"
