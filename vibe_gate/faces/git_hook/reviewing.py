"""Review a change, report the result, and record it: pre-commit, pre-merge-commit; pre-push.

pre-push reviews the commits that each pushed ref brings as one change; never the working tree, and
no commit that a remote has already, or that is older than the gate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from vibe_gate.context.mode import HookMode
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.cause import CommitsReviewed, NoKey
from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import HookRule
from vibe_gate.domain.model_wire import read_wire
from vibe_gate.domain.provenance import Record, RecordKind
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import INTEGRITY, PASS, POLICY_CHANGED, GateError, RevisionError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.git_hook.call import (
    PASSED,
    Effect,
    Hook,
    effect,
    record_or_say,
)
from vibe_gate.faces.git_hook.framework_call import FrameworkCall
from vibe_gate.faces.git_hook.gate_start import GateStart, read_gate_start
from vibe_gate.faces.git_hook.record import settle_marks
from vibe_gate.faces.git_hook.sharing import share_prompts
from vibe_gate.faces.git_hook.unreviewed import loud
from vibe_gate.gate import traces
from vibe_gate.gate.loading import FOLDER
from vibe_gate.gate.shared_prompts import PROMPTS
from vibe_gate.git import Pushed, Repository
from vibe_gate.receipts.receipt_notes import NOTES, are_notes_wanted
from vibe_gate.receipts.verify_range import VerifyRequest, verify_commits
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

_GRAVITY = {PASS: 0, POLICY_CHANGED: 1, INTEGRITY: 3}
"""Of several pushed refs the gravest exit code is returned; codes not listed here count as 2."""

_NO_COMMIT = "0" * 40

_NOTES = {f"refs/notes/{name}" for name in (NOTES, PROMPTS, traces.NOTES)}
"""Receipts, prompts and Agent Trace records pushed to the ref of the same name are not reviewed."""

_LINE = re.compile(r"(.+) ([0-9a-f]{40}) (\S+) ([0-9a-f]{40})")
"""What git writes of each ref: its name here, the commit, its name there, and the commit that is
there now.

