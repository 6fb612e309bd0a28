"""Hints from captured sessions: counted by blob, and never a reason to be laxer."""

from __future__ import annotations

import pytest

from vibe_gate.domain.change import FileDiff, FileVersion
from vibe_gate.domain.provenance import agent_hints
from vibe_gate.gate.authorship import written_hints

A, B, C = "a" * 40, "b" * 40, "c" * 40


def file(path: str, after: str | None, before: str | None = None) -> FileDiff:
    sides = [None if blob is None else FileVersion(blob, 0o100644, 1) for blob in (before, after)]
    return FileDiff(path, None, "modified", sides[0], sides[1], False, 1, 0, ())


@pytest.mark.parametrize(
    ("files", "blobs", "hints"),
    [
        ([file("a", A)], {}, ()),
        ([file("a", A)], {A: "0f3c9a1e-1111"}, ("Claude Code session 0f3c9a1e wrote 1 of 1 file",)),
        (
            [file("a", A), file("b", B), file("c", C)],
            {A: "s", C: "s"},
            ("Claude Code session s wrote 2 of 3 files",),
        ),
        (
            [file("a", A), file("b", B)],
            {A: "s", B: "t"},
            (
                "Claude Code session s wrote 1 of 2 files",
                "Claude Code session t wrote 1 of 2 files",
            ),
        ),
        ([file("moved", A, before=A)], {A: "s"}, ()),
        ([file("deleted", None, before=A)], {A: "s"}, ()),
        ([file("reverted", B, before=A)], {A: "s"}, ()),
        ([file("a", A)], {A: "\x1b[31m"}, ("Claude Code session ⟦U+001B⟧[31m wrote 1 of 1 file",)),
    ],
)
def test_a_session_is_named_with_what_it_wrote(files, blobs, hints):
    written = written_hints(files, blobs)
    assert tuple(hint.sentence for hint in written) == hints
    assert agent_hints({}, (), written) == written
