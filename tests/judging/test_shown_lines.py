"""What a second look is shown around quoted lines."""

from __future__ import annotations

from domain.changes import change, file_change
from msgspec.structs import replace

from vibe_gate.domain.change import Side
from vibe_gate.domain.verdict import CheckedEvidence
from vibe_gate.judging.shown_lines import LINES_AROUND, MAX_PARSED, MAX_SHOWN, show_surroundings


def at(line: int, path: str = "a.py", side: Side = "after") -> CheckedEvidence:
    return CheckedEvidence(
        path=path, line=line, end_line=line, quote="x", side=side, standing="holds"
    )


LONG = "".join(f"x{number} = {number}\n" for number in range(1, 201))
FUNCTION = (
    "def f(a):\n" + "".join(f"    a += {number}\n" for number in range(60)) + "    return a\n"
)
BEFORE = {"a.py": LONG.encode(), "f.py": FUNCTION.encode()}
AFTER = {**BEFORE, "a.py": LONG.replace("x100 = 100\n", "y = 100\n").encode()}
CHANGE = change(file_change("a.py", BEFORE["a.py"], AFTER["a.py"]))


def rows(*lines: CheckedEvidence) -> list[str]:
    read = {"after": AFTER.get, "before": BEFORE.get}
    return show_surroundings(lines, CHANGE, read).splitlines()


def test_a_line_is_shown_with_those_around_it_and_the_change_is_marked() -> None:
    head, *code_rows = rows(at(100))
    assert head == "| ==== a.py, after the change"
    assert len(code_rows) == 2 * LINES_AROUND + 1
    assert code_rows[LINES_AROUND] == "   100 +|y = 100"
    assert code_rows[0] == f"{100 - LINES_AROUND:>6}  |x75 = 75"


def test_a_removed_line_is_shown_where_it_stood() -> None:
    head, *code_rows = rows(at(100, side="before"))
    assert head == "| ==== a.py, before the change"
    assert code_rows[LINES_AROUND] == "   100 -|x100 = 100"


def test_a_function_is_shown_whole() -> None:
    head, *code_rows = rows(at(3, "f.py"))
    assert head == "| ==== f.py, after the change"
    assert (code_rows[0], code_rows[-1]) == ("     1  |def f(a):", "    62  |    return a")


def test_lines_of_one_file_are_shown_once_with_a_mark_for_what_is_left_out() -> None:
    code_rows = rows(at(100), at(101), at(180))
    assert sum(row.startswith("| ====") for row in code_rows) == 1
    assert code_rows.count("     ⋮") == 1
    assert len(code_rows) == len(set(code_rows))


def test_what_is_too_long_is_left_out_and_named() -> None:
    wide = "".join(f"{'x' * 390}{number}\n" for number in range(400)).encode()
    read = {"after": {"w.txt": wide}.get, "before": BEFORE.get}
    lines = [at(number, "w.txt") for number in (30, 100, 300)]
    text = show_surroundings(lines, CHANGE, read)
    assert len(text) < MAX_SHOWN + 1_000
    assert text.endswith("| not shown for length: what stands around w.txt:100, w.txt:300")


def test_of_many_files_the_first_are_parsed_and_of_the_others_plain_lines_are_shown() -> None:
    names = [f"f{number}.py" for number in range(MAX_PARSED + 1)]
    files = dict.fromkeys(names, FUNCTION.encode())
    read = {"after": files.get, "before": files.get}
    text = show_surroundings([at(3, name) for name in names], CHANGE, read)
    assert text.count("    62  |    return a") == MAX_PARSED
    assert text.count("     3  |    a += 1") == MAX_PARSED + 1


def test_a_renamed_file_is_shown_by_its_old_name_before_the_change() -> None:
    moved = replace(file_change("new.py", b"x = 1\n", b"x = 2\n"), old_path="old.py")
    read = {"after": {}.get, "before": {"old.py": b"x = 1\n"}.get}
    text = show_surroundings([at(1, "new.py", "before")], change(moved), read)
    assert text.endswith("     1 -|x = 1")


def test_a_file_that_cannot_be_read_is_not_shown() -> None:
    assert rows(at(1, "gone.py")) == []
