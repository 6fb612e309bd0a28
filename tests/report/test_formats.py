"""SARIF, JUnit and Code Quality: valid by their own schemas, whatever was found, and saying what
the verdict says.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator
from lxml import etree
from msgspec.structs import replace
from reports import COUNTEREXAMPLE, first
from summaries import criterion, failed, finding, policy, rubric, summary, unseen, waived, waiver

from vibe_gate.domain import paths
from vibe_gate.domain.verdict import CheckedEvidence, FindingPlace, Proof, SecondLook
from vibe_gate.report.code_quality import render_code_quality
from vibe_gate.report.junit import render_junit
from vibe_gate.report.sarif import render_sarif

SCHEMAS = Path(__file__).parent / "schemas"
SARIF = Draft4Validator(json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text()))
JUNIT = etree.XMLSchema(etree.parse(SCHEMAS / "junit-10.xsd"))
HEAD = "abcdef0123456789abcdef0123456789abcdef01"
HIDDEN = finding("The line 2 of this file holds a character.", line=2, path="a.py")


def removed(**fields):
    evidence = CheckedEvidence(
        path="src/a.py", line=9, end_line=9, quote="gone()", side="before", standing="holds"
    )
    return finding("the check is gone", line=9, evidence=(evidence,), **fields)


def log(summary, *arguments) -> dict:
    text = render_sarif(summary, *arguments)
    document = json.loads(text)
    SARIF.validate(document)
    assert text == render_sarif(summary, *arguments)
    return document["runs"][0]


def cases(summary) -> dict[str, str]:
    tree = etree.fromstring(render_junit(summary).encode())
    JUNIT.assertValid(tree)
    for suite in tree:
        assert int(suite.get("tests")) == len(suite)
        for kind, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.get(count)) == len(suite.findall(f"testcase/{kind}"))
    rows = ((case.get("name"), case.find("*[@type]")) for case in tree.iter("testcase"))
    return {
        name: "passed" if mark is None else f"{mark.tag}: {mark.get('type')}" for name, mark in rows
    }


def entries(summary) -> list[dict]:
    code_quality = json.loads(render_code_quality(summary))
    for entry in code_quality:
        field_names = {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry.keys() - {"other_locations"} == field_names
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert entry["location"]["path"]
        assert not entry["location"]["path"].startswith("/")
        assert entry["location"]["lines"]["begin"] >= 1
    assert len({entry["fingerprint"] for entry in code_quality}) == len(code_quality)
    return code_quality


RUNS = {
    "pass": summary(),
    "fail": failed(
        3, 2, policy_changes=(policy(),), unreviewed=(unseen(), unseen(reason="[x](http://y)"))
    ),
    "nothing": summary(run_id="", rubrics=(), files=()),
    "inconclusive": summary(outcome="inconclusive", exit_code=3, unreviewed=(unseen(),)),
    "approval": summary(exit_code=4, policy_changes=(policy(),)),
    "integrity": summary(outcome="error", exit_code=5),
    "odd": failed(
        0, 0, first_findings=(finding(path="", line=0), finding(line=0), removed(), HIDDEN)
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_run_is_valid_in_every_format(name):
    log(RUNS[name])
    cases(RUNS[name])
    entries(RUNS[name])


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    st.text(max_size=280), st.integers(0, 10**6), st.sampled_from(["failure", "warning", "notice"])
)
def test_any_text_is_valid_in_every_format(text, line, level):
    path = paths.quote(text.replace("\0", "?"))
    proof = Proof(status="proven", reason=text, path=path, test=text, command=text)
    look = SecondLook(outcome="refuted", said="refuted", reason=text)
    quote = CheckedEvidence(path=path, line=1, end_line=1, quote=text, standing="holds")
    odd_finding = finding(
        text, line=line, path=path, criterion=text, level=level, proof=proof, second_look=look,
        other_places=(FindingPlace(path=path, line=line + 1, end_line=0),), also=(quote,),
        counterexample=text, remark="answer",
    )  # fmt: skip
    bad = criterion("held", "fail", reason=text)
    failure = failed(
        0,
        0,
        first_findings=(odd_finding,),
        rubrics=(rubric(bad, outcome="fail"),),
        unreviewed=(unseen(text, text),),
    )
    log(failure)
    cases(failure)
    entries(failure)


def test_a_sarif_result_has_place_level_rule_and_fingerprint():
    run = log(
        failed(
            0, 1, first_findings=(finding(path='"a\\303\\251 b\\377.py"', fingerprint="f" * 16),)
        )
    )
    (result,) = run["results"]
    assert result["level"] == "error"
    assert (
        run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]
        == result["ruleId"]
        == "errors-not-swallowed"
    )
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%C3%A9%20b%FF.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 41, "endLine": 41}
    assert result["partialFingerprints"]["vibeGateFinding/v1"] == "f" * 16


def test_what_was_let_pass_is_suppressed_with_the_sentence_of_whoever_did():
    rule = waiver("jo", "a fixture", expires=date(2026, 2, 1), local=False)
    (result,) = log(failed(0, 0, first_findings=(waived(finding("a secret"), rule),)))["results"]
    (suppression,) = result["suppressions"]
    assert suppression["justification"] == "suppressed by jo until 2026-02-01: a fixture"
    blocks = finding("suppressed by jo: says a model", level="failure")
    assert "suppressions" not in log(failed(0, 0, first_findings=(blocks,)))["results"][0]


def test_what_has_no_place_is_a_notification_and_so_is_what_nobody_saw():
    run = log(
        failed(
            0,
            0,
            first_findings=(finding("too many lines", path="", line=0), removed()),
            unreviewed=(unseen(),),
        )
    )
    notifications = run["invocations"][0]["toolExecutionNotifications"]
    assert [notification["message"]["text"] for notification in notifications] == [
        "too many lines",
        "No judge saw this: the budget was reached",
    ]
    assert "region" not in run["results"][0]["locations"][0]["physicalLocation"]
    assert run["results"][0]["message"]["text"].startswith("(removed: src/a.py:9) ")


@pytest.mark.parametrize(
    ("code", "successful"), [(0, True), (1, True), (3, False), (4, True), (5, False)]
)
def test_sarif_says_whether_the_review_could_be_carried_out(code, successful):
    assert log(summary(exit_code=code))["invocations"][0]["executionSuccessful"] is successful


def test_sarif_tells_what_would_go_wrong():
    run_summary = first().summary
    bare = replace(run_summary, findings=(replace(run_summary.findings[0], message="It hides"),))
    assert (
        log(bare)["results"][0]["message"]["text"] == f"It hides. Counterexample: {COUNTEREXAMPLE}"
    )
    assert log(run_summary)["results"][0]["message"]["text"].endswith(
        f"nothing. Counterexample: {COUNTEREXAMPLE}"
    )


@pytest.mark.slow
def test_a_remark_of_a_sarif_result_stands_within_its_sentence():
    remark = finding("A name is short.", level="warning", remark="answer", counterexample="n -> ?")
    [result] = log(summary(findings=(remark,)))["results"]
    text = "A name is short (not worth stopping for). Counterexample: n -> ?"
    assert result["message"]["text"] == text


def test_sarif_keeps_the_gravest_and_counts_the_rest():
    findings = [finding("a warning", line=n + 1, level="warning") for n in range(5_000)]
    text = render_sarif(failed(0, 0, first_findings=(*findings, finding("the grave one"))))
    document = json.loads(text)
    (run,) = document["runs"]
    assert run["results"][0]["message"]["text"] == "the grave one"
    assert len(run["results"]) == 5_000
    notification = run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert notification.startswith("1 more results are left out")
    run["results"] = run["results"][:20]  # the others differ in their lines alone
    SARIF.validate(document)


def test_a_junit_case_fails_exactly_where_the_run_does():
    overridden = waived(finding("x", criterion="waived"), waiver("jo", "fine"))
    kinds = [criterion("ok"), criterion("bad", "fail"), criterion("waived", "fail"), criterion("open", "abstain"),
             criterion("broken", "error"), criterion("out-of-scope", "not_applicable")]  # fmt: skip
    lenient = rubric(criterion("minor", "fail", must=False), id="lenient")
    failure = failed(
        0, 0, first_findings=(overridden,), rubrics=(rubric(*kinds, outcome="fail"), lenient)
    )
    assert cases(failure) == {
        "verdict": "failure: fail",
        "ok": "passed",
        "bad": "failure: fail",
        "waived": "skipped: let pass",
        "open": "error: abstain",
        "broken": "error: error",
        "out-of-scope": "skipped: not applicable",
        "minor": "skipped: advisory",
    }


@pytest.mark.parametrize(
    ("name", "case"),
    [("pass", "passed"), ("nothing", "passed"), ("fail", "failure: fail"), ("inconclusive", "error: inconclusive"),
     ("approval", "error: pass"), ("integrity", "error: error")],
)  # fmt: skip
def test_the_case_verdict_is_the_run(name, case):
    assert cases(RUNS[name])["verdict"] == case


def test_the_failed_case_verdict_names_first_what_blocks():
    blocker = finding("the change is large", path="", line=0, level="warning", criterion="size")
    text = render_junit(failed(0, 0, first_findings=(blocker, finding("x", 3), finding("y", 9))))
    body = etree.fromstring(text.encode()).find(".//testcase[@name='verdict']/failure").text
    assert [line.split()[0] for line in body.splitlines()] == ["failure", "failure", "warning"]


def test_characters_that_xml_cannot_hold_are_written_out():
    text = render_junit(
        failed(
            0,
            0,
            rubrics=(
                rubric(criterion("x", "fail", reason="a\x00b\x0bc\ufffe]]>"), outcome="fail"),
            ),
        )
    )
    assert "a\\x00b\\x0bc\\ufffe]]&gt;" in text


def test_findings_of_one_fingerprint_are_entries_of_their_own():
    findings = (finding("here", 1), finding("there", 2), finding("there", 2))
    equal = tuple(replace(namesake, fingerprint="0123456789abcdef") for namesake in findings)
    lines = [
        entry["location"]["lines"]["begin"] for entry in entries(failed(0, 0, first_findings=equal))
    ]
    assert lines[1:] == [1, 2, 2]


def test_a_code_quality_path_is_the_repositorys_own():
    findings = (
        finding(path='"a\\303\\251\\t.py"'),
        finding(path='"\\377.py"'),
        finding(path="", line=0),
        removed(),
    )
    code_quality = entries(failed(0, 0, first_findings=findings))
    assert [entry["location"]["path"] for entry in code_quality[1:]] == [
        "aé\t.py",
        '"\\377.py"',
        ".",
        "src/a.py",
    ]
    assert code_quality[4]["location"]["lines"] == {"begin": 1, "end": 1}


def test_a_run_that_did_not_pass_is_never_an_empty_report():
    assert entries(RUNS["pass"]) == []
    for name in ("fail", "inconclusive", "approval", "integrity"):
        assert entries(RUNS[name])[0]["severity"] == "blocker"
