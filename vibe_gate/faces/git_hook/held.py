"""One change held against the gate for a hook: reviewed, said, and written down as seen."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import HookRule
from vibe_gate.domain.provenance import Record, RecordKind
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult
from vibe_gate.errors import PASS, StorageError
from vibe_gate.faces import running
from vibe_gate.faces.git_hook.call import Hook, loud, note_empty_merge
from vibe_gate.faces.git_hook.effect import Effect, effect
from vibe_gate.faces.git_hook.scripts import PASSED
from vibe_gate.git import Repository, open_repository
from vibe_gate.receipts.notes import is_wanted
from vibe_gate.review import Review, ReviewRequest, review_in
from vibe_gate.store import open_state

_BEFORE_COMMITS = ("pre-commit", "pre-merge-commit")

SETTLED = "not asked again: "
"""Begins the reason why a push needs no judge."""

PIPE_WIDTH = 1000
"""Columns of a verdict in a hook's output, which frameworks keep until the end: wide enough to cut nothing."""


def staged(hook: Hook) -> int:
    """pre-commit, pre-merge-commit, manual: review the index that git means, or the range a framework was given.

    Before a commit git names its index: then that is what is committed, whatever the variables say.
    """
    begin, end = hook.environ.get("PRE_COMMIT_FROM_REF"), hook.environ.get("PRE_COMMIT_TO_REF")
    if begin and end and "GIT_INDEX_FILE" not in hook.environ:
        return held(hook, Selection("merge_base", begin, end)).code
    return held(hook, Selection("staged")).code


def held(
    hook: Hook,
    selection: Selection,
    message: str = "",
    settled: Callable[[], str] | None = None,
    told: tuple[str, ...] | None = None,
) -> Effect:
    """Review one change, say what came out, and write down that this hook saw it.

    `settled` is asked just before a judge would be: why none has to be, or "". `told`: the hints of a judge's
    answer that was told of just before; the same again is not told again, and no note.
    """
    request = ReviewRequest(
        selection, stage=hook.stage, called=hook.called, strict=hook.strict, message=message, settled=settled
    )  # fmt: skip
    with open_repository(hook.start, hook.environ) as repository:
        if hook.stage in _BEFORE_COMMITS:
            with suppress(OSError):
                (repository.common_dir / PASSED).unlink()
        walk = review_in(
            repository,
            request,
            environ=hook.environ,
            clock=hook.clock,
            progress=lambda stage, what: hook.say(f"vibe-gate: {what} ...") if stage == "judge" else None,
        )
        done = running.run(walk)
        rule = done.gate.file.on.inconclusive if done.gate else "warn"
        what = effect(done.summary.exit_code, rule, hook.environ, strict=hook.strict)
        if not _is_told(done, what, told):
            _tell(hook, done, what, again=told is not None)
        if done.summary.run_id:
            _write_down(hook, _of(hook, done, what), repository)
        elif hook.stage == "pre-merge-commit" or (repository.git_dir / "MERGE_HEAD").exists():
            note_empty_merge(hook, done.summary.change.after, repository)
    return what


def _is_told(done: Review, what: Effect, told: tuple[str, ...] | None) -> bool:
    """Whether an earlier hook of the same commit has told all of it: nothing was asked anew, and nothing is wrong."""
    summary = done.summary
    same = _judged(summary) and not summary.cache.misses and summary.agent_authored.hints == told
    return same and summary.exit_code == PASS and not what.warning


def _tell(hook: Hook, done: Review, what: Effect, *, again: bool) -> None:
    summary = done.summary
    if not summary.run_id:
        return hook.say("vibe-gate: nothing to review.")
    if summary.exit_code != PASS and (what.blocks or what.warning):
        # rich takes longer to load than most of a review takes: only where there is much to show.
        from vibe_gate.report.terminal import render

        hook.say(render(summary, done.notes, PIPE_WIDTH, None).plain)
    else:
        against = ", ".join(rubric.id for rubric in summary.rubrics) or "no rubric"
        hook.say(f"vibe-gate: {summary.outcome}: {counted(len(summary.change.files), 'file')} held against {against}")
        for note in done.notes if not again else ():
            hook.say(f"vibe-gate: note: {safe(note)}")
    hook.say("\n".join(_why(summary)))
    if what.warning:
        hook.say(loud(what.warning))
    return None


def _why(summary: Summary) -> list[str]:
    """Whether a judge was asked, and because of what."""
    hints = [f"    {safe(hint)}" for hint in summary.agent_authored.hints]
    if _judged(summary):
        paid = "" if summary.cache.misses else " (answered before; nothing was asked again)"
        return [f"judged{paid} because:", *hints] if hints else [f"judged{paid}: the gate asks for every change"]
    if why := next((one.reason for one in _unanswered(summary) if one.reason.startswith(SETTLED)), ""):
        return [why, *(["an agent's work by:", *hints] if hints else [])]
    return ["not judged, though an agent's work by:", *hints] if hints else ["no judge: nothing hints at an agent"]


def _unanswered(summary: Summary) -> list[CriterionResult]:
    return [one for rubric in summary.rubrics for one in rubric.criteria if one.decided_by == "none"]


def _judged(summary: Summary) -> bool:
    return summary.cache.hits + summary.cache.misses > 0


def _of(hook: Hook, done: Review, what: Effect) -> Record:
    summary = done.summary
    later = done.gate.file.hooks.get("commit-msg") if done.gate else None
    kind: RecordKind = "reviewed" if summary.outcome in ("pass", "fail") else "not-reviewed"
    return Record(
        ts=hook.now,
        kind=kind,
        stage=hook.stage,
        commit=summary.change.head_commit,
        tree=summary.change.after,
        run=summary.run_id,
        exit_code=summary.exit_code,
        blocked=what.blocks,
        judged=_judged(summary),
        hints=summary.agent_authored.hints,
        again=hook.stage in _BEFORE_COMMITS and not _judged(summary) and _is_wanted(later, summary),
    )


def _is_wanted(rule: HookRule | None, summary: Summary) -> bool:
    """Whether a rule that the gate states for another stage has a judge asked there."""
    if rule is None:
        return False
    return rule.judge == "always" or (rule.judge == "agent-authored" and summary.agent_authored.decision)


def _write_down(hook: Hook, record: Record, repository: Repository) -> None:
    try:
        open_state(repository.common_dir).hook_records.append(record)
    except StorageError as error:
        return hook.say(f"vibe-gate: not recorded: {safe(str(error))}")
    noted = is_wanted(repository)  # a note can only be put on a commit: post-commit has more to do than sh can
    needs_more = record.exit_code or record.judged or record.hints or record.again or noted
    if hook.stage in _BEFORE_COMMITS and not needs_more:
        _mark_passed(repository.common_dir / PASSED, f"{hook.parent} {record.tree}\n")
    return None


def _mark_passed(file: Path, line: str) -> None:
    """Leave word for the hooks that the same git process runs next, as sh reads it. Without it they look anew."""
    part = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        if file.parent.is_symlink():
            return
        with part.open("x", encoding="ascii") as new:
            new.write(line)
        part.replace(file)
