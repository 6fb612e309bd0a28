"""The check `command` in a whole review."""

from __future__ import annotations

from command import vibe_gate
from repos import gated

from vibe_gate.domain.document import decode_document
from vibe_gate.domain.summary import Summary

RUBRIC = """\
schema = 1
id = "quality"
[[criterion]]
id = "formatter"
kind = "check"
command = ["sh", "-c", "echo fixed >> a; mkdir build; echo new > build/b"]
[[criterion]]
id = "noise"
kind = "check"
command = ["sh", "-c", "echo first; echo a:1: wrong; echo $PWD/a:1: again; echo last; exit 3"]
options = { output = "none" }
"""


def test_a_review_names_the_file_that_a_command_changed_and_keeps_the_output(tmp_path, environ):
    repo = gated(tmp_path / "r", environ, rubric=RUBRIC)
    repo.commit(a="x\n")
    review = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ)
    assert review.returncode == 1, review.stderr
    assert "changed this file; run it and commit the result." in review.stdout
    assert "note    noise | first" in review.stdout
    assert "note    noise | a:1: again" in review.stdout
    assert "note    formatter" not in review.stdout
    summary = decode_document(
        Summary, vibe_gate("review", "HEAD~1", "--json", cwd=repo.path, environ=environ).stdout
    )
    assert [finding.path for finding in summary.findings] == ["", "a"]
    log = (repo.path / summary.bundle / "checks.log").read_text()
    assert log.startswith("==== formatter: sh -c echo fixed")
    assert log.endswith("(exit code 3)\nfirst\na:1: wrong\na:1: again\nlast\n")
    assert vibe_gate("bundles", "verify", cwd=repo.path, environ=environ).returncode == 0


def test_a_line_that_the_finding_has_is_no_note(tmp_path, environ):
    rubric = RUBRIC[: RUBRIC.index("command")] + 'command = ["sh", "-c", "echo bad; exit 3"]\n'
    repo = gated(tmp_path / "r", environ, rubric=rubric)
    repo.commit(a="x\n")
    screen = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ).stdout
    assert screen.count("exited with 3: bad") == 1
    assert "note " not in screen
