"""What the gate makes of public bugs, and of public changes that were meant: counterexamples that
run.

    python bench/ground_truth.py --bugsinpy CLONE [--testora CLONE] --project NAME CLONE ENVIRONMENT
    ... [--jobs 2]

CLONE is a git directory of soarsmu/BugsInPy, of michaelpradel/Testora, or of a project that these
name (of BugsInPy: tqdm, thefuck, tornado, PySnooper; of Testora: marshmallow). ENVIRONMENT is a
virtual environment with what that project's tests need; `--project` is given for each.

A bug of BugsInPy counts if its own test fails in the buggy tree and passes in the fixed one with
today's Python; that is found out with the project's own command, without the gate and **without a
wall**: whoever starts this runs the code of those projects. Then the gate reviews the step from the
fixed to the buggy tree, and the step back. A difference of Testora that is labelled as intended is
reviewed as its pull request was merged.

The judge is scripted (the real command, a model that answers from a list): it answers "fail" to one
question with `proof = "required"`, quotes a changed line, and writes the bug's own test, cut to
what it needs, or a test that demands what a script printed before. For a bug it quotes the
docstring of the changed function, else a line of a test that calls it, else any caller; for a
difference it quotes nothing. Which line it quotes is chosen by this rule, not by reading: the
figures say what the gate does with a quoted line, not whether that line is a good reason.

A test that needs a socket or shared memory cannot run behind the wall. Every case is built twice
and compared. Work is done below bench/.work/ground_truth (`--work`); results.json is left there.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct, to_builtins

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "bench")]

import sdk_alone  # noqa: E402
from _public_cases import Case, Quote, Skipped, bugs, differences, git, repository  # noqa: E402
from clean_environ import clean_environ  # noqa: E402
from command import vibe_gate  # noqa: E402
from scripted_messages_api import ScriptedMessagesApi, ToolUse, Turn  # noqa: E402

WORK = ROOT / "bench" / ".work" / "ground_truth"
BUGS = ("tqdm", "thefuck", "tornado", "PySnooper")

RUBRIC = """\
schema = 1
id = "works"
pass_threshold = 0.0
second_look = "never"

[[criterion]]
id = "works"
kind = "judge"
question = "Does the changed code work as its own tests and documentation say?"
must = true
proof = "required"
"""


class Seen(Struct, frozen=True):
    """What a review came to. `status`: of the proof, "" if there is none."""

    case: str
    kind: str
    status: str
    outcome: str
    code: int
    obliges: str = ""
    reason: str = ""


Environments = dict[str, Path]


def main(argv: Sequence[str] | None = None) -> int:
    """Build, run, count; 0 if every goal is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bugsinpy", type=Path)
    parser.add_argument("--testora", type=Path)
    parser.add_argument(
        "--project", nargs=3, action="append", default=[], metavar=("NAME", "CLONE", "ENVIRONMENT")
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK)
    given = parser.parse_args(argv)
    if not given.project:
        print("No clone is given, so nothing is run. See --help.")
        return 0
    work = given.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    clones = {name: Path(clone).resolve() for name, clone, _ in given.project}
    environments = {name: Path(where).absolute() for name, _, where in given.project}
    began = time.monotonic()
    cases, left = chosen(given.bugsinpy, given.testora, clones, environments, given.jobs)
    print(f"{len(cases)} cases, {time.monotonic() - began:.0f} s", flush=True)
    with ScriptedMessagesApi() as api, ThreadPoolExecutor(given.jobs) as pool:
        seen = list(
            pool.map(lambda case: reviewed(api, case, environments[case.project], work), cases)
        )
    (work / "results.json").write_text(
        json.dumps(to_builtins({"seen": seen, "left": left}), indent=1)
    )
    is_met = told(seen, left)
    print(f"{len(seen)} reviews, {time.monotonic() - began:.0f} s in all")
    return 0 if is_met else 1


