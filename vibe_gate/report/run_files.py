"""Where the files of a reported run are, in the words of its comment and job summary. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_gate.report.comment_diffs import FINDING_DIFFS, MADE_DIFFS, RISKY_DIFFS
from vibe_gate.report.markdown import escape_code
from vibe_gate.report.report import ArtifactContent, Report

_FOLDER = "in the folder of the output `artifact-path`"

_NOT_UPLOADED = "not uploaded (`artifact: none`)"

_FULL_ADDS = "`artifact: full` adds contents and conversations"

_JOB_FILES: Mapping[tuple[ArtifactContent, bool], str] = {
    ("full", True): "its bundle is an artifact of the job: open report.html in it",
    ("full", False): f"its bundle is {_FOLDER}",
    ("summary", True): (
        f"its summary is an artifact of the job: open report.html in it. {_FULL_ADDS}"
    ),
    ("summary", False): f"its summary is {_FOLDER}. {_FULL_ADDS}",
    ("none", True): f"it is {_NOT_UPLOADED}",
    ("none", False): f"it is {_NOT_UPLOADED}",
}
"""Of a job of the Action, by what it hands over and whether a step of action.yml uploads that."""


def describe_run_files(report: Report) -> str:
    """What of the run is kept and where, without the capital and the full stop of a sentence."""
    if report.claimed:
        return "its summary is an artifact of that job"
    if not report.summary.bundle:
        return "it was not recorded"
    if report.artifact is not None:
        return _JOB_FILES[report.artifact, report.is_uploaded]
    if report.links is None:
        return f"its bundle is {escape_code(report.summary.bundle)}"
    return "its bundle is in the clone that posted this"


def made_patch_clause(report: Report, name: str) -> str:
    """Where the patch of what agents changed is, behind "the whole patch "; `name`: its file's."""
    if report.artifact == "none":
        return f"is {_NOT_UPLOADED}"
    if not report.is_uploaded:
        return f"is {name} {_FOLDER}"
    return f"is {name} in the artifact"


def place_beside_comment(report: Report) -> str:
    """Where a reader finds what did not fit the comment or the check run."""
    if report.artifact is None and not report.claimed:
        command = escape_code(f"vibe-gate report {report.summary.run_id}")
        return f"{command} in the clone that posted this"
    if report.links is None or not report.links.run_url:
        return "the job's summary"
    return f"[the job's summary]({report.links.run_url})"


def places_beside_summary(report: Report) -> Mapping[str, str]:
    """Where a reader finds what did not fit the job's summary: by the name of a block, "" for all
    others.
    """
    return {
        "": _file_place(report, "summary.json"),
        FINDING_DIFFS: "the change itself",
        RISKY_DIFFS: "the change itself",
        MADE_DIFFS: _file_place(report, "made.patch"),
    }


def _file_place(report: Report, name: str) -> str:
    """A file of the run, and where it is."""
    if report.claimed:
        return f"{name} in the artifact of that job"
    if report.artifact is None:
        return f"{name} in the bundle"
    if report.artifact == "none":
        return f"{name}, which is {_NOT_UPLOADED}"
    if not report.is_uploaded:
        return f"{name} {_FOLDER}"
    return f"{name} in the artifact"