The name here is the source as it was typed, which may have spaces: `main^{/some words}`.
"""


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
        _settle_marks(hook, repository)
        walk = review_in(
            repository,
            request,
            clock=hook.clock,
            progress=partial(_show_progress, hook),
            state=hook.state(repository.common_dir),
        )
        review = progress.run(walk)
        rule = review.gate.file.on.inconclusive if review.gate else "warn"
        code, in_ci = review.summary.exit_code, hook.environment.in_ci
        git_effect = effect(code, rule, in_ci=in_ci, strict=hook.strict, stage=hook.stage)
        if not review.summary.run_id:
            # Git names an index to its hooks: without one this is `pre-commit run --all-files` or
            # the like.
            by_hand = hook.stage == "pre-commit" and not hook.has_index_of_git
            if by_hand and selection.kind == "staged":
                hook.say(NOTHING_STAGED)
        else:
            if not (
                reported is _judged(review.summary)
                and _adds_nothing(hook, review.summary, git_effect)
            ):
                _report(hook, review, git_effect, is_repeated=bool(reported))
            _record(hook, _record_of(hook, review, git_effect), repository)
            for note in review.unshared.upload() if review.unshared else ():
                hook.say(f"vibe-gate: note: {safe(note)}")
    return git_effect


def _show_progress(hook: Hook, stage: str, action: str) -> None:
    """Say that a judge is asked: all else takes a moment."""
    if stage == "judge":
        hook.progress(f"vibe-gate: {action} ...")


def _settle_marks(hook: Hook, repository: Repository) -> None:
    if hook.state(repository.common_dir).hook_records.marks():
        settle_marks(hook, repository)


def _adds_nothing(hook: Hook, summary: Summary, git_effect: Effect) -> bool:
    """Whether the change passes and no judge had to be asked: a hook that reported it before said
    all of this.
    """
    silent = (
        summary.exit_code == PASS
        and not git_effect.warning
        and not _agent_lacks_a_key(hook, summary)
    )
    return silent and not summary.cache.misses


def _report(hook: Hook, review: Review, git_effect: Effect, *, is_repeated: bool) -> None:
    """Say nothing of a pass but its notes, and one screen of what git is stopped for.

    One line of a pass with warnings, or of an agent's commit that no judge was asked about for want
    of a key.
    """
    summary = review.summary
    passed = summary.exit_code == PASS
    keyless = _lacks_only_a_key(summary) and not git_effect.blocks
    notes = (*sentences.missing_key_note(summary), *review.notes)
    if not passed and (git_effect.blocks or git_effect.warning) and not keyless:
        # rich takes longer to load than most of a review takes.
        from vibe_gate.report.verdict_screen import render_screen

        hook.say(render_screen(summary, notes, PIPE_WIDTH, every=hook.environment.in_ci).plain)
    else:
        warned = [finding for finding in summary.findings if finding.level == "warning"]
        hint = "; `vibe-gate bundles show` lists the findings" if warned and summary.bundle else ""
        if warned or not passed or _agent_lacks_a_key(hook, summary):
            hook.say(
                f"vibe-gate: {safe(sentences.verdict_headline(summary) + _about(warned))}{hint}"
            )
        if (
            summary.trusted.bootstrap and summary.policy_changes and not is_repeated
        ):  # the commit that brings the gate
            hook.say(f"vibe-gate: gate: {safe(sentences.gate_words(summary))}")
        for note in notes if not is_repeated else ():
            hook.say(f"vibe-gate: note: {safe(note)}")
    signs = sentences.agent_signs(sentences.hint_sentences(summary))
    if signs and not passed:
        votes = (vote for criterion in summary.criteria for vote in criterion.votes)
        judged = "judged" if any(vote.said for vote in votes) else "not judged"
        hook.say(f"vibe-gate: written by an agent, {judged}. Signs: {safe(signs)}")
    if git_effect.warning:
        hook.say(f"vibe-gate: {git_effect.warning}" if keyless else loud(git_effect.warning))


def _agent_lacks_a_key(hook: Hook, summary: Summary) -> bool:
    """Whether an agent's commit passes by checks alone for want of an API key."""
    unasked = (
        summary.unasked if summary.agent_authored.decision and hook.stage != "pre-push" else ()
    )
    return any(queries.has_cause(criterion, NoKey) for criterion in unasked)


def _about(warned: Sequence[Finding]) -> str:
    """Which criteria warn, and of which file if it is one."""
    names, files = (
        {getattr(finding, key): None for finding in warned} for key in ("criterion", "path")
    )
    place = f" in {next(iter(files))}" if len(files) == 1 and all(files) else ""
    return (
        f" ({sentences.join_words([*names][:3])}{' and more' if len(names) > 3 else ''}{place})"
        if names
        else ""
    )


def _lacks_only_a_key(summary: Summary) -> bool:
    """Whether the judge's questions are all that is open, for want of an API key: a screen would
    say no more.
    """
    criteria = [
        criterion
        for rubric in summary.rubrics
        for criterion in rubric.criteria
        if criterion.outcome in ("abstain", "error")
    ]
    if summary.outcome != "inconclusive" or summary.findings:
        return False
    return all(queries.has_cause(criterion, NoKey) for criterion in criteria)


def _judged(summary: Summary) -> bool:
    return summary.cache.hits + summary.cache.misses > 0


def _record_of(hook: Hook, review: Review, git_effect: Effect) -> Record:
    summary = review.summary
    later = review.gate.file.hooks.commit_msg if review.gate else None
    kind: RecordKind = "reviewed" if summary.outcome in ("pass", "fail") else "not-reviewed"
    judged = _judged(summary)
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
        judged=judged,
        hints=summary.agent_authored.hints,
        again=hook.stage in _BEFORE_COMMITS
        and (_sees_message(review) if judged else _is_wanted(later, summary)),
    )


