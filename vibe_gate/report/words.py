"""The sentences of a verdict, the same on the terminal, in a comment and in a file. Plain text, not yet escaped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.summary import ChangedFile, PolicyChange, Summary, Unreviewed
from vibe_gate.domain.verdict import (
    NO_JUDGE,
    NO_KEY,
    WAITS,
    CheckedEvidence,
    CriterionResult,
    Finding,
    RubricResult,
    Vote,
)
from vibe_gate.errors import FAIL, INTEGRITY, PASS, POLICY_CHANGED

SHORT_ID = 12
"""Characters of a commit or tree id that are shown: enough to be unique, and to paste."""

SHORT_FINGERPRINT = 8
"""Characters of a finding's fingerprint: enough for `override` and `suppress`."""

GRAVITY = {"failure": 0, "warning": 1, "notice": 2}
"""Levels by how soon they are told."""

_WAITS = re.compile(f"{WAITS} '([^']+)'")
_WAIVED = re.compile(r"(?:overridden|suppressed) by ")
_APPROVED = re.compile(r"approved by (@[A-Za-z0-9-]+): ")
_OVERRIDDEN = re.compile(r"overridden by (@[A-Za-z0-9-]+)(?: until [0-9-]+)?: ")
"""How the sentence of a waiver of somebody with an account begins (domain.receipt.Waiver)."""


def criteria(summary: Summary) -> list[CriterionResult]:
    """Those of all rubrics, in their order."""
    return [criterion for rubric in summary.rubrics for criterion in rubric.criteria]


def verdict(summary: Summary) -> str:
    """A few words, the first in capitals: `PASS with 2 warnings`. A confirmed fail that does not block is a warning."""
    if summary.exit_code == PASS:
        warnings = sum(finding.level == "warning" for finding in summary.findings)
        only = " (checks only)" if unasked(summary) else ""
        return f"PASS{only}" + (f" with {counted(warnings, 'warning')}" if warnings else "")
    if summary.exit_code == FAIL:
        return "FAIL"
    if summary.exit_code == POLICY_CHANGED:
        return "NEEDS APPROVAL"
    if summary.exit_code == INTEGRITY:
        return "INTEGRITY"
    return "NOT REVIEWED (inconclusive)" if summary.outcome == "inconclusive" else "ERROR"


def headline(summary: Summary) -> str:
    """The verdict line that the terminal, hooks, check runs and files share: the verdict and what decided."""
    return f"{verdict(summary)} · {why(summary)}".removesuffix(" · ")


def concise(summary: Summary) -> list[str]:
    """A line for each finding, `path:line: level: message [criterion] [fingerprint]`, and one with the verdict."""
    lines = []
    for one in worst_first(summary.findings, summary):
        where = f"{one.path or '.'}:{one.line}" if one.line else one.path or "."
        names = f"[{one.criterion}] [{one.fingerprint[:SHORT_FINGERPRINT]}]"
        lines.append(safe(f"{where}: {one.level}: {one.message} {names}"))
    return [*lines, safe(headline(summary))]


def worst_first(findings: Sequence[Finding], summary: Summary) -> list[Finding]:
    """By level, those of criteria that are no `must` last; then the fewest of a kind first: many hide no other."""
    alike = Counter((one.level, one.path, one.criterion) for one in findings)
    soft = {criterion.id for criterion in criteria(summary) if not criterion.must}

    def rank(one: Finding) -> tuple[int, bool, int]:
        return GRAVITY[one.level], one.criterion in soft, alike[one.level, one.path, one.criterion]

    return sorted(findings, key=rank)


def unasked(summary: Summary) -> list[CriterionResult]:
    """The questions that no judge was asked because there is no way to ask one, or on request."""
    asked = any(one.votes or one.decided_by == "cache" for one in criteria(summary))
    return [] if asked else [one for one in criteria(summary) if one.reason in (NO_KEY, NO_JUDGE)]


