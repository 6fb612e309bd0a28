"""The sentences of a verdict, the same on the terminal, in a comment and in a file. Plain text, not
yet escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET

from vibe_gate.domain.bundles import REPLAY
from vibe_gate.domain.cause import CannotAsk, NoKey, NoSdk
from vibe_gate.domain.escape import counted, end_sentence, list_names, safe
from vibe_gate.domain.session_record import TestsRecord
from vibe_gate.domain.summary import PolicyChange, Summary, Trusted, Unreviewed
from vibe_gate.domain.verdict import (
    SHORT_FINGERPRINT,
    CheckedEvidence,
    CriterionResult,
    Dispute,
    Finding,
    FindingPlace,
    Proof,
    RubricResult,
    SecondLook,
    TrustBadge,
    short,
)
from vibe_gate.errors import FAIL, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.report import finding_places, queries

RECORDS_SESSIONS = "`vibe-gate install claude|gemini|codex` records them."
"""What to do where no session of another program is captured; the end of a sentence."""

UNCAPTURED = f"No captured session is here, so no line is told to be an agent's: {RECORDS_SESSIONS}"
"""Why no line has an agent."""

SHORT_ID = 12
"""Characters of a commit or tree id that are shown: enough to be unique, and to paste."""

SHORT_RUN = 18
"""Characters of a run id: when it began, to the millisecond."""

MAX_COUNTEREXAMPLE = 500
"""Characters of a counterexample beside a finding; the page of a run has all of it."""

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
        if summary.run_id:
            return "NOTHING REVIEWED"
        return "NOTHING TO REVIEW"
    if summary.exit_code == PASS and summary.has_only_agents:
        return "DONE"
    if summary.exit_code == PASS:
        return _pass_words(summary)
    if summary.exit_code == FAIL:
        return "FAIL"
    if summary.exit_code == POLICY_CHANGED:
        return "NEEDS APPROVAL"
    if summary.exit_code == INTEGRITY:
        return "INTEGRITY"
    if summary.outcome == "inconclusive":
        return "NOT REVIEWED (inconclusive)"
    return "ERROR"


def _pass_words(summary: Summary) -> str:
    words = "PASS"
    if summary.extent == "checks":
        words += " (checks only)"
    warnings = sum(finding.level == "warning" for finding in summary.findings)
    if warnings:
        words += f" with {counted(warnings, 'warning')}"
    return words


def verdict_headline(summary: Summary) -> str:
    """The verdict line that the terminal, hooks, check runs and files share: the verdict and what
    decided.
    """
    return f"{verdict_words(summary)} · {deciding_reason(summary)}".removesuffix(" · ")


def concise_lines(summary: Summary) -> list[str]:
    """A line for each finding, `path:line: level: message [criterion] [fingerprint]`, at its first
    place, with the others behind the message; and a line with the verdict.
    """
    findings = queries.worst_first(summary.findings, summary)
    return [*map(concise_line, findings), safe(verdict_headline(summary))]


def concise_line(finding: Finding) -> str:
    """A finding as a line: `path:line: level: message [criterion] [fingerprint]`."""
    return _line_at(place_words(finding.path or ".", finding.line), finding)


def placed_line(finding: Finding) -> str:
    """The same; of a finding about no file with "the change" in the place's stead."""
    return _line_at(place_words(finding.path, finding.line), finding)


def _line_at(place: str, finding: Finding) -> str:
    names = f"[{finding.criterion}] [{finding.fingerprint[:SHORT_FINGERPRINT]}]"
    removed = ""
    if finding_places.is_removed(finding):
        removed = "(removed) "
    return safe(f"{place}: {finding.level}: {removed}{placed_sentence(finding)} {names}")


def deciding_reason(summary: Summary, *, sentence: bool = False) -> str:
    """What decided, as a part of a sentence, and what only advised; "" if there is nothing to add.

    `sentence`: as a sentence of its own, below a verdict that names who approved.
    """
    decision = _decided_by(summary, sentence=sentence)
    return "; ".join(filter(None, [decision, advice_count(summary)]))


