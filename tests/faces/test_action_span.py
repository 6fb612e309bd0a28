"""What a job compares, where history, a shallow checkout or a name could talk it past the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faces import events
from faces.jobs import FORBIDDEN, Project, todos
from repos import Repo

pytestmark = pytest.mark.slow

SOFT = FORBIDDEN.replace("TODO", "NEVER-EVER")
RUBRIC = ".vibe-gate/rubrics/quality.toml"
HOLE = "# TODO hole\n"


def files(project: Project) -> list[str]:
    stored = json.loads(Path(project.outputs["artifact-path"], "summary.json").read_text())
    return [file["path"] for file in stored["change"]["files"]]


# Merges that cross


def test_a_second_merge_that_takes_back_what_the_base_merged_is_seen(project):
    origin = project.origin
    origin.commit("soft", **{"src/b.py": HOLE, RUBRIC: SOFT})
    origin.git("checkout", "-q", "-b", "harden")
    hardened = origin.commit("harden", **{"src/b.py": "x = 1\n", RUBRIC: FORBIDDEN})
    origin.git("checkout", "-q", "main")
    other = origin.commit("other", **{"src/c.py": "y = 1\n"})
    origin.git("merge", "-q", "--no-ff", "-m", "Merge harden", "harden")
    head = origin.git(
        "commit-tree", f"{other}^{{tree}}", "-p", other, "-p", hardened, "-m", "Merge harden"
    )
    origin.git("branch", "topic", head)
    project.pull(head)
    job = project.review_pull(head)
    assert job.code == 1, job.out + job.err
    assert files(project) == [RUBRIC, "src/b.py"]
    assert (
        f"has 2 merge bases (merges that cross), so the change was taken against {project.main()[:12]}"
        in project.summary.replace("`", "")
    )
    pushed = events.push(events.NOBODY, head, "refs/heads/topic")
    assert project.act("push", pushed, checkout=head).code == 1
    assert "has 2 merge bases" in project.summary.replace("`", "")


# Shallow checkouts


def test_an_older_common_ancestor_that_is_seen_first_is_not_taken(project):
    origin = project.origin
    old = origin.commit("old", **{"src/b.py": HOLE, RUBRIC: SOFT})
    base = origin.commit("new", **{"src/b.py": "x = 1\n", RUBRIC: FORBIDDEN})
    chain = base
    for number in range(60):  # more than the first deepening brings
        chain = origin.git("commit-tree", f"{old}^{{tree}}", "-p", chain, "-m", f"{number}")
    head = origin.git("commit-tree", f"{old}^{{tree}}", "-p", old, "-p", chain, "-m", "head")
    origin.git("branch", "topic", head)
    project.pull(head)
    job = project.review_pull(head, depth=1)
    assert job.code == 1, job.out + job.err
    assert files(project) == [RUBRIC, "src/b.py"]
    project.check_out(head, 1)
    Repo(project.checkout, project.environ).git("fetch", "-q", "--depth=5", "origin", base, head)
    (project.checkout / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
    job = project.act("pull_request", events.pull_request(base, head))
    assert job.code == 2
    assert "parted cannot be told in this checkout" in job.out


# Names


@pytest.mark.parametrize("base", ["", "main", "main~0"])
def test_a_tag_named_like_the_base_is_not_taken_for_it(project, base):
    head = project.branch("evil", **{"src/e.py": todos(1)})
    for tag in ("main", "origin/main"):
        project.origin.git("update-ref", f"refs/tags/{tag}", head)
    project.check_out(head, 1)
    work = Repo(project.checkout, project.environ)
    work.git("fetch", "-q", "--depth=1", "origin", "+refs/tags/*:refs/tags/*")
    tagged = events.push(events.NOBODY, head, "refs/tags/main")
    assert project.act("push", tagged, VIBE_GATE_INPUT_BASE=base).code == 1
    assert files(project) == ["src/e.py"]


def test_a_base_may_be_a_tag_or_a_commit_and_an_unknown_default_branch_is_a_sentence(project):
    start = project.main()
    project.origin.git("tag", "v1", start)
    head = project.branch("topic", **{"src/e.py": todos(1)})
    for base in ("v1", start):
        project.check_out(head)
        Repo(project.checkout, project.environ).git("fetch", "-q", "--tags", "origin")
        assert (
            project.act(
                "workflow_dispatch", events.dispatch(), GITHUB_SHA=head, VIBE_GATE_INPUT_BASE=base
            ).code
            == 1
        )
    nowhere = events.push(events.NOBODY, head, "refs/heads/topic")
    nowhere["repository"]["default_branch"] = "trunk"
    job = project.act("push", nowhere, checkout=head)
    assert job.code == 2
    assert "The default branch trunk is not in this checkout, and could not be fetched." in job.out
