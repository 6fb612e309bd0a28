"""With what a pull request is compared: its base branch as that is now, whatever the event says of
it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from faces import events
from faces.jobs import FORBIDDEN, Project, todos
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import UsageError
from vibe_gate.faces.action.commit_range import CommitRange, range_of
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.trigger import read_trigger
from vibe_gate.git import Credentials, open_repository


class Remote:
    """A repository at the forge whose main goes on after a topic left it, and a checkout of the
    topic.
    """

    def __init__(self, place: Path, environ: dict[str, str]) -> None:
        self.place, self.environ = place, environ
        self.origin = Repo(place / "origin", environ)
        self.origin.git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.opened_at = self.origin.commit("first", **{"a.py": "a = 1\n"})
        self.origin.git("checkout", "-q", "-b", "topic")
        self.head = self.origin.commit("topic", **{"topic.py": "t = 1\n"})
        self.origin.git("checkout", "-q", "main")
        self.main = self.origin.commit("other", **{"other.py": "o = 1\n"})

    def merge_main(self) -> str:
        """What GitHub's button "Update branch" does."""
        self.origin.git("checkout", "-q", "topic")
        self.origin.git("merge", "-q", "--no-edit", "main")
        self.origin.git("checkout", "-q", "main")
        self.head = self.origin.git("rev-parse", "topic")
        return self.head

    def merge_commit(self) -> str:
        """refs/pull/7/merge: the topic merged into main as it is now."""
        tree = self.origin.git("merge-tree", "--write-tree", self.main, self.head).splitlines()[0]
        return self.origin.git("commit-tree", tree, "-p", self.main, "-p", self.head, "-m", "Merge")

    def check_out(self, *refs: str, depth: int = 0, name: str = "checkout") -> Repo:
        """A checkout that fetched these refs alone; without any, all branches."""
        checkout = Repo(self.place / name, self.environ)
        checkout.git("remote", "add", "origin", f"file://{self.origin.path}")
        refspecs = refs or ("+refs/heads/*:refs/remotes/origin/*", self.head)
        checkout.git(
            "fetch",
            "-q",
            "--no-tags",
            *([f"--depth={depth}"] if depth else []),
            "origin",
            *refspecs,
        )
        checkout.git("checkout", "-q", "--detach", self.head)
        return checkout

    def compare_range(
        self,
        checkout: Repo,
        *,
        branch: str = "main",
        kind: str = "pull_request",
        merge: str = "",
        **inputs: str,
    ) -> CommitRange:
        """What a job of this pull request compares, whose event names main as it was when it was
        opened.
        """
        event = events.pull_request(self.opened_at, self.head)
        event["pull_request"]["base"]["ref"] = branch
        variables = {"GITHUB_SHA": merge} if merge else {}
        trigger = read_trigger(
            events.runner(self.place / "runner", kind, event, self.environ, **variables)
        )
        with open_repository(checkout.path, read_environment(self.environ)) as repository:
            return range_of(repository, trigger, Inputs.model_validate(inputs), Credentials())

    def files(self, compared: CommitRange) -> list[str]:
        return self.origin.git("diff", "--name-only", compared.before, compared.head).split("\n")


@pytest.fixture
def remote(tmp_path: Path, environ: dict[str, str]) -> Remote:
    return Remote(tmp_path, environ)


@pytest.mark.parametrize("kind", ["pull_request", "pull_request_review"])
@pytest.mark.parametrize("depth", [0, 1])
def test_the_gate_is_read_at_the_base_branch_as_it_is_now(remote, kind, depth):
    compared = remote.compare_range(remote.check_out(remote.head, depth=depth), kind=kind)
    assert (compared.before, compared.trusted) == (remote.opened_at, remote.main)
    assert remote.files(compared) == ["topic.py"]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_the_base_branch_brought_into_the_topic_is_not_the_pull_requests(remote, depth):
    checkout = remote.check_out(remote.merge_main(), depth=depth)
    assert remote.files(remote.compare_range(checkout)) == ["topic.py"]


