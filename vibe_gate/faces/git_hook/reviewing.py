"""Review a change, report the result, and record it: pre-commit, pre-merge-commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from vibe_gate.context.mode import HookMode
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.cause import CannotAsk, CommitsReviewed
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.gate import HookRule
from vibe_gate.domain.model_wire import read_wire
from vibe_gate.domain.provenance import Record, RecordKind
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import PASS
from vibe_gate.faces import progress
from vibe_gate.faces.git_hook.call import (
    PASSED,
    Effect,
    Hook,
    effect,
    record_or_say,
)
from vibe_gate.faces.git_hook.record import settle_marks
from vibe_gate.faces.git_hook.unreviewed import loud
from vibe_gate.faces.git_hook.waiting_notice import WaitingNotice
from vibe_gate.git import Repository
from vibe_gate.receipts.receipt_notes import are_notes_wanted
from vibe_gate.report import queries, sentences
from vibe_gate.run.review import review_in
from vibe_gate.run.review_result import Review

_BEFORE_COMMITS = ("pre-commit", "pre-merge-commit")

PIPE_WIDTH = 1000
"""Columns of a verdict in a hook's output: wide enough that no line is cut."""

NOTHING_STAGED = (
    "vibe-gate: looked at nothing, because nothing is staged. "
    "To review a range, give --from-ref and --to-ref, or run `vibe-gate review A..B`."
)


def review_staged(hook: Hook) -> int:
    """Review the index that git names, or the range that a framework was given; returns the hook's
    exit code.

    If git names an index, that is what will be committed: a framework's variables are ignored then.
    """
    begin, end = hook.framework.from_ref, hook.framework.to_ref
    if begin and end and not hook.has_index_of_git:
        return review_change(hook, Selection("merge_base", begin, end)).code
    return review_change(hook, Selection("staged")).code


def review_change(
    hook: Hook,
    selection: Selection,
    message: str = "",
    find_reviews: Callable[[], CommitsReviewed | None] | None = None,
    *,
    reported: bool | None = None,
) -> Effect:
    """Review one change, report the result, and record that this hook saw it.

    `find_reviews` as of HookMode. `reported`: whether the hook before reported a judge's answers,
    None if there was none; the same pass is then not reported again.
    """
    mode = HookMode(hook.stage, message, find_reviews)
    request = ReviewRequest(selection, wire=read_wire(hook.environment.variables), mode=mode)
    with hook.open_repository() as repository:
        with suppress(OSError):  # what it says of the tree may not be so after this review
            (repository.common_dir / PASSED).unlink()
        settle_marks_left(hook, repository)
        notice = WaitingNotice(hook)
        walk = review_in(
            repository,
            request,
            clock=hook.clock,
            progress=notice.show,
            state=hook.state(repository.common_dir),
        )
        with notice.after_a_moment():
            review = progress.run_walk(walk)
        git_effect = _effect_of(hook, review)
        if not review.summary.run_id:
            if selection.kind == "staged" and _is_started_by_hand(hook):
                hook.say(NOTHING_STAGED)
            return git_effect
        is_reported = reported is is_judged(review.summary)
        if not (is_reported and _adds_nothing(hook, review.summary, git_effect)):
            _report(hook, review, git_effect, is_repeated=bool(reported))
        _record(hook, _record_of(hook, review, git_effect), repository)
        if review.unshared:
            for note in review.unshared.upload():
                hook.say(f"vibe-gate: note: {safe(note)}")
    return git_effect


def _effect_of(hook: Hook, review: Review) -> Effect:
    """What the verdict does to git."""
    return effect(
        review.summary.exit_code,
        review.gate.file.on.inconclusive if review.gate else "warn",
        in_ci=hook.environment.in_ci,
        strict=hook.strict,
        stage=hook.stage,
    )


def _is_started_by_hand(hook: Hook) -> bool:
    """Whether this is `pre-commit run --all-files` or the like: git names an index to its hooks."""
    return hook.stage == "pre-commit" and not hook.has_index_of_git


def settle_marks_left(hook: Hook, repository: Repository) -> None:
    """Record what the scripts left marks of, if there are any."""
    if hook.state(repository.common_dir).hook_records.marks():
        settle_marks(hook, repository)


def _adds_nothing(hook: Hook, summary: Summary, git_effect: Effect) -> bool:
    """Whether the change passes and no judge had to be asked: a hook that reported it before said
    all of this.
    """
    if summary.exit_code != PASS or git_effect.warning:
        return False
    return not _agent_lacks_a_key(hook, summary) and not summary.cache.misses


def _report(hook: Hook, review: Review, git_effect: Effect, *, is_repeated: bool) -> None:
    """Say nothing of a pass but its notes, and one screen of what git is stopped for.

    One line of a pass with warnings, or of an agent's commit that no judge was asked about for want
    of a key.
    """
    summary = review.summary
    notes = (*sentences.missing_key_note(summary), *review.notes)
    is_keyless = _lacks_only_a_key(summary) and not git_effect.blocks
    stops_or_warns = git_effect.blocks or git_effect.warning
    if summary.exit_code != PASS and stops_or_warns and not is_keyless:
        hook.say(_verdict_screen(hook, review, notes))
    else:
        for line in _concise_lines(hook, summary, notes, is_repeated=is_repeated):
            hook.say(f"vibe-gate: {safe(line)}")
    signs = sentences.agent_signs(sentences.hint_sentences(summary))
    if signs and summary.exit_code != PASS:
        answer = "judged" if _has_answers(summary) else "not judged"
        hook.say(f"vibe-gate: written by an agent, {answer}. Signs: {safe(signs)}")
    if git_effect.warning:
        warning = git_effect.warning
        hook.say(f"vibe-gate: {warning}" if is_keyless else loud(warning))


