"""The event file: what is read of it, and that nothing else in it matters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from faces import events

from vibe_gate.errors import UsageError
from vibe_gate.faces.action.trigger import read_trigger

A, B = "a" * 40, "b" * 40


@pytest.fixture
def read(tmp_path: Path, environ: dict[str, str]):
    def reader(name: str, event: object, **variables: str):
        return read_trigger(events.runner(tmp_path, name, event, environ, **variables))

    return reader


def test_a_pull_request_is_its_base_and_head_and_never_the_merge_commit(read):
    trigger = read("pull_request", events.pull_request(B, A), GITHUB_SHA="c" * 40)
    assert (trigger.kind, trigger.base, trigger.head, trigger.number) == ("pull_request", B, A, 7)
    assert (trigger.author, trigger.fork, trigger.default_branch) == ("ada", False, "main")


def test_a_review_of_a_pull_request_is_a_pull_request_so_that_an_approval_counts_at_once(read):
    assert read("pull_request_review", events.pull_request(B, A)).number == 7


def test_another_repository_makes_a_fork_and_so_does_one_that_is_gone(read):
    assert read("pull_request", events.pull_request(B, A, fork=True)).fork
    event = events.pull_request(B, A)
    event["pull_request"]["head"]["repo"] = None
    event["pull_request"]["user"] = None
    trigger = read("pull_request", event)
    assert trigger.fork
    assert trigger.author == ""


def test_a_merge_group_names_both_ends_and_the_pull_request_in_its_ref(read):
    trigger = read("merge_group", events.merge_group(B, A, 104))
    assert (trigger.base, trigger.head, trigger.number, trigger.queued) == (B, A, None, 104)


@pytest.mark.parametrize(
    "ref",
    ["refs/heads/main", "x/pr-", "x/pr-abc-1", "x/pr-0-1", "x/pr-99999999999999-1", "x/pr-٣-1"],
)
def test_a_strange_ref_of_a_merge_group_names_no_pull_request(read, ref):
    event = events.merge_group(B, A)
    event["merge_group"]["head_ref"] = ref
    assert read("merge_group", event).queued is None


def test_a_push_says_what_was_there_before_if_anything(read):
    assert read("push", events.push(B, A)).base == B
    assert read("push", events.push(events.NOBODY, A)).base == ""
    assert read("push", events.push(B, events.NOBODY, deleted=True)).head == ""


def test_a_dispatch_is_about_the_commit_of_the_job(read):
    assert read("workflow_dispatch", events.dispatch(), GITHUB_SHA=A).head == A
    with pytest.raises(UsageError, match="GITHUB_SHA"):
        read("workflow_dispatch", events.dispatch())


def test_a_schedule_is_about_the_default_branch_and_needs_no_payload(read):
    around = {"GITHUB_SHA": A, "GITHUB_REF": "refs/heads/trunk"}
    for event in (
        {"schedule": "1 2 * * *"},
        {"repository": {"full_name": "octo/hello", "default_branch": "main"}},
    ):
        trigger = read("schedule", event, **around)
        assert (trigger.head, trigger.repository, trigger.default_branch) == (
            A,
            "octo/hello",
            "trunk",
        )


def test_a_workflow_run_names_the_other_run(read):
    trigger = read("workflow_run", events.workflow_run(A, origin="eve/hello"))
    assert (trigger.head, trigger.run, trigger.fork, trigger.origin) == (A, 99, True, "eve/hello")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pull_request_target", "runs with the secrets.*Use `on: pull_request`"),
        ("fork\n::error::x", r"does not run on the event \"fork\\n"),
        ("", "GITHUB_EVENT_NAME is not set"),
    ],
)
def test_other_events_are_refused_with_a_sentence(read, name, sentence):
    with pytest.raises(UsageError, match=sentence) as caught:
        read(name, events.pull_request(B, A))
    assert "\n" not in str(caught.value)


def test_what_is_no_event_file_is_one_sentence(read):
    opening = b'{"repository": {"full_name": "octo/hello"}'
    for raw in (
        b"",
        b"[]",
        b"\xff\xfe{}",
        b'{"a":' * 100_000,
        b"{}",
        opening + b"}",
        opening + b', "pull_request": []}',
    ):
        with pytest.raises(UsageError, match="The event file is") as caught:
            read("pull_request", raw)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("pull_request", "head", "sha"), "HEAD"),
        (("pull_request", "head", "sha"), A + "\n"),
        (("pull_request", "number"), "7"),
        (("pull_request", "number"), 10**30),
        (("pull_request", "user", "login"), "@everyone <img>"),
        (("repository", "full_name"), "octo/hello\n"),
        (("repository", "default_branch"), "half \ud83d"),
    ],
)
def test_a_wrong_value_is_refused_in_our_words_and_not_shown(read, place, value):
    event = events.pull_request(B, A)
    inner = event
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    with pytest.raises(UsageError, match="event file") as caught:
        read("pull_request", event)
    assert re.search(
        r"writes: [a-z_.]+ is not (a commit id|a number|a login|OWNER/NAME|text)\.$",
        str(caught.value),
    )


def test_keys_that_nobody_asked_for_may_be_anything(read):
    event = events.pull_request(B, A) | {"enterprise": {"x": [1e308, None]}}
    event["pull_request"]["body"] = "\x00\x1b[2J::error::" + "x" * 1_000_000
    event["pull_request"]["labels"] = {"not": "a list"}
    assert read("pull_request", event).head == A


def test_a_missing_file_is_said(tmp_path, environ):
    values = events.runner(tmp_path, "push", {}, environ)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_trigger(values | {"GITHUB_EVENT_PATH": str(tmp_path / "none.json")})
    with pytest.raises(UsageError, match="GITHUB_EVENT_PATH is not set"):
        read_trigger(values | {"GITHUB_EVENT_PATH": ""})


def test_an_event_of_another_repository_is_refused(read):
    with pytest.raises(UsageError, match=r"about octo/hello, GITHUB_REPOSITORY says eve/other"):
        read("push", events.push(B, A), GITHUB_REPOSITORY="eve/other")