def _sees_message(review: Review) -> bool:
    """Whether a rubric of the review is asked about the commit message, too, which only commit-msg
    knows.
    """
    asked_ids = {rubric.id for rubric in review.summary.rubrics}
    rubrics = review.gate.rubrics if review.gate else ()
    return any("message" in rubric.sees for rubric in rubrics if rubric.id in asked_ids)


def _is_wanted(rule: HookRule | None, summary: Summary) -> bool:
    """Whether a rule that the gate states for another stage has a judge asked there."""
    if rule is None:
        return False
    return rule.judge == "always" or (
        rule.judge == "agent-authored" and summary.agent_authored.decision
    )


def _record(hook: Hook, record: Record, repository: Repository) -> None:
    if not record_or_say(hook, repository, record):
        return
    noted = are_notes_wanted(
        repository
    )  # a note needs a commit: post-commit has more to do than sh can
    needs_more = record.exit_code or record.judged or record.hints or record.again or noted
    if hook.stage in _BEFORE_COMMITS and not needs_more:
        with suppress(
            OSError
        ):  # the sh hooks of the same git process run next; without the file they call Python
            (repository.common_dir / PASSED).write_text(
                f"{hook.parent} {record.tree}\n", encoding="ascii"
            )


def push(hook: Hook) -> int:
    """Review what each pushed ref brings: commits that no remote has and that are not older than
    the gate.

    Nothing is older once a remote has the gate: a push may bring another `.vibe-gate/`, on commits
    of today.
    """
    selections: dict[Selection, tuple[str, ...]] = {}
    older: set[str] = set()
    url = hook.words[1] if len(hook.words) > 1 else hook.framework.remote_url
    with hook.open_repository() as repository:
        _settle_marks(hook, repository)
        tips = repository.remote_tips(url)
        gated = repository.with_folder(tips, FOLDER)
        for commit, remote_tip in _pushed(hook, repository):
            pushed = repository.unpushed(commit, remote_tip, tips)
            if not gated and (left_out := _older(hook, repository, pushed)):
                older |= left_out
                pushed = repository.unpushed(commit, remote_tip, [*tips, *left_out])
            if pushed.commits:
                base, *other_bases = pushed.bases or (EMPTY_TREE,)
                commits = tuple(commit.id for commit in pushed.commits)
                selections[Selection("range", base, commit, *other_bases[:1])] = commits
        if older:
            hook.say(
                f"vibe-gate: {counted(len(older), 'commit')} older than the gate here: not reviewed."
            )
    codes = [
        review_change(hook, selection, find_reviews=partial(_one_by_one, hook, selection)).code
        for selection in selections
    ]
    worst = max(codes, key=lambda code: _GRAVITY.get(code, 2), default=PASS)
    if worst == PASS and selections:
        share_prompts(hook, selections, url)
    return worst


def _older(hook: Hook, repository: Repository, pushed: Pushed) -> set[str]:
    """The pushed commits that are older than the gate: no hook here saw them, nor what they are
    made on, they do not have the `.vibe-gate/` that the push brings, and they were there when the
    gate began.
    """
    gated = repository.with_folder(
        [*pushed.bases, *(commit.id for commit in pushed.commits)], FOLDER
    )
    if not pushed.commits or not gated.isdisjoint(pushed.bases):
        return set()
    records = hook.state(repository.common_dir).hook_records.all()
    start = read_gate_start(repository)
    if not records and not gated:  # from now on a hook has run in this clone
        tip, reason = pushed.commits[-1].id, "older than the gate here"
        record = Record(
            ts=hook.now, kind="not-reviewed", stage="pre-push", commit=tip, reason=reason
        )
        record_or_say(hook, repository, record)
    # Of a tree without a commit the tree before it is compared, too: an old commit may have had the
    # same files.
    recorded = {
        record.commit or (record.before, record.tree)
        for record in records
        if record.stage != "pre-push"
    }
    if start is not None:
        younger = _younger_than_start(repository, pushed, start)
    else:
        younger = _younger_than_records(pushed, records if not gated else ())
    new = set(gated)
    for commit in pushed.commits:
        change = repository.tree_of(next(iter(commit.parents), "")), commit.tree
        is_seen = not recorded.isdisjoint((commit.id, change))
        if commit.id in younger or is_seen or not new.isdisjoint(commit.parents):
            new.add(commit.id)
    return {commit.id for commit in pushed.commits} - new


