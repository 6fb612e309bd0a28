"""What a pull request's job costs: act runs whole jobs of a one-file change, cold and warm, checks
only and judged.

    python bench/action.py [--rounds 3] [--before REV]...

Self-contained, but for the index that pip is configured for: everything is made under bench/.work.
Every job is the action.yml of a revision (this checkout's HEAD, or REV) on a runner of its own: a
new home, an empty pip cache and an empty tool cache, and the Action's files without bytecode, as
GitHub unpacks them. `cold` finds no Actions cache and fetches every package; `warm` finds what an
earlier job saved. Jobs take turns; a line has the least of each figure.

Stand-ins take the place of GitHub's own actions (tests/faces/acting.py): a cache is a folder that
is copied, so that `warm` lacks what the real one takes for downloading and unpacking it. GitHub and
the model are loopback servers that answer at once. The times are of act as a whole: its own second
or so is in each of them. `cpu` is the time of processors, which neither the network nor waiting
adds to. `packages` are downloaded when cold; `installed` is the environment.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from _pairs import environment, processor_seconds

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "bench" / ".work" / "action"

sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "faces")]

from acting import EXAMPLES, OURS, PINNED, Runner  # noqa: E402
from contract.github import loopback_github  # noqa: E402
from faces import events  # noqa: E402
from faces.jobs import FORBIDDEN  # noqa: E402
from repos import GOOD, RUBRIC, SWALLOWS, Repo, gated  # noqa: E402
from scripted_messages_api import MessagesRequest, ToolUse, Turn  # noqa: E402
from wire import KEY, answering  # noqa: E402

CHECKOUT = next("@".join(one[::2]) for one in PINNED.findall((EXAMPLES / "simple.yml").read_text()))
WORKFLOW = f"""\
on: pull_request
jobs:
  gate:
    runs-on: ubuntu-latest
    steps:
      - uses: {CHECKOUT}
      - uses: {OURS}
        with:
          anthropic-api-key: ${{{{ secrets.ANTHROPIC_API_KEY }}}}
      - run: for part in venv wheels; do echo "WEIGHS $part $(du -sm $RUNNER_TEMP/vibe-gate*/$part | cut -f 1)"; done
