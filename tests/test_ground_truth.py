"""The kit that runs public bugs through the gate, on a bug and a pull request made for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from repos import Repo

from bench import ground_truth
from bench._public_cases import Case, bugs, differences, only, repository, said
from vibe_gate.sandbox import wall_lack

FIXED = 'def first(items, count):\n    """The first `count` items."""\n    return items[:count]\n'
BUGGY = FIXED.replace("[:count]", "[:count - 1]")
TESTS = """\
import unittest

from things import first

ITEMS = [1, 2, 3]
OTHERS = [4]


class TestFirst(unittest.TestCase):
    def setUp(self):
        self.items = list(ITEMS)

    def test_none(self):
        self.assertEqual(first(OTHERS, 0), [])

    def test_two(self):
        self.assertEqual(first(self.items, 2), [1, 2])


def unused():
    return OTHERS
"""


@pytest.fixture
def public(tmp_path: Path, environ: dict[str, str]) -> tuple[Path, Path, Path]:
    """Clones of a collection of bugs, of one of differences, and of the project that both name."""
    project = Repo(tmp_path / "things", environ)
    buggy = project.commit(
        "Bug", **{"things.py": BUGGY, "tests/test_things.py": "import unittest\n"}
    )
    fixed = project.commit("Fix (#7)", **{"things.py": FIXED, "tests/test_things.py": TESTS})
    collection, folder = Repo(tmp_path / "bugs", environ), "projects/tqdm/bugs/1"
    bug_info = (
        f'fixed_commit_id="{fixed}"\nbuggy_commit_id="{buggy}"\ntest_file="tests/test_things.py"\n'
    )
    command = "python -m unittest tests.test_things.TestFirst.test_two\r\n"
    collection.commit("Bugs", **{f"{folder}/bug.info": bug_info, f"{folder}/run_test.sh": command})
    code, old = "from things import first\nprint(first([1, 2], 2))", "[1]\n"
    labelled = [{"label": "intended", "test": {"test_code": code, "old_output": old}}]
    labels = json.dumps(
        {"pr_number": 7, "differentiating_tests": [*labelled, {"label": "unintended"}]}
    )
    testora = Repo(tmp_path / "testora", environ)
    testora.commit("Labels", **{"data/ground_truth/things/7.json": labels})
    return collection.path, testora.path, project.path


@pytest.mark.slow
def test_a_bug_becomes_two_cases_that_are_the_same_bytes_twice(public, tmp_path: Path) -> None:
    collection, testora, project = public
    [bug] = bugs(collection, "tqdm", project)
    assert isinstance(bug, Case)
    assert (bug.changed.text, bug.changed.side) == ("    return items[:count - 1]", "after")
    assert (bug.obliges, bug.obligation and bug.obligation.line) == ("docstring", 2)
    back = bug.turned()
    assert back is not None
    assert (back.before, back.after, back.changed.text) == (
        bug.after,
        bug.before,
        "    return items[:count]",
    )
    repositories = [
        repository(tmp_path / name, bug, {".vibe-gate/gate.toml": "schema = 1\n"})
        for name in ("a", "b")
    ]
    assert repositories[0] == repositories[1]
    [difference] = differences(testora, "things", project)
    assert isinstance(difference, Case)
    assert (difference.after, difference.obligation, "EXPECTED = ['[1]']" in difference.test) == (
        bug.before,
        None,
        True,
    )


def test_a_test_is_cut_to_itself_and_what_it_needs() -> None:
    excerpt = only(TESTS, [("TestFirst", "test_two")])
    are_present = [
        part in excerpt
        for part in ("ITEMS = [1", "def setUp", "def test_two", "OTHERS", "def test_none", "unused")
    ]
    assert are_present == [True, True, True, False, False, False]


def test_of_a_traceback_the_error_is_compared_and_of_a_warning_nothing() -> None:
    printed = '1\nTraceback (most recent call last):\n  File "/tmp/a.py", line 6\n    f()\na.B.LoadError: x\n'
    assert said(f"{printed}/usr/a.py:3: Warning: no data\n  warn(1)\n") == ["1", "a.B.LoadError: x"]


@pytest.mark.slow  # three reviews and a dozen runs of real tests
@pytest.mark.skipif(sys.platform != "linux" or bool(wall_lack()), reason="this system has no wall")
def test_the_kit_reviews_a_bug_and_its_fix(
    public, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collection, _, project = public
    python = Path(sys.base_prefix, "bin", "python3")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(python)
    (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {python.parent}\n")
    options = [
        "--bugsinpy",
        str(collection),
        "--project",
        "tqdm",
        str(project),
        str(tmp_path / "env"),
    ]
    work = tmp_path / "work"
    is_met = ground_truth.main([*options, "--work", str(work)]) == 0
    results = {row["kind"]: row for row in json.loads((work / "results.json").read_text())["seen"]}
    printed = capsys.readouterr().out
    assert (results["bug"]["status"], results["bug"]["code"]) == ("proven", 1), printed
    assert (results["fix"]["status"], results["fix"]["outcome"]) == ("void", "abstain")
    assert is_met, printed
