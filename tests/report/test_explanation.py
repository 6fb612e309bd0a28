"""One finding explained on one screen."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from msgspec.structs import replace
from report.test_refuted import looked
from summaries import waived, waiver

from vibe_gate.domain.gate import Override
from vibe_gate.domain.label import Label
from vibe_gate.domain.summary import Trusted
from vibe_gate.domain.verdict import FindingPlace
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


def rows(outcome: str = "stands", **fields: object) -> list[tuple[str, str]]:
    summary = looked(outcome)
    return list(explanation_rows(Explanation(summary.findings[0], summary, QUESTION, **fields)))


def test_it_says_what_was_asked_what_it_rests_on_and_what_to_do():
    explanation = rows()
    assert [label for label, _ in explanation if label] == (
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
            "dispute",
            "label",
            "accept",
        ]
    )
    texts = dict(explanation)
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
    explanation = rows("refuted")
    assert explanation[-1] == ("next", "nothing to do: a second look refuted it")
    assert ("", "prevented by src/main.py:7: if not path:") in explanation


def test_lines_that_intend_a_finding_are_shown_as_those_that_refute_it():
    assert ("", "intended by src/main.py:7: if not path:") in rows("intended")


def explained(finding, **fields) -> list[tuple[str, str]]:
    summary = replace(looked("stands"), findings=(finding,))
    return list(explanation_rows(Explanation(finding, summary, QUESTION, **fields)))


STANDS = looked("stands").findings[0]


def test_all_places_of_a_finding_are_named():
    places = [FindingPlace(path="src/b.py", line=number, end_line=number) for number in range(1, 9)]
    text = "\n".join(text for _, text in explained(replace(STANDS, other_places=tuple(places))))
    assert [place.line for place in places if f"src/b.py:{place.line}" not in text] == []


def test_what_is_accepted_is_not_to_be_accepted_again_and_keeps_its_second_look():
    explanation = explained(waived(STANDS, waiver("Bob", "known")))
    assert explanation[-1] == ("next", "nothing to do: it is accepted")
    assert ("look", "Second look: stands. main leaves before it.") in explanation


def test_an_override_that_holds_and_is_not_reviewed_yet_asks_for_a_review():
    assert rows(overrides=[OVERRIDE], is_accepted=True)[-1] == (
        "next",
        "it is accepted in this clone: review again to see the verdict with that",
    )


def test_a_remark_asks_for_nothing():
    explanation = explained(replace(STANDS, level="warning", remark="answer"))
    assert explanation[-1] == ("next", "nothing has to change: a remark blocks nothing")


def test_a_suppression_is_named_only_if_there_is_a_gate_that_it_belongs_to():
    built_in = replace(looked("stands"), trusted=Trusted(revision="", bootstrap=False))
    explanation = list(explanation_rows(Explanation(built_in.findings[0], built_in, QUESTION)))
    assert "vibe-gate suppress" in rows()[-1][1]
    assert explanation[-1][1].startswith("vibe-gate override")


@pytest.mark.parametrize("text", ["x" * 9_000, "a\u202eb\x1b[31m", "line\n" * 500])
def test_long_and_hostile_texts_leave_one_screen(text: str):
    summary = looked("stands")
    [finding] = summary.findings
    evidence = replace(finding.evidence[0], quote=text)
    hostile = replace(finding, message=text[:280], evidence=(evidence,) * 30)
    labels = [replace(LABEL, reason=text[:280])] * 50
    explanation = list(
        explanation_rows(Explanation(hostile, summary, text, labels, [OVERRIDE] * 50))
    )
    assert len(explanation) <= 24
    assert max(len(text) for _, text in explanation) <= 330
