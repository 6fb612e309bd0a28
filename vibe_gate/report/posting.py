"""From a report to what stands on the forge. A verdict goes in and comes out unchanged, whatever
the forge says.

    what was said before -> round -> review comments -> check run -> comment, which states what the
    others could not do

Whatever the forge refuses is a downgrade: a sentence in what can still be posted, and
in the job's own summary. Nothing is said twice, and nothing is written that stands there already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.escape import counted
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import ForgeError
from vibe_gate.forge import BegunCheckRun, Comment, Forge, LineComment
from vibe_gate.report import queries, sentences
from vibe_gate.report.annotations import make_check_run
from vibe_gate.report.comment import comment_marker, read_comment_state, render_comment
from vibe_gate.report.finding_comments import (
    MAX_COMMENTS,
    is_marked_fixed,
    is_marked_settled,
    is_thread_pending,
    make_review_comments,
    mark_accepted,
    mark_fixed,
    mark_refuted,
    mark_thread_pending,
    read_finding_marker,
    with_fingerprint,
)
from vibe_gate.report.lines_since import LinesSince
from vibe_gate.report.links import Links
from vibe_gate.report.no_verdict import NoVerdict, no_verdict_check, no_verdict_comment
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import ReportedFinding, finding_identity
from vibe_gate.report.round import answered_by, next_round
from vibe_gate.report.round_state import RoundState
from vibe_gate.report.suggestions import merge_comments, read_suggestion_marker

CHECK_NAME = "vibe-gate"
"""Of the check run; the thing to require is the job itself, which fails with it."""

THREADS_REFUSED = (
    "GitHub refused it; the permission `contents: write` would allow it. The comments say that "
    "their findings are fixed, accepted or open again, and the next run tries again."
)
"""GitHub asks for the right to push, as public reports say; its answer names no permission."""

MAX_REFUSED = 5
"""Places that GitHub refuses and that are named one by one."""


def check_name(name: str) -> str:
    """The name of the check run of a gate; `name` tells several gates of one repository apart, ""
    if there is one.
    """
    if name:
        return f"{CHECK_NAME} ({name})"
    return CHECK_NAME


class Posting(Struct, frozen=True):
    """What is wanted at a commit and at its pull request."""

    head: str
    """The commit."""
    number: int | None = None
    """Of the pull request; None where there is none."""
    comment: bool = True
    check_run: bool = True
    review_comments: bool = False
    suggestions: tuple[LineComment, ...] = ()
    """Suggested changes, posted once."""
    since: Callable[[str], LinesSince | None] = lambda head: None
    """Tells of an earlier head which lines changed since then; None where that cannot be told any
    more.
    """
    limits: tuple[str, ...] = ()
    """Sentences about what is known beforehand to be missing."""
    begun: BegunCheckRun | None = None
    """The check run that the job began; None: a new one is made."""
    record: str = ""
    """Kept in the check run for later jobs."""


class Posted(Struct):
    """What stands where now; "" for what does not."""

    report: Report
    """With its round."""
    downgrades: list[str] = []
    """Sentences about what could not be posted."""
    remarks: list[str] = []
    """What is said in the job's summary alone: what was not done changes nothing that people read
    elsewhere.
    """
    comment_url: str = ""
    check_run_url: str = ""
    at_lines: frozenset[str] = frozenset()
    """Identities of findings that have a comment at their lines."""


def post_report(posting: Posting, forge: Forge | None, report: Report) -> Posted:
    """Say the report where it is wanted. Refusals become downgrades; nothing is raised for them."""
    posted = Posted(replace(report, number=posting.number), list(posting.limits))
    if forge is None:
        return posted
    try:
        _Poster(posting, forge, posted).post()
    except ForgeError as error:
        if error.status != HTTPStatus.UNAUTHORIZED:
            raise
        posted.downgrades.append(
            f"Nothing more was posted: the token (`github-token`) is not accepted. {error}"
        )
    return posted


def post_no_verdict(posting: Posting, forge: Forge, no_verdict: NoVerdict) -> list[str]:
    """Say that this commit has no verdict where one would stand; sentences about what was
    refused.
    """
    refused = []
    if posting.check_run:
        name, address = check_name(no_verdict.name), no_verdict.links.run_url
        try:
            check_run = replace(no_verdict_check(no_verdict), record=posting.record)
            forge.check_run(posting.head, name, check_run, details_url=address, begun=posting.begun)
        except ForgeError as error:
            refused.append(f"The check run could not be written: {error}")
    if posting.number is not None and posting.comment:
        try:
            _replace_verdict(forge, posting.number, no_verdict)
        except ForgeError as error:
            refused.append(f"The comment could not be posted: {error}")
    return refused


def _replace_verdict(forge: Forge, number: int, no_verdict: NoVerdict) -> None:
    if forge.pull(number).head_sha != no_verdict.head:
        return  # the job of the newer commit writes the comment
    marker = comment_marker(no_verdict.name)
    before = forge.sticky(number, marker)
    if before is None and no_verdict.quiet:
        return
    body = no_verdict_comment(no_verdict, before.body if before else "")
    forge.put_comment(number, body, marker=marker)


class _Poster:
    """Posts one report, step by step; `posted` collects what stands where and what was refused."""

    def __init__(self, posting: Posting, forge: Forge, posted: Posted) -> None:
        self._posting = posting
        self._forge = forge
        self._posted = posted
        self._marker = comment_marker(posted.report.name)
        self._spoke = False

    def post(self) -> None:
        """Take all steps; one that is refused does not stop those after it."""
        number = self._posting.number
        stale = ""
        if number is not None:
            stale = self._newer_head(number)
        if stale:
            self._posted.downgrades.append(stale)
        elif number is not None:
            self._read_round(number)
            if self._has_line_comments():
                self._post_line_comments(number)
        if self._posting.check_run:
            self._check()
        if number is not None and self._posting.comment and not stale:
            self._comment(number)

    def _has_line_comments(self) -> bool:
        """Whether comments at lines may have to be written or brought up to date."""
        if self._posting.suggestions:
            return True
        current_round = self._posted.report.round
        return self._posting.review_comments and bool(
            current_round.reportable or current_round.fixed
        )

    def _newer_head(self, number: int) -> str:
        """Why this run is not the newest word about the pull request any more; "" where it is."""
        try:
            current = self._forge.pull(number).head_sha
        except ForgeError as error:
            self._downgrade("Whether the pull request has newer commits could not be read", error)
            return ""
        if current == self._posting.head:
            return ""
        newest_id, own_id = current[: sentences.SHORT_ID], self._posting.head[: sentences.SHORT_ID]
        return (
            f"The pull request is at {newest_id} by now and this run is about {own_id}, "
            "so the comment is left to the run of the newer commit."
        )

    def _read_round(self, number: int) -> None:
        report = self._posted.report
        try:
            sticky = self._forge.sticky(number, self._marker)
        except ForgeError as error:
            self._downgrade(
                "What was said before could not be read, so this counts as a first round", error
            )
            return
        self._spoke = sticky is not None
        previous = None
        if sticky is not None:
            previous = read_comment_state(sticky.body)
        if previous is None:
            return
        self._posted.report = replace(
            report,
            round=next_round(
                previous,
                report.summary.findings,
                self._posting.head,
                self._touched(previous),
                blocking=lambda finding: finding.level == "failure",
                answered=answered_by(report.summary, previous),
                replaced=self._is_replaced,
            ),
        )

    def _touched(self, previous: RoundState) -> Callable[[Finding], bool]:
        """Whether a finding stands on lines that changed since the last round."""
        if previous.head == self._posting.head:
            return lambda finding: False
        lines = self._posting.since(previous.head)
        if lines is not None:
            return lines.brings
        last = previous.head[: sentences.SHORT_ID]
        self._posted.downgrades.append(
            f"The commit of the last round, {last}, cannot be seen any more, "
            "so every line counts as new, and nothing is called fixed."
        )
        return lambda finding: True

    def _is_replaced(self, finding: ReportedFinding) -> bool:
        """Whether lines of what was said before changed since it was found last."""
        lines = self._posting.since(finding.last)
        return lines is not None and lines.replaces(finding)

    def _post_line_comments(self, number: int) -> None:
        """Comments at lines: new ones in one review; those whose finding is fixed or accepted say
        so.
        """
        try:
            ours = [comment for comment in self._forge.review_comments(number) if comment.ours]
        except ForgeError as error:
            self._downgrade("Comments at lines could not be read, so none were written", error)
            return
        suggested = {read_suggestion_marker(comment.body) for comment in ours}
        suggestions = self._posting.suggestions
        comments = [comment for comment in suggestions if comment.fingerprint not in suggested]
        if self._posting.review_comments:
            finding_comments = []
            for comment in ours:
                if read_finding_marker(comment.body):
                    finding_comments.append(comment)
            comments = merge_comments(
                self._new_finding_comments(number, finding_comments), comments
            )
        standing = self._review_lines(number, comments)
        self._posted.at_lines |= {comment.fingerprint for comment in standing}

    def _new_finding_comments(self, number: int, comments: list[Comment]) -> list[LineComment]:
        """The new comments; `comments`, which stand, are brought up to date."""
        self._settle(number, comments)
        commented = set()
        for comment in comments:
            if not is_marked_fixed(comment.body):
                commented.add(read_finding_marker(comment.body))
        report = self._posted.report
        thread_names = report.round.thread_names
        self._posted.at_lines |= {
            name
            for name in map(finding_identity, report.round.reportable)
            if thread_names.get(name, name) in commented
        }
        candidates = make_review_comments(report, report.anchors)
        new = [comment for comment in candidates if comment.fingerprint not in commented]
        if len(new) <= MAX_COMMENTS:
            return new
        return []

    def _review_lines(self, number: int, comments: list[LineComment]) -> list[LineComment]:
        """Post the comments, in one review if GitHub takes them all; those that stand.

        GitHub refuses a review as a whole if one place is not in its own diff, and does not say
        which. So a refused review is posted again in halves, until what is refused is single
        comments.
        """
        standing: list[LineComment] = []
        refused: list[LineComment] = []
        batches = []
        if comments:
            batches = [comments]
        while batches:
            batch = batches.pop(0)
            try:
                self._forge.review(number, self._posting.head, tuple(batch))
            except ForgeError as error:
                if error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                    self._downgrade(
                        "The comments at lines were refused, so their findings stand here only",
                        error,
                    )
                    break
                reason = error
                half = len(batch) // 2
                if half:
                    batches = [batch[:half], batch[half:], *batches]
                else:
                    refused += batch
                continue
            standing += batch
        if refused:
            self._downgrade(_refused_places(refused), reason)
        return standing

    def _settle(self, number: int, comments: list[Comment]) -> None:
        """Let each comment say what became of its finding, and resolve its thread or open it
        again.
        """
        report = self._posted.report
        fixed = {finding.thread_name: finding.fixed for finding in report.round.fixed}
        thread_names = report.round.thread_names
        open_findings = {}
        for finding in report.round.reportable:
            name = finding_identity(finding)
            open_findings[thread_names.get(name, name)] = finding
        texts = {}
        changed = []
        for comment in comments:
            text = _settled_body(comment.body, fixed, open_findings, report.links)
            texts[comment.id] = text
            if text != comment.body or is_thread_pending(comment.body):
                changed.append(comment)
        if not changed:
            return
        is_resolved = {comment.id: is_marked_settled(texts[comment.id]) for comment in changed}
        is_set = self._set_threads(number, is_resolved)
        try:
            for comment in changed:
                text = mark_thread_pending(texts[comment.id], not is_set)
                if text != comment.body:
                    self._forge.edit_review_comment(comment.id, text)
        except ForgeError as error:
            self._downgrade("A comment at a line could not be brought up to date", error)

    def _set_threads(self, number: int, resolved: Mapping[int, bool]) -> bool:
        """Resolve threads, or open them again; if it is refused, only the job's summary says so:
        comments tell it.
        """
        try:
            self._forge.set_threads(number, resolved)
        except ForgeError as error:
            reason = THREADS_REFUSED
            if error.status != HTTPStatus.FORBIDDEN:
                reason = str(error)
            threads = counted(len(resolved), "thread")
            self._posted.remarks.append(
                f"Not resolved, or not opened again: {threads} at lines of the diff. {reason}"
            )
            return False
        return True

    def _check(self) -> None:
        report = self._posted.report
        check_run = make_check_run(report, tuple(self._posted.downgrades), self._posted.at_lines)
        check_run = replace(check_run, record=self._posting.record)
        address = ""
        if report.links:
            address = report.links.run_url
        try:
            answer = self._forge.check_run(
                self._posting.head,
                check_name(report.name),
                check_run,
                details_url=address,
                begun=self._posting.begun,
            )
        except ForgeError as error:
            self._downgrade("The check run could not be written", error)
            return
        self._posted.check_run_url = answer.url
        if answer.missing:
            self._posted.downgrades.append(
                f"The check run lacks {answer.missing} of its annotations: {answer.reason}"
            )

    def _comment(self, number: int) -> None:
        if not self._posted.report.summary.run_id and not self._spoke:
            return  # there is nothing to review, and nothing was said that this would put right
        body = render_comment(self._posted.report, tuple(self._posted.downgrades))
        try:
            self._posted.comment_url = self._forge.put_comment(
                number, body, marker=self._marker
            ).url
        except ForgeError as error:
            self._downgrade("The comment could not be posted", error)

    def _downgrade(self, refusal: str, error: ForgeError) -> None:
        """Note a refusal. ForgeError if the token is not accepted: what is asked next would get the
        same answer.
        """
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise error
        reason = str(error)
        if self._posted.report.fork and error.status == HTTPStatus.FORBIDDEN:
            reason = "the token of a pull request from a fork may only read."
        elif error.permission:
            reason = f"the token lacks `{error.permission}`; add it to the job's `permissions`."
        self._posted.downgrades.append(f"{refusal}: {reason}")


def _refused_places(comments: Sequence[LineComment]) -> str:
    """Which comments at lines GitHub did not take, and where that is said instead."""
    places = [f"{paths.quote(comment.path)}:{comment.line}" for comment in comments[:MAX_REFUSED]]
    if len(comments) == 1:
        return f"GitHub takes no comment at {places[0]}, so it stands here only"
    text = ", ".join(places)
    if len(comments) > MAX_REFUSED:
        text += f" and {len(comments) - MAX_REFUSED} more"
    return f"GitHub takes no comments at {text}, so they stand here only"


def _settled_body(
    body: str, fixed: Mapping[str, str], open_findings: Mapping[str, Finding], links: Links | None
) -> str:
    """What the comment says now. `fixed`: commits, and `open_findings`: what is still found, by the
    fingerprint that marks the comment.
    """
    name = read_finding_marker(body)
    if name in fixed:
        return mark_fixed(body, fixed[name], links)
    if name not in open_findings:
        return body
    finding = open_findings[name]
    body = with_fingerprint(body, finding_identity(finding))
    grounds = queries.waiver_grounds(finding)
    if finding.second_look is not UNSET and finding.is_refuted and not grounds:
        return mark_refuted(body, finding.second_look.reason)
    return mark_accepted(body, grounds)
