"""States in which a change is not reviewed, and what a commit, the command and the Action make of
each.

`STATES` has them by the words of docs/reference/not-reviewed.md. In every state the change swallows
an error, and a model that can be asked finds that: a verdict other than "not reviewed" is a fail.
The question is no `must` and weighs no more than a check that passes, so that nothing but the
missing answer stands between the change and a pass.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sdk_alone
from answers import answers, fails, passes
from clean_environ import clean_environ
from contract.github import LoopbackGitHub, loopback_github
from faces import events
from faces.jobs import GATE, Project
from hooked import Hooked, install_gate, open_hooked
from repos import GOOD, SWALLOWS, Repo
from scripted_messages_api import ApiError, Fault, Hang, ToolUse, Turn
from wire import Model, answering

RUBRIC = """\
schema = 1
id = "quality"
[[criterion]]
id = "errors-not-swallowed"
kind = "judge"
question = "Does every new handler that catches an exception log it, re-raise it or say why not?"
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "TODO" }
must = true
"""
LINT = """\
schema = 1
id = "quality"
[[criterion]]
id = "lint"
kind = "check"
must = true
command = ["no-such-linter", "."]
"""
CHECKED = """\
schema = 1
id = "quality"
[[criterion]]
id = "no-handlers"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "except" }
must = true
"""
"""Fails the change without a model."""
FAILS = answers(fails())
PASSES = passes("errors-not-swallowed")
FILE = "src/load.py"
BUSY = {"retry-after": "0"}
SHORT = "[budget]\ndeadline_s = 6\n"
"""A deadline that leaves no time to wait for the model's API."""
HASTY = """\
import sys
from vibe_gate.forge import session
session.BACKOFF_S = 0.0  # before it becomes the default of the client
from vibe_gate.faces.cli import main
sys.exit(main())"""
"""The program, without half a minute of waits for GitHub."""
NOWHERE = "http://127.0.0.1:9"
Given = dict[str, str]
Broken = Callable[[Path], object]


@dataclass(frozen=True)
class State:
    """What is so. `broken` does something to the working tree's folder before each command;
    `program` is the agents' program in place of Claude Code; `sent` is a signal for the whole
    process group once the model was asked.
    """

    steps: tuple[Any, ...] = (FAILS,)
    environ: Given = field(default_factory=dict)
    gate: str = GATE
    rubric: str = RUBRIC
    broken: Broken = lambda folder: None
    program: str = ""
    argv: tuple[str, ...] = ("HEAD~1",)
    sent: int = 0
    job: Mapping[str, Any] = field(default_factory=dict)
    """Of the pull request: `base`, `fork`, `draft`, `depth`; variables of the job."""
    only_job: bool = False
    full: bool = False
    """No file may grow."""
    real: bool = False
    """Claude Code itself: only it has tools to deny."""
    like: str = ""
    """Another state whose review ends as this one's does. Commits and jobs know the end alone, and
    are looked at there.
    """


def scripted_state(*steps: Any, **fields: Any) -> State:
    return State(steps, **fields)


def _no_answers(folder: Path) -> None:
    for path in (folder / ".git" / "vibe-gate").glob("state.db*"):
        path.write_bytes(b"no database\n" * 1000)


def _no_store(folder: Path) -> None:
    if not (folder / ".vibe-artifacts").is_file():
        shutil.rmtree(folder / ".vibe-artifacts", ignore_errors=True)
        (folder / ".vibe-artifacts").touch()


def _shallow(folder: Path) -> None:
    """Nothing before HEAD is here, nor can be fetched."""
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=folder, text=True)
    (folder / ".git" / "shallow").write_text(head)
    subprocess.run(
        ["git", "remote", "set-url", "origin", "/nowhere"], cwd=folder, stderr=subprocess.DEVNULL
    )


NO_KEY = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""}
TWICE = Turn(ToolUse("StructuredOutput", PASSES), ToolUse("StructuredOutput", PASSES))
DENIED = Turn(ToolUse("Read", {"file_path": "/etc/passwd"}))
KILLED = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
WRITES = f"import os\nopen(os.environ['PWD'] + '/after/new', 'w').close()\n{sdk_alone.QUICK_PYTHON}"