def _verdict_screen(hook: Hook, review: Review, notes: Sequence[str]) -> str:
    """The verdict on one screen, as git's output shows it."""
    # rich takes longer to load than most of a review takes.
    from vibe_gate.report.verdict_screen import ScreenReader, render_screen

    reader = ScreenReader(
        is_agent=bool(hook.environment.agents),
        session_criteria=review.gate.session_criteria if review.gate else frozenset(),
    )
    every = hook.environment.in_ci
    return render_screen(review.summary, notes, PIPE_WIDTH, every=every, reader=reader).plain


def _concise_lines(
    hook: Hook, summary: Summary, notes: Sequence[str], *, is_repeated: bool
) -> Iterator[str]:
    """The verdict in a line, unless it is a mere pass; and what was not said before."""
    warnings = [finding for finding in summary.findings if finding.level == "warning"]
    if warnings or summary.exit_code != PASS or _agent_lacks_a_key(hook, summary):
        line = sentences.verdict_headline(summary) + _warning_words(warnings)
        if warnings and summary.bundle:
            line += "; `vibe-gate bundles show` lists the findings"
        yield line
    if is_repeated:
        return
    if summary.trusted.bootstrap and summary.policy_changes:  # the commit that brings the gate
        yield f"gate: {sentences.gate_words(summary)}"
    for note in notes:
        yield f"note: {note}"


def _has_answers(summary: Summary) -> bool:
    """Whether a judge answered anything."""
    votes = chain.from_iterable(criterion.votes for criterion in summary.criteria)
    return any(vote.said for vote in votes)


def _agent_lacks_a_key(hook: Hook, summary: Summary) -> bool:
    """Whether an agent's commit passes by checks alone for want of an API key."""
    if not summary.agent_authored.decision or hook.stage == "pre-push":
        return False
    return any(queries.has_cause(criterion, CannotAsk) for criterion in summary.unasked)


def _warning_words(warnings: Sequence[Finding]) -> str:
    """Which criteria warn, and of which file if it is one; "" without warnings."""
    if not warnings:
        return ""
    criteria = list(dict.fromkeys(finding.criterion for finding in warnings))
    paths: set[str] = set()
    for finding in warnings:
        paths.update(finding.paths)
    words = sentences.join_words(criteria[:3])
    if len(criteria) > 3:
        words += " and more"
    if len(paths) == 1 and "" not in paths:
        words += f" in {paths.pop()}"
    return f" ({words})"


def _lacks_only_a_key(summary: Summary) -> bool:
    """Whether the judge's questions are all that is open, for want of an API key: a screen would
    say no more.
    """
    if summary.outcome != "inconclusive" or summary.findings:
        return False
    for criterion in summary.criteria:
        is_open = criterion.outcome in ("abstain", "error")
        if is_open and not queries.has_cause(criterion, CannotAsk):
            return False
    return True


def is_judged(summary: Summary) -> bool:
    """Whether a question was put to a judge, or answered by an earlier verdict."""
    return summary.cache.hits + summary.cache.misses > 0


def _record_of(hook: Hook, review: Review, git_effect: Effect) -> Record:
    summary = review.summary
    kind: RecordKind = "reviewed" if summary.outcome in ("pass", "fail") else "not-reviewed"
    return Record(
        ts=hook.now,
        kind=kind,
        stage=hook.stage,
        commit=summary.change.head_commit,
        tree=summary.change.after,
        before=summary.change.before,
        run=summary.run_id,
        exit_code=summary.exit_code,
        blocked=git_effect.blocks,
        judged=is_judged(summary),
        hints=summary.agent_authored.hints,
        again=hook.stage in _BEFORE_COMMITS and _reviews_message(review),
    )


def _reviews_message(review: Review) -> bool:
    """Whether commit-msg has to review it once more, when the message is known."""
    if is_judged(review.summary):
        return _sees_message(review)
    later_rule = review.gate.file.hooks.commit_msg if review.gate else None
    return _is_wanted(later_rule, review.summary)


def _sees_message(review: Review) -> bool:
    """Whether a rubric of the review is asked about the commit message, too, which only commit-msg
    knows.
    """
    if review.gate is None:
        return False
    asked_ids = {rubric.id for rubric in review.summary.rubrics}
    asked_rubrics = [rubric for rubric in review.gate.rubrics if rubric.id in asked_ids]
    return any("message" in rubric.sees for rubric in asked_rubrics)


def _is_wanted(rule: HookRule | None, summary: Summary) -> bool:
    """Whether a rule that the gate states for another stage has a judge asked there."""
    if rule is None:
        return False
    if rule.judge == "agent-authored":
        return summary.agent_authored.decision
    return rule.judge == "always"


def _record(hook: Hook, record: Record, repository: Repository) -> None:
    if not record_or_say(hook, repository, record):
        return
    if record.blocked or record.again or hook.stage not in _BEFORE_COMMITS:
        return
    if are_notes_wanted(repository):
        return  # a note needs a commit: post-commit has more to do than sh can
    author = "judged" if record.judged else "person"
    if record.hints:
        author = "agent"
    verdict = "warn" if record.exit_code else "pass"
    # The scripts of the same commit run next; without the file they call Python.
    line = f"{hook.parent} {record.tree} {record.before} {author} {verdict}\n"
    with suppress(OSError):
        (repository.common_dir / PASSED).write_text(line, encoding="ascii")