def reason_by_rubrics(summary: Summary) -> str:
    """As `deciding_reason` as a sentence, of the rubrics alone: whatever is to be approved."""
    decision = _decided_by_rubrics(summary, sentence=True)
    return "; ".join(filter(None, [decision, advice_count(summary)]))


def _decided_by(summary: Summary, *, sentence: bool) -> str:
    if summary.exit_code == POLICY_CHANGED:
        return _decided_by_policy(summary)
    if summary.exit_code == INTEGRITY:
        return "the files changed during the review"
    return _decided_by_rubrics(summary, sentence=sentence)


def _decided_by_policy(summary: Summary) -> str:
    levels = {change.level for change in summary.policy_changes}
    if summary.trusted.bootstrap and levels <= {"warn"}:
        return f"{gate_words(summary)}; its own outcome: {summary.outcome}"
    return (
        f"this change edits {edited_gate_files(summary)}, which controls the gate; "
        f"everything else: {summary.outcome}"
    )


def _decided_by_rubrics(summary: Summary, *, sentence: bool) -> str:
    decisive = [rubric for rubric in summary.rubrics if rubric.outcome == summary.outcome]
    if not decisive:
        return _decided_without_rubrics(summary)
    if summary.outcome == "pass":
        return _why_passed(summary, decisive, sentence=sentence)
    error = queries.reason_in_words(queries.shared_error(summary))
    if error:
        return error
    causes = []
    for rubric in decisive:
        causes.append(f"{rubric.id}: {_cause(rubric, summary.findings, reason=sentence)}")
    text = "; ".join(causes)
    if sentence:
        return f"rubric {text}"
    return text


def _decided_without_rubrics(summary: Summary) -> str:
    if summary.has_only_agents:  # its stages say what was done
        if summary.outcome == "pass":
            return "no rubric judged it"
        return ""
    if summary.outcome == "pass":
        return "no rubric of the gate is for these files"
    if summary.outcome == "fail":
        return "a finding blocks"
    return ""


def _why_passed(summary: Summary, rubrics: Sequence[RubricResult], *, sentence: bool) -> str:
    """The rubrics that passed, and what they left undecided."""
    unasked = summary.unasked
    if unasked:
        return f"{counted(len(unasked), 'question')} {unasked[0].reason}"
    passed = []
    for rubric in rubrics:
        if queries.rubric_applies(rubric):
            passed.append(rubric.id)
    names = join_words(passed) or _none_applies(summary)
    if not sentence:
        parts = [passed_by_words(summary), refuted_words(summary), names]
        return "; ".join(filter(None, parts)) + _left_undecided(summary, rubrics)
    if passed:
        noun = "rubrics"
        if len(passed) == 1:
            noun = "rubric"
        files = counted(len(summary.change.files), "file")
        names = f"passed the {noun} {names} ({files})"
    return names + _left_undecided(summary, rubrics)


def _left_undecided(summary: Summary, rubrics: Sequence[RubricResult]) -> str:
    """What the rubrics that passed left undecided, as the end of a sentence."""
    undecided: list[CriterionResult] = []
    for rubric in rubrics:
        undecided += queries.undecided_criteria(rubric)
    text = ""
    if undecided:
        text = f"; undecided: {_names(undecided)}"
    places = len(queries.missed_places(summary))
    if places:
        text += f"; {counted(places, 'place')} not judged"
    return text


def advice_count(summary: Summary) -> str:
    """How many criteria would have blocked, and which, had their judges earned to block; "" if
    none.
    """
    criteria = queries.advisory_fails(summary)
    if not criteria:
        return ""
    number = counted(len(criteria), "criterion", "criteria")
    names = []
    for criterion in criteria[:MAX_NAMES]:
        names.append(f"{criterion.id} ({advice_cause(criterion)})")
    text = f"{number} would have blocked: {', '.join(names)}"
    if len(criteria) > MAX_NAMES:
        text += f" and {len(criteria) - MAX_NAMES} more"
    return text


def advice_cause(criterion: CriterionResult) -> str:
    """Why the criterion only advises, in a word or two: "uncalibrated", "stale", "not earned"."""
    if criterion.trust is UNSET:
        return "not earned"
    if criterion.trust.state in ("uncalibrated", "stale"):
        return criterion.trust.state
    return "not earned"