def _younger_than_start(repository: Repository, pushed: Pushed, start: GateStart) -> set[str]:
    """The pushed commits that were not there when `install git` ran.

    Dates can be forged, so they count only in a history of its own (an import), which is made on
    nothing that was there or that the remote has.
    """
    added = repository.unpushed(pushed.commits[-1].id, "", (*pushed.bases, *start.tips))
    younger: set[str] = set()
    imported: set[str] = set()
    for commit in added.commits:
        is_import = all(parent in imported for parent in commit.parents)
        if is_import and commit.time < start.second:
            imported.add(commit.id)
        else:
            younger.add(commit.id)
    return younger


def _younger_than_records(pushed: Pushed, records: Sequence[Record]) -> set[str]:
    """The pushed commits that were made (by their date) after a hook first ran in this clone."""
    if not records:
        return set()
    first_second = int(datetime.fromisoformat(records[0].ts).timestamp())
    return {commit.id for commit in pushed.commits if commit.time >= first_second}


def _one_by_one(hook: Hook, selection: Selection) -> CommitsReviewed | None:
    """Why no judge has to be asked about the push as a whole, or None: each of its commits was
    reviewed and passed.

    Each line of the push was then shown to a judge with the tree around it: each commit against its
    parent, a merge against every parent unless git made it by itself (`verify`).
    """
    request = VerifyRequest(f"{selection.left}..{selection.right}", stage="pre-push")
    try:
        verification = verify_commits(
            request, start=hook.start, environment=hook.environment, now=hook.clock()
        )
    except GateError:  # for example too many commits
        return None
    statuses = {status.status for _, status in verification.commits}
    if not statuses or not statuses <= {"reviewed", "empty"}:
        return None
    count = len(verification.commits)
    if count == 1 and verification.commits[0][1].match in ("commit", "tree"):
        return None  # the same question: its answer is in the cache
    return CommitsReviewed(count=count)


def _pushed(hook: Hook, repository: Repository) -> list[tuple[str, str]]:
    """The commits that are pushed, each with what the remote has there."""
    tips = []
    for local, remote_tip in dict.fromkeys(_refs(hook)):  # hundreds of tags may name one commit
        try:
            tips.append((repository.resolve(local), remote_tip))
        except RevisionError:
            hook.say(f"vibe-gate: {safe(local)} is not a commit; nothing to review.")
    return tips


def _refs(hook: Hook) -> list[tuple[str, str]]:
    """Pushed commits with what the remote has there ("": nothing): git's lines, or else a
    framework's variables.

    Git's lines come first, since whoever pushes can set the variables. UsageError for a line in
    another form.
    """
    lines = [line for line in hook.stdin().split("\n") if line]
    if not lines and hook.framework.is_running:
        return _framework_refs(hook.framework)
    matches = [(_LINE.fullmatch(line), line) for line in lines]
    for match, line in matches:
        if match is None:
            raise UsageError(
                f"cannot be read as a line of git for pre-push: {line!r}. Nothing was pushed; run `git push` again."
            )
    refs = [match.groups() for match, _ in matches if match is not None]
    return [
        (new, "" if old == _NO_COMMIT else old)
        for local_ref, new, remote_ref, old in refs
        if new != _NO_COMMIT and not (local_ref == remote_ref and local_ref in _NOTES)
    ]


def _framework_refs(call: FrameworkCall) -> list[tuple[str, str]]:
    """The one ref of which pre-commit and prek tell: they keep git's lines to themselves."""
    if call.local_branch == call.remote_branch and call.local_branch in _NOTES:
        return []
    return [(call.to_ref or call.local_branch or "HEAD", call.from_ref)]