@pytest.mark.slow
def test_a_conflict_that_was_resolved_is_the_pull_requests(remote):
    remote.main = remote.origin.commit("main's", **{"topic.py": "t = 2\n"})
    tree = remote.origin.commit("both", **{"topic.py": "t = 3\n"})
    remote.origin.git("reset", "-q", "--hard", remote.main)
    arguments = ("-p", remote.head, "-p", remote.main, "-m", "Merge main")
    remote.head = remote.origin.git("commit-tree", f"{tree}^{{tree}}", *arguments)
    compared = remote.compare_range(remote.check_out(remote.head))
    assert (compared.before, remote.files(compared)) == (remote.main, ["topic.py"])


def test_a_base_branch_that_was_force_pushed_is_taken_as_it_is_now(remote):
    remote.origin.git("reset", "-q", "--hard", remote.opened_at)
    remote.main = remote.origin.commit("instead", **{"instead.py": "i = 1\n"})
    assert remote.compare_range(remote.check_out(remote.head)).trusted == remote.main


@pytest.mark.slow
def test_what_is_left_of_the_base_branch_in_a_used_workspace_is_fetched_anew(remote):
    checkout = remote.check_out(remote.head)
    checkout.git("update-ref", "refs/remotes/origin/main", remote.opened_at)
    assert remote.compare_range(checkout).trusted == remote.main
    checkout.git("update-ref", "refs/remotes/origin/main", remote.opened_at)
    assert remote.compare_range(checkout, base="main").trusted == remote.main


@pytest.mark.slow
def test_a_pull_request_upon_another_branch_is_compared_with_that_branch(remote):
    remote.origin.git("checkout", "-q", "-b", "stacked", "topic")
    below, remote.head = remote.head, remote.origin.commit("stacked", **{"stacked.py": "s = 1\n"})
    compared = remote.compare_range(remote.check_out(remote.head), branch="topic")
    assert (compared.trusted, remote.files(compared)) == (below, ["stacked.py"])


def test_without_a_way_to_the_remote_what_the_checkout_has_of_the_branch_counts(remote):
    checkout = remote.check_out()
    remote.origin.path.rename(remote.place / "away")
    compared = remote.compare_range(checkout)
    assert compared.trusted == remote.main
    assert "The base branch main could not be fetched, so this is against" in compared.notes[0]


@pytest.mark.parametrize("stale", [False, True], ids=["no ref", "an old ref"])
def test_without_a_way_to_the_remote_githubs_merge_commit_says_where_the_branch_is(remote, stale):
    merge = remote.merge_commit()
    checkout = remote.check_out(merge, remote.head)
    if stale:
        checkout.git("update-ref", "refs/remotes/origin/main", remote.opened_at)
    remote.origin.path.rename(remote.place / "away")
    compared = remote.compare_range(checkout, merge=merge)
    assert (compared.before, compared.trusted) == (remote.opened_at, remote.main)


@pytest.mark.parametrize("merge", ["", "head", "of others"])
def test_if_nothing_says_where_the_base_branch_is_it_is_said_what_to_set(remote, merge):
    foreign = remote.origin.git(
        "commit-tree",
        f"{remote.main}^{{tree}}",
        "-p",
        remote.opened_at,
        "-p",
        remote.main,
        "-m",
        "x",
    )
    checkout = remote.check_out(remote.head, foreign)
    remote.origin.git("branch", "-q", "-m", "main", "gone")
    merge_commit = {"": "", "head": remote.head, "of others": foreign}[merge]
    with pytest.raises(
        UsageError, match=r"The base branch main is not in this checkout.*fetch-depth: 0"
    ):
        remote.compare_range(checkout, merge=merge_commit)