UNASKED_WITH_THIS_GATE = (
    "with this gate a review ends as NOT REVIEWED, exit code 3, because its questions are not asked"
)
"""What follows if no judge can be asked, and the gate demands answers."""


KEY_ADVICE = (
    "No API key: {questions} skipped. Set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or "
    "CLAUDE_CODE_OAUTH_TOKEN (or ANTHROPIC_BASE_URL for a local model), or use --no-judge."
)


SDK_ADVICE = (
    "claude-agent-sdk is not installed: {questions} skipped. Run `pip install vibe-gate`, which brings it, "
    "or use --no-judge."
)


KEY_AND_SDK_ADVICE = (
    "No API key and no claude-agent-sdk: {questions} skipped. Run `pip install vibe-gate`, which "
    "brings it, and set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN (or ANTHROPIC_BASE_URL "
    "for a local model), or use --no-judge."
)


def way_to_ask(cause: CannotAsk) -> str:
    """What lets a judge be asked on this machine, as an imperative."""
    match cause:
        case NoSdk():
            return "run `pip install vibe-gate`"
        case NoKey(is_sdk_missing=True):
            return "run `pip install vibe-gate`, set ANTHROPIC_API_KEY"
    return "set ANTHROPIC_API_KEY"


def _advice_to_ask(cause: CannotAsk) -> str:
    """The note about skipped questions, with a place for their number."""
    match cause:
        case NoSdk():
            return SDK_ADVICE
        case NoKey(is_sdk_missing=True):
            return KEY_AND_SDK_ADVICE
    return KEY_ADVICE


def missing_key_note(summary: Summary) -> tuple[str, ...]:
    """A note that a key, or the SDK, is missing, if the gate demands answers that need it."""
    demanded = 0
    advice = KEY_ADVICE
    for criterion in summary.criteria:
        if isinstance(criterion.cause, CannotAsk) and criterion.outcome == "abstain":
            demanded += 1
            advice = _advice_to_ask(criterion.cause)
    if not demanded:
        return ()
    return (advice.format(questions=counted(demanded, "judge question")),)


def criterion_badge(criterion: CriterionResult, *, short: bool = False) -> str:
    """What is known of the criterion's judge; "" if nothing is said. `short`: without the figures
    at 95 %.
    """
    trust = criterion.trust
    if trust is UNSET:
        return ""
    text = trust.sentence
    figures = _figures_at_95(trust)
    if figures and not short:
        text += f" (at 95%: {figures})"
    if not trust.blocks:
        text += f"; {advice_sentence(trust)}"
    return text


def _figures_at_95(trust: TrustBadge) -> str:
    figures = []
    if trust.at_most is not UNSET:
        figures.append(f"at most {trust.at_most:.1%} of clean changes blocked")
    if trust.recall is not UNSET:
        figures.append(f"{trust.recall.low:.0%} to {trust.recall.high:.0%} found")
    return ", ".join(figures)


def advice_sentence(trust: TrustBadge) -> str:
    """That the fail of a judge only advises, and until when."""
    if trust.needed is UNSET:
        return "only advises"
    missing = max(1, trust.needed - trust.clean)
    verb = "are"
    if missing == 1:
        verb = "is"
    return f"only advises until {counted(missing, 'more clean change')} {verb} labelled"