NO_KEY_TAKEN = "the API does not accept the key (401)"
LIMITED = "the API limits the rate (429) until the deadline"
OUT_OF_REACH = "the API cannot be reached"
TOO_DEAR = "the budget of the run does not pay for the question"
REFUSED = "the model refuses"

STATES = {
    # What is missing on this machine
    "no API key": State(environ=NO_KEY),
    "no API key any more, and `state.db`, which has the earlier answers, is damaged": State(
        environ=NO_KEY, broken=_no_answers
    ),
    "Claude Code is not installed": State(environ={"PATH": ""}),
    "Claude Code is killed": State(program=KILLED),
    "the judge's program writes into the exported tree": scripted_state(PASSES, program=WRITES),
    "the disk is full": State(full=True),
    "no folder for temporary files": State(environ={"TMPDIR": "/nowhere"}),
    "`.vibe-artifacts` cannot be written": State(environ=NO_KEY, broken=_no_store),
    "the program of a `command` check is not installed": State(rubric=LINT),
    "a signal (Ctrl-C, a cancelled job) during the review": scripted_state(
        Hang(), sent=signal.SIGINT
    ),
    "`kill -9` during the review": scripted_state(Hang(), sent=signal.SIGKILL),
    # The way to the model
    NO_KEY_TAKEN: scripted_state(ApiError(401, "invalid x-api-key")),
    "the account has no credit (400)": scripted_state(
        ApiError(400, "Your credit balance is too low to access the API."), like=NO_KEY_TAKEN
    ),
    "the API does not know the model (404)": scripted_state(
        ApiError(404, "model: claude-none"), like=NO_KEY_TAKEN
    ),
    LIMITED: scripted_state(ApiError(429, "slow", BUSY), gate=GATE + SHORT),
    "the API is overloaded (529) until the deadline": scripted_state(
        ApiError(529, "busy", BUSY), gate=GATE + SHORT, like=LIMITED
    ),
    OUT_OF_REACH: State(environ={"ANTHROPIC_BASE_URL": NOWHERE}, gate=GATE + SHORT),
    "the proxy does not answer": State(
        environ={"ANTHROPIC_BASE_URL": "https://api.example.com", "HTTPS_PROXY": NOWHERE},
        gate=GATE + SHORT,
        like=OUT_OF_REACH,
    ),
    "the stream is cut": scripted_state(
        Turn("Well, let me", fault=Fault("close")), like=OUT_OF_REACH
    ),
    "the deadline is reached": scripted_state(Hang(), gate=GATE + "[budget]\ndeadline_s = 2\n"),
    TOO_DEAR: State(gate=GATE + "[budget]\nmax_cost_usd = 0.0001\n"),
    "the budget of the day is spent": State(
        gate=GATE + "[budget]\nper_day_usd = 0.0001\n", like=TOO_DEAR
    ),
    # What the model says
    REFUSED: scripted_state(Turn("No.", stop_reason="refusal")),
    "the answer is empty": scripted_state(Turn(), like=REFUSED),
    "the answer is prose": scripted_state(Turn("All fine, PASS!"), like=REFUSED),
    "the answer is cut at the token limit": scripted_state(
        Turn("Well, let me", stop_reason="max_tokens"), like=REFUSED
    ),
    "two answers": scripted_state(TWICE, like=REFUSED),
    "a tool that the judge wants is denied, and it gives up": scripted_state(
        DENIED, Turn("I may not look there."), real=True, like=REFUSED
    ),
    "the answer is about another criterion": scripted_state(passes("something-else"), like=REFUSED),
    "the answer leaves the criterion out": scripted_state(
        {"changes": "", "answers": []}, like=REFUSED
    ),
    # Git and the gate
    "a shallow clone without the base": State(
        argv=("HEAD~1...HEAD",), broken=_shallow, job={"depth": 1}
    ),
    "the base does not exist": State(
        argv=("nowhere..HEAD",), job={"VIBE_GATE_INPUT_BASE": "nowhere"}
    ),
    "`gate.toml` does not parse": State(gate="rubrics = [\n"),
    "the gate names a rubric without criteria": State(rubric='schema = 1\nid = "quality"\n'),
    # Pull requests only
    "a pull request from a fork: no secrets": State(
        environ=NO_KEY, job={"fork": True}, only_job=True
    ),
    "a draft": State(job={"draft": True}, only_job=True),
    "a draft, with `drafts: skip`": State(
        job={"draft": True, "VIBE_GATE_INPUT_DRAFTS": "skip"}, only_job=True
    ),
    "GitHub's API cannot be reached": State(
        rubric=CHECKED, job={"GITHUB_API_URL": NOWHERE}, only_job=True
    ),
}


