"""A job of the Action in a test: an origin, a checkout of it as actions/checkout leaves one, and a
loopback GitHub.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from command import CommandResult, vibe_gate
from contract.github import LoopbackGitHub
from faces import events
from repos import Repo

GATE = 'schema = 1\nrubrics = ["quality"]\n'

FORBIDDEN = """\
schema = 1
id = "quality"
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "TODO" }
must = true
"""
"""A gate that needs no model: every added TODO is a finding at its line."""

FIX = """\
schema = 1
id = "fix"
[[stage]]
id = "review"
rubrics = ["quality"]
[[stage]]
id = "repair"
needs = ["review"]
when = "review.failed"
agent = "fixer"
prompt = "Repair it."
"""
FIXER = 'schema = 1\nid = "fixer"\nsystem_prompt = "You repair."\ntools = ["Read", "Write"]\n'
"""A workflow whose agent is asked if that gate fails."""


def todos(number: int, start: int = 0) -> str:
    """A file with one finding at that many lines, every third."""
    return "".join(f"# TODO {start + n}\nx = {start + n}\n\n" for n in range(number))


@dataclass
class Project:
    """`origin` is what GitHub has; `checkout` is the job's workspace; `folder` the runner's files,
    new for each job.
    """

    place: Path
    environ: dict[str, str]
    github: LoopbackGitHub
    origin: Repo
    checkout: Path = field(init=False)
    folder: Path = field(init=False)
    jobs: int = 0

    def __post_init__(self) -> None:
        self.checkout = self.place / "none"
        self.folder = self.place / "none"

    def branch(self, name: str, **files: str) -> str:
        """A commit on a branch that begins at main."""
        self.origin.git("checkout", "-q", "-B", name, "main")
        commit = self.origin.commit(name, **files)
        self.origin.git("checkout", "-q", "main")
        return commit

    def push(self, name: str, **files: str) -> str:
        """One more commit on a branch."""
        self.origin.git("checkout", "-q", name)
        commit = self.origin.commit("more", **files)
        self.origin.git("checkout", "-q", "main")
        return commit

    def main(self) -> str:
        return self.origin.git("rev-parse", "main")

    def pull(self, head: str, number: int = 7, **fields: object) -> None:
        """Have GitHub know the pull request at this head."""
        base = self.main()
        diff = self.origin.git("-c", "core.quotePath=false", "diff", f"{base}...{head}")
        if number in self.github.pulls:
            pull = self.github.pulls[number]
            pull.head_sha = head
            self.github.pulls.pop(number)
            fields = {"author": pull.author, "fork": pull.fork} | fields
        self.github.add_pull(number, base_sha=base, head_sha=head, diff=diff, **fields)

    def check_out(self, commit: str, depth: int = 0) -> Path:
        """A new workspace at the commit, as shallow as asked."""
        self.jobs += 1
        self.checkout = self.place / f"workspace-{self.jobs}"
        self.origin.git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.checkout.mkdir()
        work = Repo(self.checkout, self.environ)
        work.git("remote", "add", "origin", f"file://{self.origin.path}")
        if depth:
            work.git("fetch", "-q", "--no-tags", f"--depth={depth}", "origin", commit)
        else:
            work.git("fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*", commit)
        work.git("checkout", "-q", "--detach", commit)
        return self.checkout

    def job(self, name: str, event: object, **variables: str) -> dict[str, str]:
        """The environment of a job for this event, with its token."""
        self.folder = self.place / f"runner-{self.jobs}-{len(list(self.place.iterdir()))}"
        environ = {
            "VIBE_GATE_INPUT_GITHUB_TOKEN": self.github.token,
            "GITHUB_API_URL": self.github.url,
        }
        environ |= {"GITHUB_SERVER_URL": self.github.server_url}
        return events.runner(self.folder, name, event, self.environ, **(environ | variables))

    def act(
        self, name: str, event: object, *, checkout: str = "", depth: int = 0, **variables: str
    ) -> CommandResult:
        """Run `vibe-gate action` for this event in a new workspace (of the commit `checkout`), or
        in the last one.
        """
        if checkout:
            self.check_out(checkout, depth)
        return vibe_gate("action", cwd=self.checkout, environ=self.job(name, event, **variables))

    def review_pull(
        self, head: str, *, number: int = 7, fork: bool = False, depth: int = 0, **variables: str
    ) -> CommandResult:
        """A pull request's job at this head."""
        event = events.pull_request(self.main(), head, number=number, fork=fork)
        return self.act("pull_request", event, checkout=head, depth=depth, **variables)

    @property
    def outputs(self) -> Mapping[str, str]:
        return events.outputs(self.folder)

    @property
    def summary(self) -> str:
        return (self.folder / "summary").read_text()

    @property
    def ours(self) -> list[str]:
        """Bodies of the comments that the job's token wrote."""
        return [
            comment.body
            for comment in self.github.comments
            if comment.author == "github-actions[bot]"
        ]


def make_project(
    place: Path, environ: dict[str, str], github: LoopbackGitHub, rubric: str = FORBIDDEN
) -> Project:
    """A repository with a gate on main."""
    origin = Repo(place / "origin", environ)
    origin.write(".vibe-gate/gate.toml", GATE)
    origin.write(".vibe-gate/rubrics/quality.toml", rubric)
    origin.write("src/a.py", "x = 1\n")
    origin.commit("First")
    return Project(place, dict(environ), github, origin)
