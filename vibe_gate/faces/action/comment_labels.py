"""What people say of findings in a pull request: `/vibe-gate right` or `wrong` in a comment, a
thumb at a line.

The comments and reactions are the store: each run reads them again, so what was deleted or edited,
or whose author has lost write access, counts no more. What a finding is about says the gate's own
comment. A label changes no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from vibe_gate.domain.label import Label, Word
from vibe_gate.faces.action.comment_commands import (
    is_unedited_by_person,
    label_in_command,
    match_findings,
    parse_comment_command,
)
from vibe_gate.forge import Comment, Forge
from vibe_gate.report.comment import comment_marker, read_comment_state
from vibe_gate.report.finding_comments import read_finding_marker
from vibe_gate.report.reported_finding import ReportedFinding


class _Opinion(Struct, frozen=True):
    """What a person says of a finding."""

    word: Word
    account: int
    """GitHub's number of the person's account."""
    finding: ReportedFinding


def collect_labels(forge: Forge, number: int, name: str) -> tuple[Label, ...]:
    """What people with write access say of the findings of the gate of this name, in the order of
    its places.

    ForgeError.
    """
    comments = tuple(forge.comments(number))
    findings = _judged_findings(comments, name)
    if findings is None:
        return ()
    opinions = [*_opinions_in_comments(comments, findings)]
    if findings:
        opinions += _opinions_by_thumbs(forge, number, findings)
    is_writer: dict[tuple[str, int], bool] = {}
    labels: list[Label] = []
    for opinion in opinions:
        person = (opinion.word.by, opinion.account)
        if person not in is_writer:
            login = opinion.word.by.removeprefix("@")
            is_writer[person] = forge.may_write(login, opinion.account)
        if is_writer[person]:
            finding = opinion.finding
            labels += opinion.word.on(finding.fingerprint, finding.found_by)
    return tuple(labels)


def _judged_findings(comments: tuple[Comment, ...], name: str) -> dict[str, ReportedFinding] | None:
    """The findings by judges that the gate's comment has, by fingerprint; None without such a
    comment.
    """
    marker = comment_marker(name)
    for comment in comments:
        if comment.ours and comment.body.startswith(marker):
            state = read_comment_state(comment.body)
            if state is None:
                return None
            return {finding.fingerprint: finding for finding in state.findings if finding.found_by}
    return None


def _opinions_in_comments(
    comments: tuple[Comment, ...], findings: Mapping[str, ReportedFinding]
) -> Iterator[_Opinion]:
    for comment in comments:
        command = parse_comment_command(comment.body)
        if command is None or not is_unedited_by_person(comment):
            continue
        right = label_in_command(command)
        if right is None:
            continue
        word = Word(
            ts=comment.created_at,
            right=right,
            reason=command.reason,
            by=f"@{comment.author}",
            source="command",
        )
        for finding in match_findings(command, findings.values()):
            yield _Opinion(word, comment.account, finding)


def _opinions_by_thumbs(
    forge: Forge, number: int, findings: Mapping[str, ReportedFinding]
) -> Iterator[_Opinion]:
    findings_by_thread = {finding.thread_name: finding for finding in findings.values()}
    for comment in forge.review_comments(number):
        if not comment.ours or not comment.thumbs:
            continue
        finding = findings_by_thread.get(read_finding_marker(comment.body))
        if finding is None:
            continue
        for thumb in forge.thumbs(comment.id):
            if thumb.person:
                by = f"@{thumb.login}"
                word = Word(
                    ts=thumb.created_at, right=thumb.up, reason="", by=by, source="reaction"
                )
                yield _Opinion(word, thumb.account, finding)
