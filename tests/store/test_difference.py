"""Hunks made from two contents."""

from __future__ import annotations

from growth import assert_linear
from hypothesis import example, given
from hypothesis import strategies as st

from vibe_gate.domain.change import Hunk
from vibe_gate.store.difference import CONTEXT_LINES, hunks, split

contents = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\r", b"d", b"\n"]), max_size=30).map(b"".join)


def patched(before: bytes, found: tuple[Hunk, ...]) -> bytes:
    """What the hunks make of `before`, by their numbers alone."""
    old, out, position = split(before), [], 0
    for hunk in found:
        start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        out += old[position:start]
        assert len(out) == (hunk.new_start - 1 if hunk.new_lines else hunk.new_start)
        assert [line.content for line in hunk.lines if line.origin != "+"] == old[start : start + hunk.old_lines]
        new = [line.content for line in hunk.lines if line.origin != "-"]
        assert len(new) == hunk.new_lines
        out += new
        position = start + hunk.old_lines
    return b"".join([*out, *old[position:]])


@given(contents, contents)
@example(b"", b"a")
@example(b"a", b"a\n")
@example(b"a\n" * 9, b"a\n" * 4 + b"b\n" + b"a\n" * 4)
def test_hunks_turn_the_one_content_into_the_other(before: bytes, after: bytes) -> None:
    assert patched(before, hunks(before, after)) == after


@given(contents)
def test_equal_contents_have_no_hunks(content: bytes) -> None:
    assert hunks(content, content) == ()


@given(contents)
def test_splitting_loses_nothing(content: bytes) -> None:
    assert b"".join(split(content)) == content


def test_changes_far_apart_are_hunks_of_their_own_with_context() -> None:
    lines = [b"%d\n" % number for number in range(40)]
    changed = [*lines]
    changed[5], changed[30] = b"five\n", b"thirty\n"
    first, second = hunks(b"".join(lines), b"".join(changed))
    assert (first.old_start, first.old_lines, second.old_start) == (6 - CONTEXT_LINES, 7, 31 - CONTEXT_LINES)


def test_a_moved_block_is_found_by_its_unique_lines() -> None:
    one, two = [b"a%d\n" % n for n in range(20)], [b"b%d\n" % n for n in range(3)]
    (first, *more) = hunks(b"".join(two + one), b"".join(one + two))
    changed = [line for hunk in (first, *more) for line in hunk.lines if line.origin != " "]
    assert len(changed) == 6


def test_contents_made_to_be_slow_are_not() -> None:
    def repeating(size: int) -> tuple[bytes, bytes]:
        return tuple(b"".join(b"%d\n" % (number % every) for number in range(size)) for every in (7, 11))

    assert_linear(lambda both: hunks(*both), repeating, 100_000)
    before, after = repeating(100_000)
    assert patched(before, hunks(before, after)) == after