@dataclass(frozen=True)
class FaceResult:
    """What one face did: an exit code, the line that says it, all that was printed, what else
    people see.
    """

    code: int
    line: str
    text: str
    more: str = ""


@dataclass
class Faces:
    """The faces, each in a state, below `place`; what they start from is made once."""

    place: Path
    environ: dict[str, str]
    number: int = 0

    def local(self, state: State, model: Model, rules: str = "") -> Hooked:
        """A clone with the gate, `rules` in its gate.toml, and its hooks; the change is in the
        index.
        """
        self.number += 1
        path = self.place / f"local-{self.number}"
        shutil.copytree(self._make_repository(state, rules), path, symlinks=True)
        repository = open_hooked(path, self.environ)
        (path / FILE).write_text(SWALLOWS)
        repository.git("add", "-A")
        repository.environ = self._environ(state, model, repository.environ)
        return repository

    def _make_repository(self, state: State, rules: str) -> Path:
        path = self.place / f"made-{hash((state.gate, state.rubric, rules)):x}"
        if not path.exists():
            repo = Repo(path, self.environ)
            repo.write(FILE, GOOD)
            repo.write(".vibe-gate/gate.toml", state.gate + rules)
            repo.write(".vibe-gate/rubrics/quality.toml", state.rubric)
            repo.commit("First")
            install_gate(open_hooked(path, self.environ), "install git")
        return path

    def _environ(self, state: State, model: Model, environ: Mapping[str, str]) -> dict[str, str]:
        variables = {**environ, **model.environ, **state.environ}
        if state.environ.get("PATH") == "":
            ours = (str(sdk_alone.QUICK), str(sdk_alone.REAL))
            variables["PATH"] = os.pathsep.join(
                part for part in environ["PATH"].split(os.pathsep) if part not in ours
            )
        if state.real:
            variables["PATH"] = f"{sdk_alone.REAL}{os.pathsep}{variables['PATH']}"
        if state.program:
            folder = self.place / "programs"
            folder.mkdir(exist_ok=True)
            (folder / "claude").write_text(f"#!{sys.executable} -IS\n{state.program}")
            (folder / "claude").chmod(0o755)
            variables["PATH"] = f"{folder}{os.pathsep}{variables['PATH']}"
        return {name: value for name, value in variables.items() if value}

    def commit(
        self,
        state: State,
        model: Model,
        repository: Hooked,
        *,
        strict: bool = False,
        by: str = "agent",
    ) -> FaceResult:
        """`git commit`, by an agent or a person; the line is the warning with which it goes
        through.
        """
        if strict:
            for stage in ("pre-commit", "commit-msg"):
                script = f'#!/bin/sh\nexec vibe-gate hook {stage} --strict -- "$@"\n'
                (repository.path / ".git" / "hooks" / stage).write_text(script)
        state.broken(repository.path)
        marks = {"CLAUDECODE": "1"} if by == "agent" else {}
        code, text = _ran(
            ["git", "commit", "-q", "-m", "Load"],
            repository.path,
            repository.environ | repository.more | marks,
            state,
            model,
        )
        lines = [
            line for line in text.splitlines() if "NOT REVIEWED. The commit goes through" in line
        ]
        warning = lines[0].removeprefix("vibe-gate: ") if lines else ""
        return FaceResult(code, warning, text)

    def review(self, state: State, model: Model, repository: Hooked) -> FaceResult:
        """`vibe-gate review HEAD~1` of the change, committed past the hooks if they stopped it."""
        if repository.git("status", "--porcelain", "-uno"):
            repository.run("git", "commit", "-q", "--no-verify", "-m", "Load")
        state.broken(repository.path)
        before = len(model.script.requests)
        code, text = _ran(
            ["vibe-gate", "review", *state.argv],
            repository.path,
            repository.environ | repository.more,
            state,
            model,
            before,
        )
        return FaceResult(code, _verdict_line(text), text)

    def job(self, state: State, model: Model) -> FaceResult:
        """The Action's job of a pull request; `more`: the check run's conclusion."""
        self.number += 1
        settings = dict(state.job)
        depth, fork = settings.pop("depth", 0), settings.pop("fork", False)
        draft = settings.pop("draft", False)
        with loopback_github() as github:
            project = self._project(state, github, depth)
            base, head = project.main(), project.origin.git("rev-parse", "topic")
            base = settings.pop("base", base)
            project.pull(head, draft=draft)
            state.broken(project.checkout)
            environ = self._environ(state, model, self.environ)
            event = events.pull_request(base, head, fork=fork, draft=draft)
            key = environ.pop("ANTHROPIC_API_KEY", "")
            project.environ = environ
            variables = project.job(
                "pull_request", event, VIBE_GATE_INPUT_ANTHROPIC_API_KEY=key, **settings
            )
            if fork:
                github.read_only.add(github.token)
            before, job = (
                len(model.script.requests),
                open_hooked(project.checkout, variables).environ,
            )
            argv = [sys.executable, "-c", HASTY] if "GITHUB_API_URL" in state.job else ["vibe-gate"]
            code, text = _ran([*argv, "action"], project.checkout, job, state, model, before)
            runs = [run.sent.get("conclusion") or run.sent["status"] for run in github.check_runs]
            heading = re.search(
                r"^#+ (vibe-gate.*)", "\n".join([*project.ours, project.summary]), re.MULTILINE
            )
            line = heading[1].removeprefix("vibe-gate: ") if heading else "no comment"
            line = re.sub(
                r" · \[`[0-9a-f]+`\]\(\S+\)$", "", line
            )  # the commit, which is another one in each run
            return FaceResult(code, line, text, ", ".join(runs) or "no check run")

    def _project(self, state: State, github: LoopbackGitHub, depth: int) -> Project:
        """Its checkout is a copy, so that a state can break it; nobody changes the origin."""
        path = self.place / f"origin-{hash((state.gate, state.rubric, depth)):x}"
        if not path.exists():
            self._make_origin(state, path, depth)
        place = self.place / f"job-{self.number}"
        origin = Repo(path / "origin", self.environ)
        project = Project(place, dict(self.environ), github, origin)
        project.checkout = place / "checkout"
        shutil.copytree(path / "workspace-1", project.checkout, symlinks=True)
        return project

    def _make_origin(self, state: State, path: Path, depth: int) -> None:
        shutil.copytree(self._make_repository(state, ""), path / "origin", symlinks=True)
        for hook in (path / "origin" / ".git" / "hooks").iterdir():
            hook.unlink()
        origin = Repo(path / "origin", self.environ)
        with loopback_github() as github:
            project = Project(path, dict(self.environ), github, origin)
            head = project.branch("topic", **{FILE: SWALLOWS})
            project.check_out(head, depth)