def why(summary: Summary, *, sentence: bool = False) -> str:
    """What decided, as a part of a sentence; "" if there is nothing to add.

    `sentence`: as a sentence of its own, below a verdict that names who approved.
    """
    if summary.exit_code == POLICY_CHANGED:
        if summary.trusted.bootstrap and all(change.level == "warn" for change in summary.policy_changes):
            return f"{gate(summary)}; its own outcome: {summary.outcome}"
        return f"this change edits {edited(summary)}, which controls the gate; everything else: {summary.outcome}"
    if summary.exit_code == INTEGRITY:
        return "the files changed during the review"
    decisive = [rubric for rubric in summary.rubrics if rubric.outcome == summary.outcome]
    if not decisive and summary.workflow != "review" and not summary.rubrics:
        return ""  # a workflow without rubrics: its stages say it
    if not decisive:
        return {"pass": "nothing in this change to judge", "fail": "a finding blocks"}.get(summary.outcome, "")
    if summary.outcome == "pass":
        if left := unasked(summary):
            return f"{counted(len(left), 'question')} {left[0].reason}"
        places = len(missed(summary))
        skipped = f"; {counted(places, 'place')} not judged" if places else ""
        passed = [rubric.id for rubric in decisive if applies(rubric)]
        names = joined(passed) or "no criterion applies to this change"
        if sentence and passed:
            plural = "s" if len(passed) > 1 else ""
            names = f"passed the rubric{plural} {names} ({counted(len(summary.change.files), 'file')})"
        return "; ".join(filter(None, ["" if sentence else passed_by(summary), names])) + skipped
    causes = "; ".join(f"{rubric.id}: {_cause(rubric, summary.findings)}" for rubric in decisive)
    return shared_error(summary) or (f"rubric {causes}" if sentence else causes)


def shared_error(summary: Summary) -> str:
    """The one reason for which nothing could be decided (the model's API does not answer); "" if there are more."""
    reasons = {one.reason if one.kind == "judge" else "" for one in criteria(summary) if one.outcome == "error"}
    return reasons.pop().removesuffix(".") if len(reasons) == 1 else ""


def judges(summary: Summary) -> bool:
    """Whether any criterion asks a judge."""
    return any(criterion.kind == "judge" for criterion in criteria(summary))


def missed(summary: Summary) -> tuple[Unreviewed, ...]:
    """What judges should have seen and did not: nothing if no criterion asks one."""
    return tuple(summary.unreviewed) if judges(summary) else ()


def unanswered(summary: Summary) -> list[CriterionResult]:
    """The criteria without an answer, whose reasons are our own words and never a model's."""
    undecided = [one for one in criteria(summary) if one.outcome in ("abstain", "error")]
    return [one for one in undecided if all(vote.said is None for vote in one.votes)]


def waiting(summary: Summary) -> tuple[str, tuple[str, ...]]:
    """The check that keeps questions from being asked, and these; nothing if none waits."""
    found = [(match[1], one.id) for one in criteria(summary) if (match := _WAITS.match(one.reason)) and not one.votes]
    return (found[0][0] if found else "", tuple(dict.fromkeys(name for _, name in found)))


