"""A run against its repeat, as a table: what is compared, what is the same, and the exit code."""

from __future__ import annotations

from typing import Any

import pytest
from growth import assert_linear
from msgspec.structs import replace

from vibe_gate.domain.replayed import CriterionChange
from vibe_gate.domain.run_comparison import (
    FileComparison,
    RecordedRun,
    RecordedStage,
    RunUse,
    compare_with_repeat,
)
from vibe_gate.report.run_differences import build_comparison_document, render_comparison

PATCH = b"""\
diff --git a/src/load.py b/src/load.py
index 1111111..2222222 100644
--- a/src/load.py
+++ b/src/load.py
@@ -1,2 +1,2 @@
 def load(path):
-    return open(path)  # TODO
+    return open(path)
"""
ADDED = b"""\
diff --git a/new.txt b/new.txt
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,2 @@
+one
+two
"""
BINARY = b"""\
diff --git a/x.bin b/x.bin
index 1111111..%d 100644
GIT binary patch
"""
STAGE = RecordedStage(
    node="fix", outcome="pass", agent="fixer", question="q", before="t", message="Done."
)
RUN = RecordedRun(
    run_id="run-1",
    bundle="b/run-1",
    workflow="fix",
    outcome="pass",
    stages=(STAGE,),
    calls={"Write": 1},
    patch=PATCH,
    use=RunUse(turns=1, answers=2, tokens=240, usd=0.0008, duration_ms=1200, models=("m",)),
)
OTHER_USE = RunUse(turns=1, answers=3, tokens=400, usd=0.5, duration_ms=9900, models=("m",))
GATE = RecordedStage(node="fix-until", outcome="fail")


def with_stage(**fields: Any) -> dict[str, Any]:
    return {"stages": (replace(STAGE, **fields),)}


@pytest.mark.parametrize(
    ("changes", "rows", "exit_code"),
    [
        (
            {"use": OTHER_USE},
            ["the same  outcome pass, 1 stage, 1 changed file, last messages, 1 tool call"],
            0,
        ),
        ({"outcome": "fail"}, ["outcome   pass -> fail"], 1),
        ({"outcome": "inconclusive"}, ["outcome   pass -> inconclusive"], 3),
        ({"outcome": "error"}, ["outcome   pass -> error"], 3),
        (
            with_stage(outcome="error", reason="It died."),
            ["outcome   pass in both", "stage     fix: pass -> error (It died.)"],
            0,
        ),
        (
            {"stages": (STAGE, GATE)},
            ["outcome   pass in both", "stage     fix-until: did not run -> fail"],
            0,
        ),
        ({"stages": ()}, ["outcome   pass in both", "stage     fix: pass -> did not run"], 0),
        (
            with_stage(question="r", before="u"),
            [
                "outcome   pass in both",
                "stage     fix: it began with other files, its agent or what it was asked differs",
            ],
            0,
        ),
        (
            with_stage(message="Done.\nAll of it."),
            [
                "outcome   pass in both",
                "stage     fix: another last message",
                "          + All of it.",
            ],
            0,
        ),
        (
            with_stage(message="Done.") | {"calls": {"Bash": 2}},
            ["outcome   pass in both", "calls     Bash 0 -> 2, Write 1 -> 0"],
            0,
        ),
        (
            {"patch": PATCH.replace(b"+    return open(path)", b"+    return path")},
            ["outcome   pass in both", "file      src/load.py: 2 lines differ"],
            0,
        ),
        (
            {"patch": PATCH + ADDED},
            ["outcome   pass in both", "file      new.txt: only the repeat changed it (2 lines)"],
            0,
        ),
        (
            {"patch": b""},
            ["outcome   pass in both", "file      src/load.py: only the run changed it (2 lines)"],
            0,
        ),
        (
            {"patch": PATCH.replace(b"@@ -1,2 +1,2 @@", b"@@ -9,2 +9,2 @@")},
            ["outcome   pass in both", "file      src/load.py: differs, though not in its lines"],
            0,
        ),
    ],
)
def test_what_differs_is_shown_and_the_exit_code_is_about_the_outcome(changes, rows, exit_code):
    comparison = compare_with_repeat(RUN, replace(RUN, run_id="run-2", **changes))
    assert comparison.exit_code == exit_code
    first, second, *further_lines = render_comparison(comparison)
    assert (first, second) == ("repeat    run-2", "of        run-1 (fix)")
    assert further_lines[: len(rows)] == rows
    assert further_lines[len(rows)].startswith("cost      ")
    assert comparison.is_same is rows[0].startswith("the same")


