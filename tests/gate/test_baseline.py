"""Baselines: read as strictly as other definitions, and written so that reading gives the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from text_tree import text_tree

from vibe_gate.domain.calibration import Baseline, CriterionBaseline
from vibe_gate.errors import UsageError
from vibe_gate.gate.loading import FolderFiles, find_mistakes, load_gate
from vibe_gate.gate.writing import baseline_toml, write_baseline

RUBRIC = (
    'schema = 1\nid = "quality"\n[[criterion]]\nid = "a"\nkind = "judge"\nquestion = "Is it?"\n'
)
COUNTS = CriterionBaseline(
    id="a",
    clean=60,
    clean_blocked=1,
    defective=30,
    found=27,
    abstained=2,
    flips=3,
    repeats=3,
    agreement=0.899,
)
MEASURED = Baseline(
    schema=1, rubric="quality", digest="5f" * 32, model="claude-sonnet-5", template=7, cli="2.1.0",
    created_at="2026-11-27T09:00:00.000Z", criterion=(COUNTS, replace(COUNTS, id="b", agreement=None)),
)  # fmt: skip


def test_a_baseline_written_is_read_with_the_gate(tmp_path: Path) -> None:
    (tmp_path / ".vibe-gate/rubrics").mkdir(parents=True)
    (tmp_path / ".vibe-gate/rubrics/quality.toml").write_text(RUBRIC)
    for baseline in (replace(MEASURED, model="older"), MEASURED):
        assert write_baseline(tmp_path, baseline) == ".vibe-gate/baseline/quality.toml"
    gate = load_gate(FolderFiles(tmp_path), revision="", origin="trusted")
    assert gate is not None
    assert gate.baselines == (MEASURED,)
    assert ".vibe-gate/baseline/quality.toml" in dict(gate.digests), (
        "a verdict that stands is of this baseline"
    )


def test_every_mistake_in_a_baseline_is_named_at_its_line() -> None:
    right = baseline_toml(MEASURED)
    wrong = (
        right.replace('"quality"', '"other"')
        .replace("clean = 60", "clean = -1")
        .replace('id = "b"', 'id = "a"')
    )
    wrong = wrong.replace(f'"{"5f" * 32}"', '"5f"').replace("flips = 3", "flip = 3", 1)
    tree = text_tree(
        {
            "rubrics/quality.toml": RUBRIC,
            "baseline/quality.toml": wrong,
            "baseline/x/y.toml": "",
            "baseline/z.toml": "a",
        }
    )
    mistakes = [str(mistake).partition("baseline/")[2] for mistake in find_mistakes(tree)]
    assert mistakes == [
        'quality.toml:4: digest: must be a sha-256 in hexadecimal, not "5f"',
        'quality.toml:12: criterion[0].clean (id "a"): must be at least 0, not -1',
        'quality.toml:17: criterion[0].flip (id "a"): unknown key; did you mean "flips"?',
        'quality.toml:23: criterion[1].clean (id "a"): must be at least 0, not -1',
        'quality.toml:22: criterion[1].id (id "a"): is the id of criterion[0], too',
        'quality.toml:3: rubric: is "other", but the file\'s name is "quality"; make them the same',
        "x/y.toml:1: no definition is read from here; baselines are .vibe-gate/baseline/ID.toml",
        "z.toml:1: not TOML: expected '=' after a key in a key/value pair (at the end of the file)",
    ]


def test_what_a_baseline_says_can_be_shown_and_paid_for() -> None:
    """A change may bring one: `repeats` are asked again at the next calibration, `model` is told on
    a screen.
    """
    wrong = baseline_toml(MEASURED).replace("repeats = 3", f"repeats = {'9' * 400}", 1)
    for key in ("model", "cli", "created_at"):
        wrong = re.sub(f'^{key} = ".*"', rf'{key} = "m\\u001b[31m\\u202e"', wrong, flags=re.M)
    wrong = wrong.replace("template = 7", "template = 99999999")
    mistakes = [
        str(mistake).partition(".toml:")[2]
        for mistake in find_mistakes(text_tree({"baseline/quality.toml": wrong}))
    ]
    assert [value.partition(" (id")[0].partition(", not")[0] for value in mistakes] == [
        r'5: model: "m\033[31m\342\200\256" is not the name of a language model',
        "6: template: must be at most 10000",
        r'7: cli: "m\033[31m\342\200\256" cannot be shown as it is',
        r'8: created_at: "m\033[31m\342\200\256" cannot be shown as it is',
        "18: criterion[0].repeats",
    ]


@pytest.mark.parametrize(
    "linked", [".vibe-gate", ".vibe-gate/baseline", ".vibe-gate/baseline/quality.toml"]
)
def test_no_baseline_is_written_through_a_symbolic_link(tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = tmp_path / "repository" / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="symbolic link"):
        write_baseline(tmp_path / "repository", MEASURED)
    assert not list(elsewhere.iterdir())