def join_words(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def hint_sentences(summary: Summary) -> list[str]:
    """The signs of an agent, each as a sentence."""
    return [hint.sentence for hint in summary.agent_authored.hints]


def agent_signs(hints: Sequence[str]) -> str:
    """The signs of an agent as one line: the first of them, and how many more."""
    line = "; ".join(hints[:MAX_SIGNS])
    further_signs = len(hints) - MAX_SIGNS
    if further_signs > 0:
        return f"{line}; and {further_signs:,} more"
    return line


def describe_tests(tests: TestsRecord, show_command: Callable[[str], str]) -> str:
    """What the record of captured sessions says of the tests, as a part of a sentence.

    `show_command`: the command's text as the place needs it.
    """
    if tests.state == "none":
        return "none ran in the sessions that wrote the change"
    command = show_command(tests.command)
    words = {
        "passed": "passed after the last edit",
        "failed": "failed after the last edit",
        "before": "ran before the last edit only",
        "unknown": "ran; whether it passed after the last edit is not known",
    }
    return f"{command} {words[tests.state]}, turn {tests.turn}"


def edited_gate_files(summary: Summary) -> str:
    """The files that control the gate: the first, and how many more."""
    paths = []
    for change in summary.policy_changes:
        if change.level == "block":
            paths.append(change.path)
    if not paths:
        return ".vibe-gate"
    if len(paths) == 1:
        return paths[0]
    return f"{paths[0]} and {len(paths) - 1:,} more"


_DECISIVE_OUTCOMES = {"fail": "fail", "inconclusive": "abstain", "error": "error"}
"""A rubric's outcome, and that of the criteria which decide it."""

_VERBS = {"fail": "failed", "abstain": "undecided", "error": "could not be decided"}


def _cause(rubric: RubricResult, findings: Sequence[Finding], *, reason: bool) -> str:
    """The criteria that decide the outcome; with the `reason` of the first if it has no findings
    that say it.
    """
    outcome = _DECISIVE_OUTCOMES[rubric.outcome]
    decisive = _decisive_criteria(rubric, findings)
    musts = [criterion for criterion in decisive if criterion.must]
    if musts:
        text = f"{_names(musts)} {_VERBS[outcome]} (must)"
        if reason and outcome != "fail":
            return _with_reason(text, musts)
        return text
    unanswered = [criterion for criterion in decisive if criterion.unanswered]
    if unanswered:
        text = f"{_names(unanswered)} {_VERBS[outcome]}"
        if reason:
            return _with_reason(text, unanswered)
        return text
    if rubric.outcome == "fail":
        return _cause_of_score(rubric, decisive)
    return _cause_of_coverage(rubric, reason=reason)


def _decisive_criteria(rubric: RubricResult, findings: Sequence[Finding]) -> list[CriterionResult]:
    """The criteria that decide the outcome, without those whose findings people let pass."""
    outcome = _DECISIVE_OUTCOMES[rubric.outcome]
    criteria = []
    for criterion in rubric.criteria:
        if criterion.outcome != outcome:
            continue
        if not queries.is_waived(rubric.id, criterion.id, findings):
            criteria.append(criterion)
    return criteria


def _cause_of_score(rubric: RubricResult, failed: Sequence[CriterionResult]) -> str:
    """That the score is too low, and what it was lost by."""
    text = f"score {rubric.score:.2f} is under the threshold"
    if rubric.pass_threshold is not None:
        text += f" of {rubric.pass_threshold:.2f}"
    if not failed:
        return text
    failed_weight = 0.0
    for criterion in failed:
        failed_weight += criterion.weight
    weight = failed_weight
    for criterion in rubric.criteria:
        if criterion.outcome == "pass":
            weight += criterion.weight
    return f"{text}: {_names(failed)} failed (weight {failed_weight:g} of {weight:g})"


def _cause_of_coverage(rubric: RubricResult, *, reason: bool) -> str:
    """That too little could be decided."""
    text = "nothing could be decided"
    if rubric.coverage:
        text = f"only {rubric.coverage:.0%} could be decided"
    undecided = queries.undecided_criteria(rubric)
    if not reason or not undecided:
        return text
    return _with_reason(f"{text}, {_names(undecided)} undecided", undecided)


def _names(criteria: Sequence[CriterionResult]) -> str:
    names = ", ".join(criterion.id for criterion in criteria[:MAX_NAMES])
    if len(criteria) > MAX_NAMES:
        names += f" and {len(criteria) - MAX_NAMES} more"
    return names


def _with_reason(text: str, criteria: Sequence[CriterionResult]) -> str:
    """What is undecided, with why the first of it is."""
    first = criteria[0]
    reason = queries.reason_in_words(first.reason)
    if not reason:
        return text
    if len(criteria) > 1:
        text += f"; {first.id}"
    return f"{text}: {reason}"


def _none_applies(summary: Summary) -> str:
    text = "no criterion applies to this change"
    if any(criterion.votes for criterion in summary.criteria):
        text += ", says the judge"
    return text


def gate_words(summary: Summary) -> str:
    """Which definitions were used."""
    if not summary.run_id:
        return "not read (nothing to review)"
    if summary.trusted.bootstrap:
        return _bootstrap_words(summary.trusted)
    if not summary.trusted.revision:
        return "built-in (no .vibe-gate/ before this change)"
    return f".vibe-gate at {summary.trusted.revision[:SHORT_ID]}"


def _bootstrap_words(trusted: Trusted) -> str:
    """That the change's own definitions were used, and why."""
    branch = trusted.branch
    if trusted.absence == "broken":
        base = branch or "the base"
        return f"this branch's .vibe-gate/ (that of {base} does not parse; repair it there)"
    if trusted.absence == "removed":
        base = branch or "the base"
        return f"this branch's .vibe-gate/ ({base} has none any more; restore it there)"
    if branch:
        return f"this branch's .vibe-gate/ (not on {branch} yet; merge it to make it binding)"
    return "this change's .vibe-gate/ (the first one; later changes are bound by it)"


def short_change_id(summary: Summary) -> str:
    """The change by a short id."""
    if summary.key.startswith(REPLAY):
        return f"replay of {summary.key.removeprefix(REPLAY)[:SHORT_RUN]}"
    if summary.key.startswith("tree-"):
        return summary.key[: SHORT_ID + len("tree-")]
    return summary.key[:SHORT_ID]


def program_outcome(summary: Summary) -> str:
    """The verdict for programs: the outcome, "needs-approval" of a change of the gate, or "nothing"
    to review.
    """
    if not summary.run_id:
        return "nothing"
    if summary.exit_code == POLICY_CHANGED:
        return "needs-approval"
    return summary.outcome


def price_words(summary: Summary) -> str:
    """What the models cost, in US dollars, and how certain that is."""
    if summary.cost.basis == "none":
        if queries.is_from_recording(summary):
            return "none: the model's answers come from a recording"
        if any(vote.turn for vote in queries.asked_votes(summary)):
            return "none: no model answered"
        return "none: no model was asked"
    price = f"${summary.cost.usd:.4f}"
    if summary.cost.basis == "unknown":
        price += " at most (a model without a listed price is counted at the highest price)"
    return price


def cost_words(summary: Summary) -> str:
    """The price, the tokens, and what earlier verdicts answered."""
    parts = [price_words(summary)]
    cost = summary.cost
    if cost.basis != "none":
        tokens = f"{cost.input_tokens:,} tokens in"
        if cost.cache_read_tokens:
            tokens += f" ({cost.cache_read_tokens:,} from the prompt cache)"
        parts.append(f"{tokens}, {cost.output_tokens:,} out")
    if summary.cache.hits:
        parts.append(f"{counted(summary.cache.hits, 'answer')} from earlier verdicts")
    return " · ".join(parts)


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
    if of.status not in ("proven", "shown"):
        return of.reason
    return f"{of.status.capitalize()}: {of.reason[:1].lower()}{of.reason[1:]}"


def refuted_words(summary: Summary) -> str:
    """How many findings a second look refuted, in a few words; "" if none."""
    number = sum(finding.is_refuted for finding in summary.findings)
    if not number:
        return ""
    return f"{number:,} raised and refuted"


def second_look_sentence(look: SecondLook) -> str:
    """What a second look came to, and why."""
    outcome: str = look.outcome
    if look.said is None:
        outcome = "no answer"
    return f"Second look: {outcome}. {look.reason}".strip()


def grounds_words(look: SecondLook) -> str:
    """What the lines do by which it takes the finding back, before their place."""
    if look.outcome == "intended":
        return "intended by"
    return "prevented by"


def dispute_sentence(look: SecondLook) -> str:
    """What was said against the finding, and by whom; "" if it was not disputed."""
    if look.dispute is UNSET:
        return ""
    if look.dispute.by:
        return f"Disputed {dispute_words(look.dispute)}"
    return f"Disputed: {dispute_words(look.dispute)}"


def dispute_words(dispute: Dispute) -> str:
    """By whom it was disputed, if that is known, and the argument."""
    argument = short(dispute.argument)
    if dispute.by:
        return f"by {dispute.by}: {argument}"
    return argument


def policy_meaning(change: PolicyChange, summary: Summary) -> str:
    """What a change of the gate, or of what steers agents, asks of people."""
    if change.level == "warn":
        return "read this change yourself"
    approver = queries.gate_approver(summary)
    if approver:
        return f"approved by {approver}"
    if summary.policy_let_pass:
        return "let pass"
    return "needs approval"


def place_words(path: str, line: int, end_line: int = 0) -> str:
    """`path:line-end`, as far as there is a line; "the change" without a path."""
    if not path:
        return "the change"
    if not line:
        return path
    if end_line > line:
        return f"{path}:{line}-{end_line}"
    return f"{path}:{line}"


def place_words_of(place: Finding | FindingPlace | Unreviewed | CheckedEvidence) -> str:
    """The place of what has one; of a finding the first."""
    return place_words(place.path, place.line, place.end_line)


def other_places_words(finding: Finding) -> str:
    """Where else the finding stands, "b.py:7, c.py:9 and 2 more", or "lines 7-8, 12" of its own file;
    "" if it has one place.
    """
    places = finding.other_places
    words = [place_words_of(place) for place in places]
    if not words or any(place.path != finding.path or not place.line for place in places):
        return list_names(words, finding_places.MAX_NAMED_PLACES)
    lines = [word.removeprefix(f"{finding.path}:") for word in words]
    noun = "lines"
    if len(lines) == 1:
        noun = "line"
    return f"{noun} {list_names(lines, finding_places.MAX_NAMED_PLACES)}"


def placed_sentence(finding: Finding) -> str:
    """What the finding says, and in brackets where else it stands."""
    other_places = other_places_words(finding)
    sentence = finding_sentence(finding)
    if other_places:
        return f"{sentence} (also at {other_places})"
    return sentence


def located_message(finding: Finding) -> str:
    """What the finding says and where else it stands, with its place first if that is not there any
    more: other programs show no such line.
    """
    return safe(removed_place_words(finding) + placed_sentence(finding)) or "(no message)"


def removed_place_words(finding: Finding) -> str:
    """The place of a finding about removed lines, in brackets, with a space behind; else ""."""
    if not finding_places.is_removed(finding):
        return ""
    return f"(removed: {place_words_of(finding)}) "


def finding_sentence(finding: Finding) -> str:
    """What the finding says; if somebody accepted it, or a second look refuted it, that is a
    sentence of its own. Of a remark, in brackets, why it does not block.
    """
    waiver, look = queries.waiver_text(finding), finding.second_look
    remark = finding_places.remark_words(finding)
    if remark:
        full_stop = ""
        if finding.message.endswith("."):
            full_stop = "."
        return f"{finding.message.removesuffix('.')} ({remark}){full_stop}"
    if look is UNSET or look.outcome != "refuted" or waiver:
        return _with_waiver(finding.message, waiver)
    return f"Raised: {end_sentence(finding.message)} Refuted: {end_sentence(look.reason)}"


def criterion_reason(rubric: str, criterion: CriterionResult, findings: Sequence[Finding]) -> str:
    """Why the criterion of the rubric came out so; if somebody accepted its findings, with the
    waiver as `finding_sentence` has it.
    """
    if criterion.outcome != "fail" or not queries.is_waived(rubric, criterion.id, findings):
        return criterion.reason
    waivers = queries.waiver_texts(rubric, criterion.id, findings)
    return _with_waiver(criterion.reason, waivers)


def _with_waiver(text: str, waiver: str) -> str:
    """The text with the waiver as a sentence behind it."""
    if not waiver:
        return text
    if text == waiver:  # an approved change of the gate: the waiver is all that is said of it
        return f"Accepted: {end_sentence(waiver)}"
    return f"{end_sentence(text)} Accepted: {end_sentence(waiver)}"


def finding_line(finding: Finding) -> str:
    """Level, place, message and further places."""
    return f"{finding.level} {place_words_of(finding)} {placed_sentence(finding)}"