def test_a_criterion_that_came_out_otherwise_is_a_difference():
    change = CriterionChange("clean", "no-todo", "not_applicable", "pass")
    comparison = compare_with_repeat(RUN, RUN, [change])
    assert not comparison.is_same
    rows = [*render_comparison(comparison)]
    assert "criterion clean/no-todo: not_applicable -> pass" in rows


def test_an_outcome_that_was_none_is_the_same_again():
    run = replace(RUN, outcome="error")
    assert compare_with_repeat(run, run).exit_code == 0


def test_use_is_shown_and_says_what_was_not_paid():
    recorded = replace(OTHER_USE, is_recorded=True, models=())
    rows = [*render_comparison(compare_with_repeat(RUN, replace(RUN, use=recorded)))]
    assert rows[3:] == [
        "cost      $0.0008 -> $0.5000 (recorded, not paid)",
        "used      240 -> 400 tokens, 2 -> 3 answers, 1 -> 1 turns, 1.2 -> 9.9 s",
        "model     m -> none",
        "show      vibe-gate bundles show run-1",
    ]


def test_a_long_message_is_cut_and_the_document_has_it_whole():
    text = "\n".join(f"line {number} " + "x" * 90 for number in range(20))
    comparison = compare_with_repeat(RUN, replace(RUN, **with_stage(message=text)))
    rows = [*render_comparison(comparison)]
    assert max(map(len, rows)) <= 80
    assert "          … --json has the rest" in rows
    (stage,) = build_comparison_document(comparison)["stages"]
    assert (stage["message_before"], stage["message_after"]) == ("Done.", text)


def test_hostile_names_and_words_stay_on_their_row():
    hostile = "\nthe same  outcome pass\x1b[2J"
    patch = PATCH.replace(b"a/src/load.py b/src/load.py", b'"a/a\\nb" "b/a\\nb"')
    changes = with_stage(outcome="error", reason=hostile, message=f"x{hostile}")
    comparison = compare_with_repeat(RUN, replace(RUN, patch=patch, calls={hostile: 1}, **changes))
    rows = [*render_comparison(comparison)]
    assert all(row.isprintable() for row in rows)
    assert [row for row in rows if row.startswith("the same")] == []
    assert [file.path for file in comparison.files] == [r'"a\nb"', "src/load.py"]


def test_messages_of_any_length_are_compared_at_once():
    def act(size: int) -> None:
        messages = [" ".join(f"{side} {line}\n" for line in range(size)) for side in "ab"]
        run = replace(RUN, **with_stage(message=messages[0]))
        repeat = replace(RUN, **with_stage(message=messages[1]))
        list(render_comparison(compare_with_repeat(run, repeat)))

    assert_linear(act, int, 20_000)


def test_words_that_stay_in_the_clone_are_not_shown():
    private = replace(RUN, is_private=True, **with_stage(message="What Ada asked for."))
    comparison = compare_with_repeat(RUN, private)
    assert "stage     fix: another last message" in [*render_comparison(comparison)]
    assert "Ada" not in str(build_comparison_document(comparison))


def test_the_document_has_both_patches_of_a_file_that_differs():
    other = PATCH.replace(b"+    return open(path)", b"+    return path")
    document = build_comparison_document(compare_with_repeat(RUN, replace(RUN, patch=other)))
    assert (document["exit_code"], document["same"]) == (0, False)
    (file,) = document["files"]
    assert (file["patch_before"], file["patch_after"]) == (PATCH.decode(), other.decode())


def test_a_binary_file_that_differs_has_no_lines():
    comparison = compare_with_repeat(
        replace(RUN, patch=BINARY % 3333333), replace(RUN, patch=BINARY % 4444444)
    )
    (file,) = comparison.files
    assert file == FileComparison(
        path="x.bin",
        changed_by="both",
        patch_before=(BINARY % 3333333).decode(),
        patch_after=(BINARY % 4444444).decode(),
    )