def faces_in(place: Path) -> Faces:
    """The faces below an empty folder, with an environment of their own."""
    home = place / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
    environ = clean_environ(home)
    return Faces(place, environ | {"PATH": f"{sdk_alone.QUICK}:{environ['PATH']}"})


def _ran(
    argv: list[str],
    cwd: Path,
    environ: Mapping[str, str],
    state: State,
    model: Model,
    requests_before: int = 0,
) -> tuple[int, str]:
    """The exit code and the output of a command that is sent the state's signal, if any, once the
    model is asked.
    """
    argv = [shutil.which(argv[0], path=environ["PATH"]) or argv[0], *argv[1:]]
    if state.full:  # a process of its own: those that are forked (`forked.py`) have other limits
        command = (
            [sys.executable, "-m", "vibe_gate", *argv[1:]]
            if argv[0].endswith("vibe-gate")
            else argv
        )
        argv = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command]
    process = subprocess.Popen(
        argv, cwd=cwd, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, process_group=0,
    )  # fmt: skip
    until = time.monotonic() + 60
    while state.sent and len(model.script.requests) == requests_before and process.poll() is None:
        assert time.monotonic() < until, "the model was not asked"
        time.sleep(0.02)
    if state.sent:
        os.killpg(process.pid, state.sent)
    text, _ = process.communicate(timeout=250)
    return process.returncode, text