def chosen(
    bugsinpy: Path | None,
    testora: Path | None,
    clones: dict[str, Path],
    environments: Environments,
    jobs: int,
) -> tuple[list[Case], list[Skipped]]:
    """The cases to review, and what is left out."""
    cases, left = list[Case](), list[Skipped]()
    wanted = [(bugs, bugsinpy, name) for name in clones if name in BUGS and bugsinpy]
    wanted += [(differences, testora, name) for name in clones if name not in BUGS and testora]
    found = [
        each
        for read, collection, name in wanted
        for each in read(collection.resolve(), name, clones[name])
    ]
    with ThreadPoolExecutor(jobs) as pool:
        for each, why in zip(
            found, pool.map(lambda each: lack(each, environments), found), strict=True
        ):
            if why or isinstance(each, Skipped):
                left.append(Skipped(each.name, why))
                continue
            back = each.turned() if each.commands else None
            cases += [each, back] if back else [each]
    return cases, left


def lack(found: Case | Skipped, environments: Environments) -> str:
    """Why this is no case; "" if it is one. A bug's own test must tell the trees apart without the
    gate.
    """
    if isinstance(found, Skipped):
        return found.why
    if not found.commands:
        return ""
    if not all(tried(found, found.before, environments)):
        return "its test fails in the fixed tree, too"
    return (
        "its test passes in the buggy tree, too"
        if all(tried(found, found.after, environments))
        else ""
    )


