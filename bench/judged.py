"""What a judged review costs beside the agent's program alone: interleaved pairs, medians, and the
ratio of each pair.

    python bench/judged.py [--pairs 15] [--files 0,10000]

Self-contained: makes a repository of this checkout's own source under bench/.work, with a change of
one line, and serves a scripted Messages API that answers at once (tests/scripted_messages_api.py).
The interpreter that runs it must have vibe-gate. One side is `vibe-gate review HEAD~1` with the
built-in gate: its six questions are one session. The other is the agent's program alone, `claude
-p`, in a session with the same system prompt, prompt, form of the answer, tools, model and options,
with an empty home, and the same API.

Of earlier judged reviews only the export is kept that judges read: bundles and answers are deleted.
A line without a goal is the same review answered by the cache. The ratio of processor time (`cpu`) is
disturbed less by other work on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import _pairs

ROOT = Path(__file__).resolve().parents[1]
WORK = _pairs.WORK / "judged"
REPOSITORY = WORK / "repository"
KEPT = (REPOSITORY / ".vibe-artifacts", REPOSITORY / ".git" / "vibe-gate")
CHANGED = ("if turn.timeout_s < LEAST_SECONDS:", "if turn.timeout_s <= LEAST_SECONDS:")
GOAL = 3.5

sys.path.append(str(ROOT / "tests"))

from scripted_messages_api import MessagesRequest, Script, ScriptedMessagesApi, ToolUse, Turn  # noqa: E402

from vibe_gate.agent import find_cli  # noqa: E402

Times = list[tuple[float, float]]


@dataclass(frozen=True)
class Command:
    argv: list[str]
    where: Path
    environ: dict[str, str]
    stdin: str = os.devnull


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=15,
        help="at least 15 for a median worth the name; 0: what found the question is timed, too",
    )
    parser.add_argument(
        "--files",
        default="0",
        help="small files that the repository has besides; several numbers with commas",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vibe-gate-bench-", ignore_cleanup_errors=True) as home:
        # Outside of this checkout, which ignores bench/.work: no export is kept where a judge's
        # search would leave out what git ignores.
        os.environ["HOME"] = home
        ratios = [compare_with(int(files), arguments.pairs) for files in arguments.files.split(",")]
    return 0 if max(ratios) <= GOAL else 1


def compare_with(files: int, pairs: int) -> float:
    """Compare in a new repository with so many files, print it, and return the ratio."""
    shutil.rmtree(WORK, ignore_errors=True)
    repository(files)
    with ScriptedMessagesApi() as api:
        script = api.script(answer, repeat_last=True)
        first = judged(script)
        print(
            f"{files:,} files besides; interleaved pairs: {pairs}; {sys.platform}, "
            f"{len(script.requests)} session",
            flush=True,
        )
        ratio = compare(script, pairs, first)
    print(f"goal <= {GOAL}: {'yes' if ratio <= GOAL else 'NO'}", flush=True)
    return ratio


def compare(script: Script, pairs: int, first: tuple[float, float]) -> float:
    asked = script.requests[0]
    ours, alone, cached = Times(), Times(), Times()
    if not pairs:
        cached.append(spend(review(script)))
        ours.append(first)
        alone.append(spend(session(asked, script)))
    for number in range(pairs):
        sides = [(ours, lambda: judged(script)), (alone, lambda: spend(session(asked, script)))]
        for times, side in sides if number % 2 else reversed(sides):
            times.append(side())
        cached.append(spend(review(script)))
    show("the same, answered by the cache", cached, alone)
    return show("review HEAD~1, judged", ours, alone)


def show(name: str, ours: Times, alone: Times) -> float:
    ratio, cpu = (
        statistics.median(a[kind] / b[kind] for a, b in zip(ours, alone, strict=True))
        for kind in (0, 1)
    )
    left, right = (statistics.median(wall for wall, _ in times) * 1e3 for times in (ours, alone))
    print(
        f"{name:<32} {left:7.0f} ms   claude alone {right:7.0f} ms   ratio {ratio:5.2f} (cpu {cpu:5.2f})",
        flush=True,
    )
    return cpu


def repository(files: int) -> None:
    """This checkout's source, and as many small files, in two commits: all of it, and one changed
    line.
    """
    for number in range(files):
        file = REPOSITORY / "more" / f"part_{number % 1000}" / f"module_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"VALUE_{number} = {number}\n" * 100)
    shutil.copytree(
        ROOT / "vibe_gate", REPOSITORY / "vibe_gate", ignore=shutil.ignore_patterns("__pycache__")
    )
    turns = REPOSITORY / "vibe_gate" / "agent" / "turn_runner.py"
    for message in ("Start", "Begin no turn that has a second left"):
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", message]):
            subprocess.run(["git", *command], cwd=REPOSITORY, check=True, env=environ())
        turns.write_text(turns.read_text().replace(*CHANGED))


def answer(request: MessagesRequest) -> Turn:
    """Every question passes."""
    names = re.findall(r"^\[([a-z0-9-]+)\] ", request.messages[0]["content"], re.MULTILINE)
    said = [{"criterion": name, "outcome": "pass", "reason": "So it is."} for name in names]
    return Turn(ToolUse("StructuredOutput", {"changes": "", "answers": said}))


def form(request: MessagesRequest) -> dict:
    """The JSON schema of the answer."""
    return next(
        tool["input_schema"] for tool in request.body["tools"] if tool["name"] == "StructuredOutput"
    )


def judged(script: Script) -> tuple[float, float]:
    """A review that finds no answer of an earlier one."""
    for place in KEPT:
        shutil.rmtree(place, ignore_errors=True)
    before = len(script.requests)
    took = spend(review(script))
    if len(script.requests) == before:
        raise SystemExit("no judge was asked")
    return took


def review(script: Script) -> Command:
    argv = [*_pairs.VIBE_GATE, "review", "HEAD~1"]
    return Command(argv, REPOSITORY, environ() | api_environ(script))


def session(asked: MessagesRequest, script: Script) -> Command:
    """What the review asked, to be asked by the agent's program alone, in an empty home."""
    place = WORK / "session"
    shutil.rmtree(place, ignore_errors=True)
    (place / "home").mkdir(parents=True)
    (place / "system").write_text(
        asked.body["system"][-1]["text"]
    )  # the texts before it are the program's own
    (place / "prompt").write_text(asked.messages[0]["content"])
    tools = [name for name in asked.tool_names if name != "StructuredOutput"]
    argv = [
        *(
            str(find_cli(os.environ["PATH"])),
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--include-partial-messages",
        ),
        *("--system-prompt-file", str(place / "system"), "--json-schema", json.dumps(form(asked))),
        *("--tools", ",".join(tools), "--max-turns", "20", "--model", str(asked.body["model"])),
        *(
            "--permission-mode",
            "dontAsk",
            "--strict-mcp-config",
            "--setting-sources=",
            "--restricted",
        ),
        *("--disable-slash-commands", "--no-session-persistence"),
    ]
    homes = dict.fromkeys(
        ("HOME", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR", "TMPDIR"), str(place / "home")
    )
    quiet = (
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
    )
    own = homes | dict.fromkeys((*quiet, "DISABLE_AUTOUPDATER"), "1")
    return Command(argv, place, environ() | api_environ(script) | own, str(place / "prompt"))


def environ() -> dict[str, str]:
    hidden = ("CI", "PYTHONDONTWRITEBYTECODE")
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("GIT_", "CLAUDE", "ANTHROPIC_")) and k not in hidden
    }
    person = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
              (("NAME", "Bench"), ("EMAIL", "bench@example.org"))}  # fmt: skip
    return kept | person | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def api_environ(script: Script) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": script.base_url,
        "ANTHROPIC_API_KEY": "bench",
        "NO_PROXY": "127.0.0.1",
    }


def spend(command: Command) -> tuple[float, float]:
    """Seconds of wall clock, and of processors, of a command that must succeed."""
    os.chdir(command.where)
    files = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)]
    files.append((os.POSIX_SPAWN_OPEN, 0, command.stdin, os.O_RDONLY, 0))
    began = time.perf_counter()
    process = os.posix_spawnp(command.argv[0], command.argv, command.environ, file_actions=files)
    _, status, used = os.wait4(process, 0)
    took = time.perf_counter() - began
    if status != 0:
        raise SystemExit(
            f"{' '.join(command.argv)[:200]} failed with status {status} in {command.where}"
        )
    return took, used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
