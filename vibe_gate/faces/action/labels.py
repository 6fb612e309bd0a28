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
from vibe_gate.faces.action.commands import command_of, label_of, named_by, stands
from vibe_gate.forge import Comment, Forge
from vibe_gate.report.annotations import read_finding_marker
from vibe_gate.report.comment import comment_marker, read_comment_state
from vibe_gate.report.reported_finding import ReportedFinding


class _Said(Struct, frozen=True):
    """What somebody says of a finding, and the number of their account."""

    word: Word
    account: int
    finding: ReportedFinding


def labels_at(forge: Forge, number: int, name: str) -> tuple[Label, ...]:
    """What people with write access say of the findings of the gate of this name, in the order of
    its places.

    ForgeError.
    """
    comments = tuple(forge.comments(number))
    own = next(
        (one for one in comments if one.ours and one.body.startswith(comment_marker(name))), None
    )
    state = read_comment_state(own.body) if own is not None else None
    if state is None:
        return ()
    known = {seen.fingerprint: seen for seen in state.findings if seen.found_by}
    said = [*_in_comments(comments, known), *(_in_thumbs(forge, number, known) if known else ())]
    writers = {
        who: forge.may_write(who[0].removeprefix("@"), who[1])
        for who in dict.fromkeys((one.word.by, one.account) for one in said)
    }
    return tuple(
        label
        for one in said
        if writers[one.word.by, one.account]
        for label in one.word.on(one.finding.fingerprint, one.finding.found_by)
    )


def _in_comments(
    comments: tuple[Comment, ...], known: Mapping[str, ReportedFinding]
) -> Iterator[_Said]:
    for comment in comments:
        command = command_of(comment.body)
        right = label_of(command) if command is not None and stands(comment) else None
        if command is None or right is None:
            continue
        word = Word(
            ts=comment.created_at,
            right=right,
            reason=command.reason,
            by=f"@{comment.author}",
            source="command",
        )
        yield from (
            _Said(word, comment.account, seen) for seen in named_by(command, known.values())
        )


def _in_thumbs(forge: Forge, number: int, known: Mapping[str, ReportedFinding]) -> Iterator[_Said]:
    for comment in forge.review_comments(number):
        seen = (
            known.get(read_finding_marker(comment.body))
            if comment.ours and comment.thumbs
            else None
        )
        if seen is None:
            continue
        for thumb in forge.thumbs(comment.id):
            if thumb.person:
                by = f"@{thumb.login}"
                yield _Said(
                    Word(ts=thumb.created_at, right=thumb.up, reason="", by=by, source="reaction"),
                    thumb.account,
                    seen,
                )
