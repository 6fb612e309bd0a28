"""A suite that does not use the pytest plugin does not notice it."""

from __future__ import annotations

import re

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import sys, unittest, warnings
import pytest

PLUGIN = "vibe_gate.faces.pytest_plugin"
OURS = {"vibe_gate", "vibe_gate.version", "vibe_gate.faces", PLUGIN, f"{PLUGIN}.marker"}

def test_the_plugin_loads_nothing_but_itself():
    assert {name for name in sys.modules if name.split(".")[0] == "vibe_gate"} <= OURS
    assert not {"pydantic", "pygit2", "rich", "claude_agent_sdk"} & sys.modules.keys()

@pytest.mark.parametrize("number", [1, 2])
def test_fails(number): warnings.warn("old"); assert [number] == [2]
@pytest.mark.xfail
def test_expected(): assert 0
@pytest.mark.skip(reason="later")
def test_skipped(): pass
def test_broken(missing): pass
def test_error_of_a_name_like_ours(): raise RuntimeError("vibe")
class TestCase(unittest.TestCase):
    def test_sub(self):
        with self.subTest(1): self.assertTrue(0)
"""


@pytest.mark.slow
def test_its_output_and_report_are_the_same_bytes_and_nothing_is_loaded(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_suite=SUITE)

    def run(*arguments: str) -> list[str]:
        result = pytester.runpytest_subprocess("-q", "-rA", "--junitxml=report.xml", *arguments)
        text = result.stdout.str().partition("\n")[2] + (pytester.path / "report.xml").read_text()
        return re.sub(r"in \d+\.\d+s|time(stamp)?=\"[^\"]*\"|--basetemp.*", "", text).splitlines()

    ours, plain = run(), run("-p", "no:vibe_gate")
    assert "PASSED test_suite.py::test_the_plugin_loads_nothing_but_itself" in ours
    # Only pytest's own list of the fixtures that there are, below the error of a missing one, names
    # the plugin's.
    assert [line.replace("vibe, vibe_repo, ", "") for line in ours] == plain