@pytest.mark.slow
def test_after_the_merge_the_job_says_what_was_merged(remote):
    remote.origin.git("merge", "-q", "--no-ff", "-m", "Merge", "topic")
    compared = remote.compare_range(remote.check_out(remote.head))
    assert (compared.before, remote.files(compared)) == (remote.opened_at, ["topic.py"])


def test_a_clone_without_a_remote_has_only_the_events_commit(remote):
    checkout = remote.check_out()
    checkout.git("remote", "remove", "origin")
    assert remote.compare_range(checkout).trusted == remote.opened_at


def test_a_merge_group_is_compared_with_the_commit_that_the_queue_names(remote):
    head = remote.merge_main()
    event = events.merge_group(remote.main, head)
    trigger = read_trigger(
        events.runner(remote.place / "runner", "merge_group", event, remote.environ)
    )
    with open_repository(
        remote.check_out(head).path, read_environment(remote.environ)
    ) as repository:
        compared = range_of(repository, trigger, Inputs(), Credentials())
    assert (compared.before, compared.trusted) == (remote.main, remote.main)


def test_a_pushed_branch_is_held_to_the_default_branch_as_it_is_now(remote):
    first, head = (
        remote.head,
        remote.origin.git("commit-tree", "topic^{tree}", "-p", remote.head, "-m", "more"),
    )
    event = events.push(first, head, "refs/heads/topic")
    trigger = read_trigger(events.runner(remote.place / "runner", "push", event, remote.environ))
    with open_repository(
        remote.check_out(head).path, read_environment(remote.environ)
    ) as repository:
        compared = range_of(repository, trigger, Inputs(), Credentials())
    assert (compared.before, compared.trusted) == (first, remote.main)


# The whole job

SOFT = FORBIDDEN.replace("TODO", "NEVER-EVER")
RUBRIC = ".vibe-gate/rubrics/quality.toml"


@pytest.mark.slow
def test_a_gate_that_became_stricter_since_holds_for_open_pull_requests(project: Project):
    project.origin.commit("soft", **{RUBRIC: SOFT})
    opened_at, head = project.main(), project.branch("topic", **{"src/e.py": todos(1)})
    project.origin.commit("strict", **{RUBRIC: FORBIDDEN})
    event = events.pull_request(opened_at, head)
    assert project.act("pull_request", event, checkout=head).code == 1
    project.pull(head)
    job = project.act("pull_request", event, checkout=head)
    assert job.code == 1, job.out
    assert "NEEDS APPROVAL" not in project.summary


@pytest.mark.slow
def test_a_job_that_is_run_again_asks_for_the_base_branch_of_now(project: Project):
    project.origin.git("checkout", "-q", "-b", "lax")
    project.origin.commit("soft", **{RUBRIC: SOFT})
    project.origin.git("checkout", "-q", "-b", "topic")
    head = project.origin.commit("topic", **{"src/e.py": todos(1)})
    project.origin.git("checkout", "-q", "main")
    event = events.pull_request(project.origin.git("rev-parse", "lax"), head)
    event["pull_request"]["base"]["ref"] = "lax"
    project.pull(head, base_ref="lax")
    assert project.act("pull_request", event, checkout=head).code == 0
    project.pull(head, base_ref="main")
    assert project.act("pull_request", event, checkout=head).code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "sentence"),
    [("schema = [\n", "that of the base branch does not parse; repair it there"),
     (None, "the base branch has none any more; restore it there")],
    ids=["broken", "removed"],
)  # fmt: skip
def test_a_gate_of_the_base_that_is_broken_or_gone_is_told_as_such(
    project: Project, gate, sentence
):
    head = project.branch("topic", **{"src/e.py": "e = 1\n"})
    if gate is None:
        project.origin.git("rm", "-rq", ".vibe-gate")
        project.origin.commit("without a gate")
    else:
        project.origin.commit("broken", **{".vibe-gate/gate.toml": gate})
    project.pull(head)
    job = project.review_pull(head)
    assert job.code == 4, job.out
    assert sentence in project.ours[0]
    assert "not on the base branch yet" not in project.ours[0]
