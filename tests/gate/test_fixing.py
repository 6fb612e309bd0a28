"""What an agent of a repair says it left alone."""

from __future__ import annotations

from vibe_gate.gate.fixing import left_alone_in, without_left_alone, without_touched_files

MESSAGE = """\
load.py: closes the file.

Left alone:
- docs/load.md:7 says that load never fails
- src/save.py:3 the file is never closed
"""
PATCH = "diff --git a/docs/load.md b/docs/load.md\n--- a/docs/load.md\n+++ b/docs/load.md\n"


def test_what_it_says_of_the_findings_is_what_stands_before_that():
    assert without_left_alone(MESSAGE) == "load.py: closes the file."
    assert without_left_alone("load.py: closes the file.\n") == "load.py: closes the file.\n"


def test_a_line_about_a_file_that_a_later_agent_changed_is_dropped():
    notes = without_touched_files(left_alone_in(MESSAGE), [PATCH])
    assert notes == "- src/save.py:3 the file is never closed"


def test_all_lines_stay_if_no_later_agent_changed_their_files():
    notes = left_alone_in(MESSAGE)
    assert without_touched_files(notes, [PATCH.replace("load.md", "save.md")]) == notes


def test_a_line_that_names_no_place_stays():
    assert without_touched_files("the build is slow", [PATCH]) == "the build is slow"