def tried(case: Case, tree: str, environments: Environments) -> Iterator[bool]:
    """Whether each command of the project passes in the tree with the test files of the fix."""
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # not below this checkout, whose settings pytest would take
        for commit, paths in ((tree, ()), (case.before, case.test_files)):
            argv = ["git", "-C", case.clone, "archive", commit, *paths]
            packed = subprocess.run(argv, capture_output=True, check=True)
            with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
                archive.extractall(folder, filter="data")
        path = f"{environments[case.project] / 'bin'}:{os.environ['PATH']}"
        environ = {
            "HOME": folder,
            "PATH": path,
            "PYTHONPATH": folder,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for command in case.commands:
            argv = ["timeout", "30", *command.split()]
            yield (
                subprocess.run(
                    argv, cwd=folder, env=environ, capture_output=True, check=False
                ).returncode
                == 0
            )


def definitions(case: Case) -> dict[str, str]:
    """The gate of a case."""
    place = f'file = "{case.place}"\n' if case.place else ""
    gate = f'schema = 1\nrubrics = ["works"]\n\n[counterexample]\ntimeout_s = 30\n{place}'
    return {".vibe-gate/gate.toml": gate, ".vibe-gate/rubrics/works.toml": RUBRIC}


def reviewed(api: ScriptedMessagesApi, case: Case, environment: Path, work: Path) -> Seen:
    """The review of one case by the command itself, its repository made twice."""
    place = work / "cases" / case.name.replace(" ", "-")
    made = [repository(place / name, case, definitions(case)) for name in ("first", "again")]
    if made[0] != made[1]:
        raise SystemExit(f"{case.name} is not the same twice: {made}")
    git(place / "first", "checkout", "-q", "-f", "HEAD")
    script = api.script(Turn(ToolUse("StructuredOutput", answer(case))), repeat_last=True)
    environ = clean_environ(place) | {
        "PATH": f"{sdk_alone.QUICK}:{os.environ['PATH']}",
        "PYTHONPATH": f"{sdk_alone.SITE}{os.pathsep}{ROOT}",
        "VIBE_GATE_TEST_ENVIRONMENT": str(environment),
        "ANTHROPIC_BASE_URL": script.base_url,
        "ANTHROPIC_API_KEY": "sk-ant-api03-scripted",
    }
    argv = ("review", "--commit", "HEAD", "--json", "--deadline", "300")
    done = vibe_gate(*argv, cwd=place / "first", environ=environ, timeout=400)
    if done.returncode not in (0, 1, 2, 3) or not done.stdout.startswith("{"):
        raise SystemExit(
            f"{case.name} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-2000:]}"
        )
    shutil.rmtree(place / "again")
    return read(case, json.loads(done.stdout), done.returncode)


def answer(case: Case) -> dict:
    """A fail with evidence, the test, and an obligation where there is one."""
    given = {
        "criterion": "works",
        "outcome": "fail",
        "reason": "The changed code does not do what it did.",
        "counterexample": "see the test -> it fails",
        "evidence": [quoted(case.changed) | {"side": case.changed.side}],
        "test": case.test,
        "obligation": [quoted(case.obligation)] if case.obligation else [],
    }
    return {"changes": "", "answers": [given]}


def quoted(quote: Quote) -> dict:
    return {"path": quote.path, "line": quote.line, "quote": quote.text}


def read(case: Case, summary: dict, code: int) -> Seen:
    """What the summary says of the one question."""
    [criterion] = summary["rubrics"][0]["criteria"]
    defects = [defect for vote in criterion["votes"] for defect in vote.get("defects", [])]
    proof = next((defect["proof"] for defect in defects if "proof" in defect), {})
    kind = "difference" if not case.commands and not case.name.endswith(" fix") else "bug"
    kind = "fix" if case.name.endswith(" fix") else kind
    status, reason = proof.get("status", ""), proof.get("reason", criterion["reason"])
    return Seen(case.name, kind, status, criterion["outcome"], code, case.obliges, reason)


def told(seen: Sequence[Seen], left: Sequence[Skipped]) -> bool:
    """Print a table and the goals; whether they are met."""
    print(
        "| cases | proven | shown | void | unchanged, flaky | could not run | blocked |\n|"
        + " --- |" * 7
    )
    for kind in ("bug", "fix", "difference"):
        of = [each for each in seen if each.kind == kind]
        counts = collections.Counter(each.status or "none" for each in of)
        rest = counts["unchanged"] + counts["flaky"]
        cells = [
            counts["proven"],
            counts["shown"],
            counts["void"],
            rest,
            counts["could_not_run"],
            blocked(of),
        ]
        print(f"| {kind}: {len(of)} | {' | '.join(map(str, cells))} |")
    print(
        "quoted for bugs:",
        dict(collections.Counter(each.obliges or "nothing" for each in seen if each.kind == "bug")),
    )
    for each in seen:
        expected = {"bug": ("proven", "shown"), "fix": ("void",), "difference": ("shown",)}[
            each.kind
        ]
        if each.status not in expected:
            print(
                f"  {each.case}: {each.status or 'no proof'}, {each.outcome}, exit code {each.code}: {each.reason}"
            )
    for why, count in collections.Counter(each.why for each in left).most_common():
        print(
            f"  left out: {count}, {why}: {', '.join(each.name for each in left if each.why == why)}"
        )
    reached = list(goals(seen))
    for name, is_met in reached:
        print(f"{name}: {'yes' if is_met else 'NO'}")
    return all(is_met for _, is_met in reached)


def blocked(seen: Sequence[Seen]) -> int:
    return sum(each.code == 1 for each in seen)


def goals(seen: Sequence[Seen]) -> Iterator[tuple[str, bool]]:
    of = {
        kind: [each for each in seen if each.kind == kind] for kind in ("bug", "fix", "difference")
    }
    shown = [each for each in of["bug"] if each.status in ("shown", "proven")]
    if of["bug"]:
        able = [each for each in of["bug"] if each.status != "could_not_run"]
        lost = len(of["bug"]) - len(able)
        yield (
            f"{len(shown)} of {len(of['bug'])} bugs shown, {lost} could not run, all others wanted",
            len(shown) == len(able),
        )
        obliged = [each for each in shown if each.obliges]
        yield "with an obligation, all are proven and block", blocked(obliged) == len(obliged)
        yield "no fix blocks", not blocked(of["fix"])
    if again := [each for each in of["difference"] if each.status == "shown"]:
        yield (
            f"{blocked(again)} of {len(again)} intended differences block, 2 % at most",
            blocked(again) * 50 <= len(again),
        )


if __name__ == "__main__":
    sys.exit(main())
