"""The verdict line is the same on every face, and no confirmed fail is lost in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command import on_a_terminal, vibe_gate
from hooked import Hooked
from repos import GATE, Repo, gated

from vibe_gate.domain.document import decode_document
from vibe_gate.domain.summary import Summary
from vibe_gate.report import annotations, comment, sentences
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round

RUBRIC = """\
schema = 1
id = "quality"
pass_threshold = {threshold}
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
options = {{ pattern = "TODO" }}
[[criterion]]
id = "no-secrets"
kind = "check"
check = "no-secrets"
[[criterion]]
id = "small"
kind = "check"
check = "max-changed-lines"
options = {{ max = {lines} }}
"""
"""Without a must: only the score blocks."""


def commit_marker(path: Path, environ: dict[str, str], threshold: float, lines: int = 9) -> Repo:
    repo = gated(path, environ, rubric=RUBRIC.format(threshold=threshold, lines=lines))
    repo.commit(a="TODO\n")
    return repo


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threshold", "lines", "expected"),
    [
        (0.5, 9, "PASS with 1 warning · quality"),
        (0.3, 0, "PASS with 2 warnings · quality"),
        (
            0.7,
            9,
            "FAIL · quality: score 0.67 is under the threshold of 0.70: no-todo failed (weight 1 of 3)",
        ),
    ],
)
def test_a_confirmed_fail_is_a_warning_or_a_failure_on_every_face(
    tmp_path, environ, threshold, lines, expected
):
    repo = commit_marker(tmp_path / "r", environ, threshold, lines)
    options = ("--json", "--sarif", "../s", "--junit", "../j", "--markdown", "../m")
    review = vibe_gate("review", "HEAD~1", *options, cwd=repo.path, environ=environ)
    summary = decode_document(Summary, review.stdout)
    blocks = expected.startswith("FAIL")
    assert {finding.level for finding in summary.findings} == {"failure" if blocks else "warning"}
    assert {finding.criterion for finding in summary.findings} == {
        criterion.id for criterion in summary.rubrics[0].criteria if criterion.outcome == "fail"
    }
    report = Report(summary, (), first_round(summary.findings, ""))
    verdict = expected.partition(" · ")[0]
    assert sentences.verdict_headline(summary) == expected
    assert annotations.check_title(report).startswith(f"{verdict} · ")
    screen = on_a_terminal(repo.path, {**environ, "TERM": "dumb"}, "review", "HEAD~1")[1]
    first = " ".join(line.strip() for line in screen.splitlines()[:2])
    assert first[2:].startswith(expected)
    run = json.loads((tmp_path / "s").read_text())["runs"][0]
    assert run["invocations"][0]["exitCodeDescription"] == expected
    assert {result["level"] for result in run["results"]} == {"error" if blocks else "warning"}
    junit = (tmp_path / "j").read_text()
    assert expected in junit
    assert ('failures="0"' in junit.splitlines()[1]) is not blocks
    assert comment.render_comment(report).splitlines()[1] == f"### vibe-gate: {verdict}"
    assert (tmp_path / "m").read_text().startswith(f"### vibe-gate: {verdict}\n")


def test_a_hook_lets_a_warning_through_and_says_it(plain):
    rubrics = plain.path / ".vibe-gate" / "rubrics"
    rubrics.mkdir(parents=True)
    (rubrics.parent / "gate.toml").write_text(GATE)
    (rubrics / "quality.toml").write_text(RUBRIC.format(threshold=0.5, lines=99))
    plain.git("add", "-A")
    plain.git("commit", "-q", "--no-verify", "-m", "gate")
    plain.write(a="TODO\n")
    output = plain.git(
        "commit", "-q", "-a", "-m", "x\n\nCo-authored-by: Claude <noreply@anthropic.com>\n"
    )
    assert (
        output
        == "vibe-gate: PASS with 1 warning | quality (no-todo in a); `vibe-gate bundles show` lists the findings"
    )


def test_concise_is_a_line_a_finding_and_quiet_is_silent_on_a_pass_without_warnings(
    tmp_path, environ
):
    repo = commit_marker(tmp_path / "r", environ, 0.5)
    forms = ("--concise", "--quiet")
    reviews = {
        form: vibe_gate("review", "HEAD~1", form, cwd=repo.path, environ=environ) for form in forms
    }
    finding, verdict = reviews["--concise"].stdout.splitlines()
    assert re.fullmatch(r"a:1: warning: .*TODO.* \[no-todo\] \[[0-9a-f]{8}\]", finding)
    assert verdict == "PASS with 1 warning · quality"
    assert "PASS with 1 warning · quality\n" in reviews["--quiet"].stdout
    repo.commit(a="done\n")
    silent = vibe_gate("review", "HEAD~1", "--quiet", cwd=repo.path, environ=environ)
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")


@pytest.fixture
def keyless(tmp_path, environ) -> Repo:
    repo = Repo(tmp_path / "r", environ)
    repo.commit(a="one\n")
    repo.commit(a="two\n")
    return repo


def test_without_a_key_the_built_in_questions_are_left_out_on_one_short_screen(keyless, environ):
    review = vibe_gate("review", "HEAD~1", cwd=keyless.path, environ=environ)
    assert review.stdout.startswith("✓ PASS (checks only) · 6 questions not asked: no API key\n")
    assert (review.returncode, review.stdout.count("\n") <= 12) == (0, True)
    assert review.stdout.count("vibe-gate init") == 1


def test_a_gate_of_ones_own_and_ci_demand_the_answers(keyless, environ, tmp_path):
    review = vibe_gate(
        "review", "HEAD~1", "--json", cwd=keyless.path, environ={**environ, "CI": "1"}
    )
    assert (review.returncode, json.loads(review.stdout)["outcome"]) == (3, "inconclusive")
    own_repo = gated(tmp_path / "own", environ)
    own_repo.commit(a="x\n")
    assert vibe_gate("review", "HEAD~1", cwd=own_repo.path, environ=environ).returncode == 3


@pytest.mark.slow
def test_a_keyless_pass_prints_one_line_of_an_agents_commit_and_nothing_of_a_persons(plain: Hooked):
    line = "vibe-gate: PASS (checks only) | 6 questions not asked: no API key"
    plain.write(a="x\n")
    assert plain.git("commit", "-q", "-a", "-m", "x", CLAUDECODE="1") == line
    plain.write(a="y\n")
    assert plain.git("commit", "-q", "-a", "-m", "y") == ""
    plain.write(a="z\n")
    trailer = "z\n\nCo-authored-by: Claude <noreply@anthropic.com>\n"
    assert (
        plain.git("commit", "-q", "-a", "-m", trailer) == line
    )  # only commit-msg sees the trailer
