"""`vibe-gate explain`: one finding of a stored run, and what to do about it."""

from __future__ import annotations

import json

import pytest
from standing import CODE, Gated

pytestmark = pytest.mark.slow


@pytest.fixture
def gated(tmp_path, environ) -> Gated:
    return Gated(tmp_path / "repo", environ)


def test_a_finding_is_explained_with_what_people_said_and_what_to_do_next(gated):
    gated.write("src/pay.py", CODE + "# TODO\n")
    gated.git("add", "-A")
    [finding] = [
        finding for finding in gated.review("--staged")["findings"] if finding["level"] == "failure"
    ]
    name = finding["fingerprint"]
    screen = gated.run("review", "--staged").out
    words = " ".join(screen.split())
    assert f"vibe-gate explain {name[:8]}; to accept one: vibe-gate override {name[:8]}" in words
    assert "if it is wrong" not in words
    explanation = gated.run("explain", name[:6]).out
    assert len(explanation.splitlines()) <= 24
    assert max(map(len, explanation.splitlines())) <= 80
    assert "(check forbidden-pattern)" in explanation
    assert "| # TODO" in explanation
    assert "no label, not accepted" in explanation
    assert f"vibe-gate override {name[:8]} --reason TEXT" in explanation
    gated.run("label", name, "wrong", "--reason", "a note")
    gated.run("override", name, "--reason", "meant")
    explanation = gated.run("explain", name).out
    assert "wrong, says Ada <ada@example.org>: a note" in explanation
    assert "accepted by Ada <ada@example.org> until" in explanation
    document = json.loads(gated.run("explain", name, "--json").out)
    assert (document["finding"]["fingerprint"], document["exit_code"]) == (name, 0)
    assert [label["right"] for label in document["labels"]] == [False]


def test_what_is_no_finding_is_one_sentence(gated):
    for name in ("zz", "abcdef12"):
        result = gated.run("explain", name)
        assert (result.code, result.out, len(result.err.splitlines()) <= 2) == (2, "", True)


def test_a_criterion_names_its_finding_if_the_newest_run_has_one_of_it(gated):
    gated.write("src/pay.py", CODE + "# TODO\n")
    gated.git("add", "-A")
    [finding] = gated.review("--staged")["findings"]
    document = json.loads(gated.run("explain", "no-todo", "--json").out)
    assert document["finding"]["fingerprint"] == finding["fingerprint"]
    choice = f"{finding['fingerprint'][:8]} (no-todo, src/pay.py:{finding['line']})"
    assert f"name one of: {choice}." in " ".join(gated.run("explain", "no-tabs").err.split())


def test_a_criterion_with_several_findings_names_them(gated):
    for name in ("pay", "cart"):
        gated.write(f"src/{name}.py", CODE + "# TODO\n")
    gated.git("add", "-A")
    findings = gated.review("--staged")["findings"]
    sentence = " ".join(gated.run("explain", "no-todo").err.split())
    assert "no-todo has 2 findings in the newest run (" in sentence
    assert [finding["fingerprint"][:8] in sentence for finding in findings] == [True, True]