def joined(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def edited(summary: Summary) -> str:
    """The files that control the gate: the first, and how many more."""
    paths = [change.path for change in summary.policy_changes if change.level == "block"]
    return (paths[0] + (f" and {len(paths) - 1:,} more" if len(paths) > 1 else "")) if paths else ".vibe-gate"


def applies(rubric: RubricResult) -> bool:
    """Whether any criterion of the rubric applies to the change."""
    return any(criterion.outcome != "not_applicable" for criterion in rubric.criteria)


def _cause(rubric: RubricResult, findings: Sequence[Finding]) -> str:
    wanted = {"fail": "fail", "inconclusive": "abstain", "error": "error"}[rubric.outcome]
    ids = [c.id for c in rubric.criteria if c.outcome == wanted and c.must and not is_waived(c.id, findings)]
    verb = {"fail": "failed", "abstain": "undecided", "error": "could not be decided"}[wanted]
    if ids:
        more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
        return f"{', '.join(ids[:3])}{more} {verb} (must)"
    if rubric.outcome == "fail":
        return f"score {rubric.score:.2f} is under the threshold"
    return f"only {rubric.coverage:.0%} could be decided"


def gate(summary: Summary) -> str:
    """Which definitions were used."""
    if not summary.run_id:
        return "not read (nothing to review)"
    if summary.trusted.bootstrap:
        if branch := summary.trusted.branch:
            return f"this branch's .vibe-gate/ (not on {branch} yet; merge it to make it binding)"
        return "this change's .vibe-gate/ (the first one; later changes are bound by it)"
    if not summary.trusted.revision:
        return "built-in (no .vibe-gate/ before this change)"
    return f".vibe-gate at {summary.trusted.revision[:SHORT_ID]}"


def key(summary: Summary) -> str:
    """The change by a short id."""
    length = SHORT_ID + (len("tree-") if summary.key.startswith("tree-") else 0)
    return summary.key[:length]


def lines(summary: Summary) -> tuple[int, int]:
    """Lines of text that the change adds and deletes; a binary file has none."""
    texts = [file for file in summary.change.files if not file.binary]
    return sum(file.added for file in texts), sum(file.deleted for file in texts)


def outcome(summary: Summary) -> str:
    """The verdict for programs: the outcome, "needs-approval" of a change of the gate, or "nothing" to review."""
    if not summary.run_id:
        return "nothing"
    return "needs-approval" if summary.exit_code == POLICY_CHANGED else summary.outcome


def score(summary: Summary) -> float | None:
    """The lowest score of a rubric; None if nothing was decided, or the run ended without pass or fail."""
    if summary.exit_code not in (PASS, FAIL):
        return None
    return min((rubric.score for rubric in summary.rubrics if applies(rubric) and rubric.coverage), default=None)


def price(summary: Summary) -> str:
    """What the models cost, in US dollars, and how certain that is."""
    if summary.cost.basis == "none":
        if recorded(summary):
            return "none: the model's answers come from a recording"
        return "none: no model answered" if any(vote.turn for vote in _asked(summary)) else "none: no model was asked"
    return f"${summary.cost.usd:.4f}" + (
        " at most (a model without a listed price is counted at the highest price)"
        if summary.cost.basis == "unknown"
        else ""
    )


def recorded(summary: Summary) -> bool:
    """True if a recorded model answered, so that nothing was paid."""
    return summary.cost.basis == "none" and any(vote.said is not None for vote in _asked(summary))


def _asked(summary: Summary) -> list[Vote]:
    return [vote for criterion in criteria(summary) if criterion.decided_by != "cache" for vote in criterion.votes]


def cost(summary: Summary) -> str:
    """The price, the tokens, and what earlier verdicts answered."""
    hits = summary.cache.hits
    cached = f" · {counted(hits, 'answer')} from earlier verdicts" if hits else ""
    spent = summary.cost
    if spent.basis == "none":
        return price(summary) + cached
    return f"{price(summary)} · {spent.input_tokens:,} tokens in, {spent.output_tokens:,} out{cached}"


def is_waived(criterion: str, findings: Sequence[Finding]) -> bool:
    """True if every finding of the criterion is overridden or suppressed."""
    own = [finding for finding in findings if finding.criterion == criterion]
    return bool(own) and all(waiver(finding) for finding in own)


def waiver(finding: Finding) -> str:
    """Who overrode or suppressed the finding, until when and why; "" if it is neither."""
    if finding.level != "notice" or not _WAIVED.match(finding.message):
        return ""
    return finding.message.partition(" | ")[0]


def is_approval(finding: Finding) -> bool:
    """Whether it says that a person approved the change of the gate itself."""
    return (finding.criterion, finding.level) == ("policy", "notice") and bool(_APPROVED.match(finding.message))


def approver(summary: Summary) -> str:
    """Who approved the change of the gate itself, "@login"; "" if that needed no approval, or nobody did."""
    found = [match for one in summary.findings if is_approval(one) and (match := _APPROVED.match(one.message))]
    return found[0][1] if found else ""


def passed_by(summary: Summary) -> str:
    """Whose word let it pass, and what, in a few words: an approved change of the gate, overridden findings; or ""."""
    found = [match[1] for one in summary.findings if (match := _OVERRIDDEN.match(one.message)) and waiver(one)]
    who = joined(list(dict.fromkeys(found)))
    approved = f"gate change approved by {approver(summary)}" if approver(summary) else ""
    overridden = f"{counted(len(found), 'finding')} overridden by {who}" if found else ""
    return "; ".join(filter(None, [approved, overridden]))


def needs_approval(summary: Summary) -> bool:
    """Whether it changes the gate itself, and nobody let that pass."""
    let_pass = any((one.criterion, one.level) == ("policy", "notice") for one in summary.findings)
    return not let_pass and any(change.level == "block" for change in summary.policy_changes)


def policy_meaning(change: PolicyChange, summary: Summary) -> str:
    """What a change of the gate, or of what steers agents, asks of people."""
    if change.level == "warn":
        return "read this change yourself"
    return f"approved by {approver(summary)}" if approver(summary) else "needs approval"


def changes(summary: Summary) -> str:
    """What the change makes different, in the words of the first judge who said so; "" if none did.

    The first rubric's: the gate's own come before those of a scope, which are about fewer files.
    """
    return next((vote.changes for criterion in criteria(summary) for vote in criterion.votes if vote.changes), "")


def riskiest_first(summary: Summary) -> list[tuple[ChangedFile, str]]:
    """The changed files and why to look at them: by findings, then changes of the gate, then what no judge saw."""
    found = Counter((one.path, one.level) for one in summary.findings)
    gate = {change.path for change in summary.policy_changes if change.level == "block"}
    unseen = {place.path for place in missed(summary)}

    def risk(file: ChangedFile) -> tuple[int, int, bool, bool, int]:
        failures, warnings = found[file.path, "failure"], found[file.path, "warning"]
        return failures, warnings, file.path in gate, file.path in unseen, file.added + file.deleted

    def reason(file: ChangedFile) -> str:
        failures, warnings, edits, not_judged, _ = risk(file)
        parts = [counted(failures, "failure") if failures else "", counted(warnings, "warning") if warnings else ""]
        return ", ".join(filter(None, [*parts, "the gate" if edits else "", "not judged" if not_judged else ""]))

    return [(file, reason(file)) for file in sorted(summary.change.files, key=risk, reverse=True)]


def place(path: str, line: int, end_line: int = 0) -> str:
    """`path:line-end`, as far as there is a line; "the change" without a path."""
    if not path:
        return "the change"
    lines = f"{line}-{end_line}" if end_line > line else str(line)
    return f"{path}:{lines}" if line else path


def place_of(shown: Finding | Unreviewed | CheckedEvidence) -> str:
    """The place of what has one."""
    return place(shown.path, shown.line, shown.end_line)


def is_removed(finding: Finding) -> bool:
    """Whether the finding is about lines that the change removed."""
    return bool(finding.evidence) and all(evidence.side == "before" for evidence in finding.evidence)


def message(finding: Finding) -> str:
    """What the finding says, with its place first if that is not there any more: other programs show no such line."""
    removed = f"(removed: {place_of(finding)}) " if is_removed(finding) else ""
    return safe(removed + finding.message) or "(no message)"


def lines_after(finding: Finding) -> tuple[int, int]:
    """The first and last line of the finding in the file after the change, the first if it has none there."""
    first = 1 if is_removed(finding) else max(finding.line, 1)
    return first, 1 if is_removed(finding) else max(first, finding.end_line)


def one_line(finding: Finding) -> str:
    """Level, place and message."""
    return f"{finding.level} {place_of(finding)} {finding.message}"


def counterexample(finding: Finding, summary: Summary) -> str:
    """The input that goes wrong, as the vote behind the finding has it; "" where there is none."""
    votes = (vote for one in criteria(summary) if one.id == finding.criterion for vote in one.votes)
    return next((vote.counterexample for vote in votes if vote.counterexample and has_evidence(vote, finding)), "")


def has_evidence(vote: Vote, finding: Finding) -> bool:
    """Whether any line that the finding quotes is the vote's."""
    return any(evidence in vote.evidence for evidence in finding.evidence)
