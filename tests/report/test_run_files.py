"""Where a comment, a job summary and a check run say that the files of their run are."""

from __future__ import annotations

import re

import pytest
import reports
from msgspec.structs import replace
from test_comment_diffs import wide

from vibe_gate.report.annotations import make_check_run
from vibe_gate.report.comment import render_comment, render_job_summary
from vibe_gate.report.markdown import Block, fit_blocks
from vibe_gate.report.report import Report
from vibe_gate.report.run_files import made_patch_clause, places_beside_summary

FOLDER = "in the folder of the output `artifact-path`"
NOT_UPLOADED = "not uploaded (`artifact: none`)"


def job_report(artifact: str, *, is_uploaded: bool = True, claimed: bool = False) -> Report:
    """A failed run as a job of the Action reports it."""
    return replace(
        reports.first(), artifact=artifact, is_uploaded=is_uploaded, claimed=claimed, number=12
    )


def texts(report: Report) -> list[str]:
    """Everything that is posted about the run as a whole."""
    return [render_comment(report), render_job_summary(report), make_check_run(report).summary]


@pytest.mark.parametrize(
    ("artifact", "is_uploaded", "clause"),
    [
        ("summary", True, "its summary is an artifact of the job: open report.html in it. "
                          "`artifact: full` adds contents and conversations."),
        ("summary", False, f"its summary is {FOLDER}. "
                           "`artifact: full` adds contents and conversations."),
        ("full", True, "its bundle is an artifact of the job: open report.html in it."),
        ("full", False, f"its bundle is {FOLDER}."),
        ("none", True, f"it is {NOT_UPLOADED}."),
        ("none", False, f"it is {NOT_UPLOADED}."),
    ],
)  # fmt: skip
def test_what_is_posted_says_what_the_artifact_holds(artifact, is_uploaded, clause):
    report = job_report(artifact, is_uploaded=is_uploaded)
    for text in texts(report):
        (line,) = re.findall(r"(?m)^.*Run \[.*$", text)
        assert line.endswith(f"(https://github.com/example/ledger/actions/runs/7); {clause}")
        assert ("bundle" in text) == (artifact == "full")


@pytest.mark.parametrize("artifact", [None, "none", "summary", "full"])
def test_what_a_second_job_posts_names_the_summary_of_the_first(artifact):
    for text in texts(job_report(artifact, claimed=True)):
        assert "; its summary is an artifact of that job." in text
        assert "bundle" not in text


def test_outside_of_a_job_the_bundle_is_named_by_its_path_or_its_clone():
    posted = replace(reports.first(), artifact=None)
    assert "; its bundle is in the clone that posted this." in render_comment(posted)
    local = replace(posted, links=None)
    assert f"; its bundle is `{posted.summary.bundle}`." in render_job_summary(local)
    lost = replace(posted, summary=replace(posted.summary, bundle=""), artifact="summary")
    assert "; it was not recorded." in render_comment(lost)


@pytest.mark.parametrize(
    ("report", "findings", "patches"),
    [
        (job_report("summary"), "summary.json in the artifact", "made.patch in the artifact"),
        (job_report("full", is_uploaded=False), f"summary.json {FOLDER}", f"made.patch {FOLDER}"),
        (job_report("none"), f"summary.json, which is {NOT_UPLOADED}",
         f"made.patch, which is {NOT_UPLOADED}"),
        (job_report("none", claimed=True), "summary.json in the artifact of that job",
         "made.patch in the artifact of that job"),
        (replace(reports.first(), artifact=None), "summary.json in the bundle",
         "made.patch in the bundle"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_job_s_summary_is_said_to_be_where_it_is(report, findings, patches):
    places = places_beside_summary(report)
    assert (places[""], places["the diffs of what agents changed"]) == (findings, patches)
    assert places["diff of a finding"] == places["the diffs of whole files"] == "the change itself"


def test_what_does_not_fit_a_comment_from_a_clone_is_in_that_clone():
    body = render_comment(replace(wide(300), artifact=None))
    run_id = wide(1).summary.run_id
    assert f"did not fit: see `vibe-gate report {run_id}` in the clone that posted this." in body
    assert "the job's summary" not in body


def test_the_patch_of_agents_is_where_the_artifact_is():
    assert made_patch_clause(job_report("full"), "made.patch") == "is made.patch in the artifact"
    assert made_patch_clause(job_report("none"), "made.patch") == f"is {NOT_UPLOADED}"
    in_folder = job_report("summary", is_uploaded=False)
    assert made_patch_clause(in_folder, "made.patch") == f"is made.patch {FOLDER}"


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ([Block("x" * 999, 3, "the list of changed files")],
         "**The list of changed files** did not fit: see HERE."),
        ([Block("x" * 999, 3, "finding", "findings")], "**1 finding** did not fit: see HERE."),
        ([Block("x" * 999, 3, "finding", "findings", 1_200)],
         "**1,200 findings** did not fit: see HERE."),
        ([Block("a", 3, "finding", "findings"), Block("x" * 999, 3, "finding", "findings")],
         "**1 more finding** did not fit: see HERE."),
        ([Block("a", 3, "finding", "findings"), Block("x" * 999, 3, "finding", "findings", 2)],
         "**2 more findings** did not fit: see HERE."),
        ([Block("x" * 999, 3, "diff of a finding", "diffs of findings")],
         "**1 diff of a finding** did not fit: see THERE."),
    ],
)  # fmt: skip
def test_what_did_not_fit_is_named_and_counted(blocks, sentence):
    places = {"": "HERE", "diff of a finding": "THERE"}
    text = fit_blocks([Block("verdict", 0, "the verdict"), *blocks], 900, places)
    assert text.endswith(f"{sentence}\n")
    assert len(text) <= 900


@pytest.mark.slow
def test_every_part_of_a_comment_has_a_name_that_says_what_it_is():
    body = render_comment(wide(3_000))
    for subject in re.findall(r"\*\*([^*]+)\*\* did not fit", body):
        assert re.fullmatch(r"[\d,]+ (more )?(findings|diffs of findings)|The [a-z ]+", subject)
    assert "parts" not in body