def _verdict_line(text: str) -> str:
    """The line of the verdict, or the sentence in its place; a run's own folders are left out."""
    lines = text.splitlines()
    verdict = next((line[2:] for line in lines if re.match(r"[✓✗?!·] [A-Z]", line)), "")
    errors = [line.removeprefix("vibe-gate: ") for line in lines if line.startswith("vibe-gate: ")]
    return verdict or (errors[-1] if errors else "")


def look_at_faces(name: str, state: State, faces: Faces) -> tuple[list[str], list[str]]:
    """The cells of the state's row, and what in them is a pass, or reads like one.

    Of a state that is like another one only the cell of the review.
    """
    cells, wrong = [name], []
    with answering(*state.steps, repeat_last=True) as model:
        if state.only_job:
            cells += ["", ""]
        else:
            repository = faces.local(state, model)
            commit_cells = (
                [] if state.like else [_look_at_commit(state, model, repository, faces, wrong)]
            )
            local = faces.review(state, model, repository)
            wrong += [f"review: {local}"] * (local.code == 0 or "PASS" in local.text)
            line = _without_ids(local.line) or "nothing is printed"
            cells += [f"{_code(local.code)}{line}", *commit_cells]
        if not state.like:
            cells += [_look_at_job(state, model, faces, wrong)]
    return cells, wrong


def complete_cells(cells: list[str], state: State, table: Mapping[str, list[str]]) -> list[str]:
    """The cells of the state's row, which has those of commits and jobs from the one it is like."""
    if not state.like:
        return cells
    assert _end_of_review(cells) == _end_of_review(table[state.like]), "it is not like that"
    return [*cells, *table[state.like][len(cells) :]]


def _end_of_review(cells: list[str]) -> str:
    """Exit code and verdict, without the reason."""
    return cells[1].partition(" · ")[0]


def _look_at_commit(
    state: State, model: Model, repository: Hooked, faces: Faces, wrong: list[str]
) -> str:
    commit = faces.commit(state, model, repository)
    green = (commit.code == 0 and not commit.line) or "PASS" in commit.text
    wrong += [f"commit: {commit}"] * green
    return _of_commit(commit)


def _look_at_job(state: State, model: Model, faces: Faces, wrong: list[str]) -> str:
    job = faces.job(state, model)
    green = (
        job.code == 0
        or "PASS" in job.line
        or {"success", "neutral", "skipped"} & {*job.more.split(", ")}
    )
    wrong += [f"job: {job}"] * bool(green)
    return f"{_code(job.code)}{job.line}; {job.more}"


def _of_commit(commit: FaceResult) -> str:
    if commit.code == 0:
        return "goes through: NOT REVIEWED"
    return "stopped: FAIL" if " FAIL " in commit.text else "stopped"


def _code(code: int) -> str:
    return "killed: " if code < 0 else f"{code}: "


def _without_ids(line: str) -> str:
    plain = re.sub(r"/tmp/\S+/", "", line)
    plain = re.sub(r"\b[0-9a-f]{40}\b", "(id)", plain)
    return plain.replace("|", "\\|")
