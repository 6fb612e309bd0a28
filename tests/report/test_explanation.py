"""One finding explained on one screen."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from msgspec.structs import replace
from report.test_refuted import looked

from vibe_gate.domain.gate import Override
from vibe_gate.domain.label import Label
from vibe_gate.report.explanation import Explanation, explanation_rows

QUESTION = "Does every new handler log the error, raise it again or say why not?"
LABEL = Label(
    ts=datetime(2026, 1, 2, tzinfo=UTC), finding="ab" * 8, rubric="quality", criterion="errors-not-swallowed",
    right=False, reason="the caller checks it", by="Ada <ada@x>", digest="", source="cli",
)  # fmt: skip
OVERRIDE = Override(
    ts="2026-01-02",
    finding="ab" * 8,
    reason="known",
    by="Bob <b@x>",
    email="b@x",
    expires=date(2026, 2, 1),
)


def rows(outcome: str = "stands", **more: object) -> list[tuple[str, str]]:
    summary = looked(outcome)
    return list(explanation_rows(Explanation(summary.findings[0], summary, QUESTION, **more)))


def test_it_says_what_was_asked_what_it_rests_on_and_what_to_do():
    told = rows()
    assert [label for label, _ in told if label] == (
        [
            "finding",
            "place",
            "asked",
            "lines",
            "answer",
            "e.g.",
            "votes",
            "look",
            "people",
            "run",
            "fix",
            "label",
            "accept",
        ]
    )
    texts = dict(told)
    assert (texts["place"], texts["asked"], texts["e.g."]) == (
        "src/a.py:41",
        QUESTION,
        "no file -> None",
    )
    assert texts["lines"] == "   41 | except OSError:"
    assert texts["look"] == "Second look: stands. main leaves before it."
    assert texts["votes"] == "1 fail"
    assert texts["people"] == "no label, not accepted"
    assert texts["label"] == "vibe-gate label abababab right|wrong --reason TEXT"
    assert texts["accept"].startswith("vibe-gate override abababab --reason TEXT")


def test_it_says_what_people_said():
    people = [text for _, text in rows(labels=[LABEL], overrides=[OVERRIDE])]
    assert "wrong, says Ada <ada@x>: the caller checks it" in people
    assert "accepted by Bob <b@x> until 2026-02-01: known" in people


def test_what_a_second_look_refuted_asks_for_nothing():
    told = rows("refuted")
    assert told[-1] == ("next", "nothing to do: a second look refuted it")
    assert ("", "    7 | if not path:") in told


@pytest.mark.parametrize("text", ["x" * 9_000, "a\u202eb\x1b[31m", "line\n" * 500])
def test_long_and_hostile_texts_leave_one_screen(text: str):
    summary = looked("stands")
    [finding] = summary.findings
    evidence = replace(finding.evidence[0], quote=text)
    hostile = replace(finding, message=text[:280], evidence=(evidence,) * 30)
    labels = [replace(LABEL, reason=text[:280])] * 50
    told = list(explanation_rows(Explanation(hostile, summary, text, labels, [OVERRIDE] * 50)))
    assert len(told) <= 24
    assert max(len(text) for _, text in told) <= 330