"""


class Kind(NamedTuple):
    """What is measured: a revision of the Action, whether a judge is asked, and whether a cache is
    there.
    """

    revision: str
    judged: bool
    warm: bool

    @property
    def place(self) -> Path:
        return WORK / f"{self.revision}-{self.judged}"


class Took(NamedTuple):
    """Seconds of a job and of its processors, and MiB."""

    wall: float
    cpu: float
    venv: int
    wheels: int


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="jobs of each kind")
    parser.add_argument(
        "--before", action="append", default=[], help="a revision whose Action is measured, too"
    )
    args = parser.parse_args()
    shutil.rmtree(WORK, ignore_errors=True)
    revisions = [named(one) for one in [*args.before, "HEAD"]]
    kinds = [
        Kind(one, judged, warm)
        for judged in (False, True)
        for one in revisions
        for warm in (False, True)
    ]
    took: dict[Kind, list[Took]] = {kind: [] for kind in kinds}
    for _ in range(args.rounds):
        for kind in kinds:
            took[kind].append(job(kind))
    print(
        f"{args.rounds} jobs each, in turn; the least of each; {sys.platform}, {os.cpu_count()} processors"
    )
    print(f"{'':32} {'seconds':>8} {'cpu':>6} {'packages':>10} {'installed':>10}")
    for kind, times in took.items():
        wall, cpu, venv, wheels = map(min, zip(*times, strict=True))
        name = f"{'judged' if kind.judged else 'checks only'}, {'warm' if kind.warm else 'cold'}, {kind.revision}"
        print(f"{name:32} {wall:8.1f} {cpu:6.1f} {wheels:6.0f} MiB {venv:6.0f} MiB")
    return 0


def named(revision: str) -> str:
    argv = ["git", "-C", ROOT, "rev-parse", "--short=7", revision]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def job(kind: Kind) -> Took:
    """One job on a new machine. The cache of a warm one is what the cold one before it saved."""
    runner_at = kind.place / "runner"
    saved = kind.place / "saved"
    shutil.rmtree(runner_at, ignore_errors=True)
    environ = environment(kind.place / "home")
    shutil.rmtree(environ["HOME"])
    environ = environment(kind.place / "home") | {
        name: os.environ[name] for name in os.environ if pips(name)
    }
    environ |= {
        "PIP_CACHE_DIR": f"{environ['HOME']}/pip",
        "RUNNER_TOOL_CACHE": f"{environ['HOME']}/tools",
    }
    checkout, event = pull_request(kind, environ)
    runner = Runner(runner_at, None, environ, action(kind.revision))
    if kind.warm:
        shutil.copytree(saved, runner.records / "saved-folder")
    with loopback_github() as github, answering(answer, repeat_last=True) as model:
        github.add_pull(
            7,
            base_sha=event["pull_request"]["base"]["sha"],
            head_sha=event["pull_request"]["head"]["sha"],
        )
        given = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": github.token}
        given |= (
            {"ANTHROPIC_BASE_URL": model.base_url, "ANTHROPIC_API_KEY": KEY} if kind.judged else {}
        )
        began, used = time.perf_counter(), processor_seconds()
        done = runner.run(checkout.path, "pull_request", event, "gate.yml", **given)
        wall, cpu = time.perf_counter() - began, processor_seconds() - used
        requests = len(model.script.requests)
    whence = "from the cache" if kind.warm else "fetched"
    if done.code or bool(requests) != kind.judged or f"packages {whence}" not in done.log:
        raise SystemExit(f"{kind}: {requests} requests; {done.log[-3000:]}")
    if not kind.warm:
        shutil.rmtree(saved, ignore_errors=True)
        shutil.move(runner.records / "saved-folder", saved)
    weighs = {name: int(size) for name, size in re.findall(r"WEIGHS (\w+) (\d+)", done.log)}
    return Took(wall, cpu, weighs["venv"], weighs["wheels"])


def pips(name: str) -> bool:
    """Whether the variable says where packages are found."""
    return name.startswith(("PIP_", "SSL_")) or name.upper().endswith("_PROXY")


def action(revision: str) -> Path:
    """The Action's files as of a revision."""
    place = WORK / "actions" / revision
    if not place.exists():
        place.mkdir(parents=True)
        argv = ["git", "-C", ROOT, "archive", revision, "action.yml", "vibe_gate"]
        subprocess.run(["tar", "-x", "-C", place], check=True, input=subprocess.check_output(argv))
    return place


def pull_request(kind: Kind, environ: dict[str, str]) -> tuple[Repo, dict[str, Any]]:
    """A checkout of a change of one file, and its event."""
    shutil.rmtree(kind.place / "repository", ignore_errors=True)
    repo = gated(kind.place / "repository", environ, rubric=RUBRIC if kind.judged else FORBIDDEN)
    repo.commit("Workflow", **{"gate.yml": WORKFLOW})
    repo.git("branch", "-M", "main")
    base = repo.git("rev-parse", "HEAD")
    head = repo.commit(
        "Load robustly", **{"src/load.py": GOOD + "\n\n" + SWALLOWS.replace("load", "load_or_none")}
    )
    repo.git("remote", "add", "origin", str(repo.path))
    repo.git("fetch", "-q", "origin")
    return repo, events.pull_request(base, head)


def answer(request: MessagesRequest) -> Turn:
    """Every question passes, in the form that this revision asks for."""
    form = next(
        tool["input_schema"] for tool in request.body["tools"] if tool["name"] == "StructuredOutput"
    )
    names = form["properties"]["answers"]["items"]["anyOf"][0]["properties"]["criterion"]["enum"]
    said = [{"criterion": name, "outcome": "pass", "reason": "So it is."} for name in names]
    more = {name: "A second way to load." for name in form["properties"] if name != "answers"}
    return Turn(ToolUse("StructuredOutput", {"answers": said} | more))


if __name__ == "__main__":
    sys.exit(main())
