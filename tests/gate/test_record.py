"""Records of git's hooks: lines that come back as they were, and which review lets a tree
through.
"""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from vibe_gate.domain.agent_hint import TrailerHint, VariableHint
from vibe_gate.domain.provenance import Record
from vibe_gate.gate.authorship import RecordedHints
from vibe_gate.receipts.let_through import let_through

SEEN = Record(
    ts="2026-01-02T03:04:05.000+00:00", kind="reviewed", stage="pre-commit", tree="t", run="r"
)


ENV = VariableHint(name="CLAUDECODE", agent="Claude Code")
RECORDED = replace(ENV, commit="c", recorded=True)
TRAILER = TrailerHint(name="Assisted-by", value="x")


def test_a_line_comes_back_as_it_was():
    hints = (TrailerHint(name="Assisted-by", value="\u2028 x\ny \ud800"), ENV)
    record = replace(SEEN, hints=hints, exit_code=1, blocked=True)
    assert Record.from_line(record.to_line()) == record


def test_a_line_leaves_out_what_is_not_there():
    assert SEEN.to_line() == (
        '{"ts":"2026-01-02T03:04:05.000+00:00","kind":"reviewed","stage":"pre-commit","tree":"t","run":"r"}'
    )


@pytest.mark.parametrize(
    "change",
    [
        {"ts": None}, {"kind": "unheard"}, {"stage": 1}, {"commit": 1}, {"exit_code": True}, {"blocked": 0},
        {"hints": "x"}, {"hints": [1]}, {"hints": [{"code": "unheard"}]}, {"later": 1},
    ],
)  # fmt: skip
def test_a_line_with_a_wrong_value_is_no_record(change):
    with pytest.raises(ValueError, match=r"."):
        Record.from_line(json.dumps(json.loads(SEEN.to_line()) | change))


@pytest.mark.parametrize(
    ("changes", "index"),
    [
        ([{}], 0),
        ([{"tree": "other"}], None),
        ([{"blocked": True}], None),
        ([{}, {"blocked": True}], None),
        ([{"blocked": True}, {}], 1),
        ([{"kind": "not-reviewed"}], 0),
        ([{"kind": "bypassed"}], None),
        ([{"kind": "rewritten"}], None),
        ([{"stage": "pre-push"}], None),
        ([{}, {"stage": "pre-push", "blocked": True}], 0),
        ([], None),
    ],
)
def test_a_tree_is_let_through_by_the_last_hook_that_saw_it(changes, index):
    records = [replace(SEEN, **change) for change in changes]
    assert let_through(records, "t") == (None if index is None else records[index])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{"kind": "bypassed", "commit": "c", "hints": (ENV,)}], (RECORDED,)),
        ([{"kind": "not-reviewed", "hints": (ENV,)}], (RECORDED,)),
        ([{"hints": (ENV,)}, {"commit": "c", "hints": (ENV,)}, {}], (RECORDED,)),
        (
            [{"hints": (TRAILER,)}],
            (replace(TRAILER, commit="c"),),
        ),
        ([{"commit": "c", "hints": (RECORDED, replace(TRAILER, commit="d"))}], (RECORDED,)),
        ([{"commit": "d", "tree": "u", "hints": (ENV,)}], ()),
        (
            [
                {"commit": "d", "tree": "u", "hints": (ENV,)},
                {"kind": "rewritten", "commit": "c", "old": "d"},
            ],
            (RECORDED,),
        ),
        (
            [
                {"kind": "rewritten", "commit": "c", "old": "d"},
                {"kind": "rewritten", "commit": "d", "old": "c"},
            ],
            (),
        ),
        ([{"stage": "pre-push", "commit": "c", "hints": (ENV,)}], ()),
        ([{}], ()),
    ],
)
def test_hints_are_those_recorded_of_the_commit_of_what_it_was_and_of_its_tree(changes, expected):
    hints = RecordedHints(replace(SEEN, **change) for change in changes)
    assert hints.of("c", "t") == expected


def test_a_hint_that_is_seen_anyway_is_not_told_as_a_recorded_one():
    hints = RecordedHints([replace(SEEN, hints=(ENV, TRAILER))])
    assert hints.of("", "t", (ENV,)) == (TRAILER,)
    assert hints.of("c", "t", (ENV, replace(TRAILER, commit="c"))) == ()
    assert hints.of("c", "t", (RECORDED, replace(TRAILER, commit="c"))) == ()
