"""A check run: annotations in batches, its conclusion only with the last, nothing appended
twice.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract.github import LoopbackGitHub

from vibe_gate.errors import ForgeError
from vibe_gate.forge import Forge

HEAD = "a" * 40
CREATE = "/repos/{owner}/{repo}/check-runs"
UPDATE = "/repos/{owner}/{repo}/check-runs/{check_run_id}"


def annotated_lines(github: LoopbackGitHub) -> list[int]:
    return [annotation["start_line"] for annotation in github.check_runs[0].annotations]


@pytest.mark.parametrize(("count", "writes"), [(0, 1), (50, 1), (51, 2), (400, 8)])
def test_annotations_go_fifty_at_a_time(
    github: LoopbackGitHub, forge: Forge, run: Callable[..., object], count: int, writes: int
) -> None:
    posted = forge.check_run(HEAD, "gate", run(count, text="More", conclusion="action_required"))
    [check_run] = github.check_runs
    assert annotated_lines(github) == list(range(1, count + 1))
    assert check_run.sent["status"] == "completed"
    assert check_run.sent["conclusion"] == "action_required"
    assert check_run.output == {"title": "1 criterion failed", "summary": "Details", "text": "More"}
    assert (posted.url, posted.missing, posted.reason) == (
        f"{github.server_url}/octo/hello/runs/{check_run.id}",
        0,
        "",
    )
    assert (github.writes, github.requests) == (writes, writes)


def test_until_the_last_batch_there_is_no_conclusion(
    github: LoopbackGitHub, forge: Forge, run: Callable[..., object]
) -> None:
    github.fail("PATCH", UPDATE, 403, times=None)
    with pytest.raises(ForgeError, match="update the check run"):
        forge.check_run(HEAD, "gate", run(51))
    assert github.check_runs[0].sent["status"] == "in_progress"
    assert "conclusion" not in github.check_runs[0].sent


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 422, "message": "Invalid request."},
        {"cut_when": "before"},
        {"cut_when": "after"},
        {"status": 502},
    ],
)
@pytest.mark.parametrize("batch", ["middle", "last"])
def test_annotations_that_are_lost_do_not_keep_the_conclusion_back_and_are_never_sent_twice(
    github: LoopbackGitHub,
    forge: Forge,
    run: Callable[..., object],
    fault: dict[str, object],
    batch: str,
) -> None:
    if batch == "last":
        github.fail("PATCH", UPDATE, delay=0.001)  # the one in the middle goes well
    github.fail("PATCH", UPDATE, **fault)
    posted = forge.check_run(HEAD, "gate", run(120))
    assert (posted.missing, bool(posted.reason)) == ({"middle": 70, "last": 20}[batch], True)
    assert github.check_runs[0].sent["conclusion"] == "failure"
    assert annotated_lines(github) == sorted(set(annotated_lines(github)))


@pytest.mark.parametrize("fault", [{"cut_when": "after"}, {"status": 502}])
def test_a_check_run_is_not_made_twice(
    github: LoopbackGitHub, forge: Forge, run: Callable[..., object], fault: dict[str, object]
) -> None:
    github.fail("POST", CREATE, **fault)
    with pytest.raises(ForgeError, match="create a check run"):
        forge.check_run(HEAD, "gate", run())
    assert len(github.check_runs) <= 1


def test_a_first_batch_that_is_refused_leaves_the_conclusion_alone(
    github: LoopbackGitHub, forge: Forge, run: Callable[..., object]
) -> None:
    github.fail("POST", CREATE, 422, message="Invalid request.")
    posted = forge.check_run(HEAD, "gate", run(120))
    assert (posted.missing, "Invalid request." in posted.reason) == (120, True)
    [check_run] = github.check_runs
    assert (check_run.sent["status"], check_run.sent["conclusion"], check_run.annotations) == (
        "completed",
        "failure",
        [],
    )
    assert github.writes == 1


def test_a_persons_token_may_not_make_one_and_the_refusal_says_why(
    github: LoopbackGitHub, opened: Callable[..., Forge], run: Callable[..., object]
) -> None:
    with pytest.raises(ForgeError, match="You must authenticate via a GitHub App") as caught:
        opened(github.person("ada")).check_run(HEAD, "gate", run())
    assert (caught.value.status, github.writes) == (403, 0)


def test_a_path_that_is_no_text_does_not_stop_the_others(
    github: LoopbackGitHub, forge: Forge, run: Callable[..., object]
) -> None:
    posted = forge.check_run(HEAD, "gate", run(2, summary="caf\udce9"))
    assert posted.missing == 0
    assert github.check_runs[0].output["summary"] == "caf?"
