"""`vibe-gate doctor`: check what a review needs, and say how to fix what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict

from vibe_gate.agent import agent_environment_from, find_cli
from vibe_gate.domain.change import EMPTY_TREE
from vibe_gate.domain.escape import safe
from vibe_gate.domain.gate import DEFAULT_MODEL, Gate
from vibe_gate.errors import PASS, USAGE, AgentError, GateError
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.output import COLUMNS, emit_result, wrapped
from vibe_gate.faces.cli.repository_points import Point, PointState, examine_repository
from vibe_gate.faces.process_environment import is_in_actions_step, read_process_environment
from vibe_gate.gate.loading import built_in_gate
from vibe_gate.gate.trusted import own_gate, standing_gate
from vibe_gate.gateway import ask_model, find_upstream
from vibe_gate.git import open_repository
from vibe_gate.report.sentences import UNASKED_WITH_THIS_GATE
from vibe_gate.secrets import Redactor
from vibe_gate.version import __version__

MARKS = {"ok": "✓", "absent": "·", "warning": "!", "broken": "✗"}

WHOLE, CORE = "vibe-gate", "vibe-gate-core"
"""The distributions: with what asks a model, and without."""

INDENT = " " * 15
"""Before the lines of an advice."""

ANSWER_S = 10.0
"""Seconds that a program may take to say its version."""


class DoctorArguments(Struct, frozen=True):
    """The arguments of `vibe-gate doctor`."""

    ask: bool
    """Send one small request to the model."""
    as_json: bool


def _parse(args: argparse.Namespace) -> DoctorArguments:
    return DoctorArguments(args.ask, args.json)


def _run(arguments: DoctorArguments) -> int:
    points = list(examine(Path.cwd()))
    if arguments.ask:
        position = [point.name for point in points].index("key") + 1
        points.insert(position, _asked_model(Path.cwd()))
    exit_code = USAGE if any(point.state == "broken" for point in points) else PASS
    document = {"exit_code": exit_code, "points": [asdict(point) for point in points]}
    lines: list[str] = []
    for point in points:
        lines += _lines(point)
    return emit_result(document, lines, exit_code, as_json=arguments.as_json)


def examine(start: Path) -> Iterator[Point]:
    """Check everything, in the order in which a review needs it."""
    yield installation_point(_find_distribution(WHOLE), _find_distribution(CORE))
    yield _git()
    yield Point("libgit2", "ok", f"pygit2 {importlib.metadata.version('pygit2')}")
    consequence = _without_judge(start)
    yield _agent(consequence)
    yield _key(consequence)
    yield from examine_repository(start)


class InstalledDistribution(Struct, frozen=True):
    """A distribution of vibe-gate as it is installed here."""

    version: str
    needs_core: bool
    """Whether its code is that of vibe-gate-core, as the package index has it."""


def _find_distribution(name: str) -> InstalledDistribution | None:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    requirements = distribution.requires or ()
    needs_core = any(requirement.startswith(f"{CORE}==") for requirement in requirements)
    return InstalledDistribution(distribution.version, needs_core)


def installation_point(
    full_package: InstalledDistribution | None, core_package: InstalledDistribution | None
) -> Point:
    """Which distribution of vibe-gate is here, of the two that can be."""
    name = WHOLE if full_package else CORE
    if full_package is None and core_package is None:
        name = "not installed, run from its folder"
    text = f"{__version__} ({name}), Python {sys.version.split()[0]}"
    if full_package is None or core_package is None:
        return Point("vibe-gate", "ok", text)
    if not full_package.needs_core:
        text += "; both vibe-gate and vibe-gate-core have put its code here"
        advice = f"Run `pip uninstall {WHOLE} {CORE}`, then install one of them."
        return Point("vibe-gate", "warning", text, advice)
    if full_package.version != core_package.version:
        text += f"; vibe-gate {full_package.version} is made for the same version of vibe-gate-core"
        return Point("vibe-gate", "warning", text, f"Run `pip install --upgrade {WHOLE}`.")
    return Point("vibe-gate", "ok", text)


def _lines(point: Point) -> list[str]:
    first_line = f"{MARKS[point.state]} {point.name:<12} {safe(point.what)}"
    lines = wrapped(first_line, COLUMNS, INDENT).split("\n")
    for advice in point.advice.splitlines():
        text = f"{INDENT}→ {safe(advice)}"
        lines += wrapped(text, COLUMNS, f"{INDENT}  ").split("\n")
    return lines


def _git() -> Point:
    program = shutil.which("git")
    if program is None:
        return Point(
            "git", "broken", "the git program is not on PATH", "Install git 2.31 or newer."
        )
    try:
        result = subprocess.run(
            [program, "--version"], capture_output=True, timeout=ANSWER_S, check=True, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Point(
            "git", "broken", f"{program} does not run ({type(error).__name__})", "Reinstall git."
        )
    version = result.stdout.decode("utf-8", "replace").strip()
    return Point("git", "ok", f"{version} ({program})")


def _without_judge(start: Path) -> str:
    """What becomes of reviews here while no judge can be asked."""
    if not _demands_answers(start):
        return "Until then checks run, and judge questions are skipped."
    return f"Until then {UNASKED_WITH_THIS_GATE}."


def _demands_answers(start: Path) -> bool:
    """Whether a review here has no verdict without answers: the repository's own gate has questions
    for a judge, or the built-in gate is in force in CI.
    """
    environment = read_process_environment()
    # What is wrong with the repository or its gate has a point of its own.
    with suppress(GateError), open_repository(start, environment) as repository:
        gate = standing_gate(repository) or own_gate(repository.root)
        if gate.origin == "built-in" and not environment.in_ci:
            return False
        names = gate.file.named_rubrics
        return bool(names) and gate.may_ask(names)
    return False


def _agent(consequence: str) -> Point:
    try:
        cli = find_cli(agent_environment_from(read_process_environment().variables).search_path)
    except AgentError as error:
        advice = consequence
        if is_in_actions_step():
            # The Action installs the SDK unless its inputs want no judge.
            advice = f'In the Action, leave out `judge: "false"`.\n{advice}'
        return Point("claude", "warning", str(error), advice)
    if cli.parent.name == "_bundled":
        return Point("claude", "ok", f"{_bundled_version(cli)}, bundled with claude-agent-sdk")
    return Point("claude", "ok", f"{cli} (claude-agent-sdk does not bundle one)")


def _bundled_version(cli: Path) -> str:
    try:
        return cli.with_suffix(".version").read_text().strip()
    except OSError:
        return "Claude Code"


def _key(consequence: str) -> Point:
    advice = f"Set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a local model.\n{consequence}"
    try:
        upstream = find_upstream(read_process_environment().variables)
    except GateError as error:
        return Point("key", "warning", str(error), advice)
    if upstream is None:
        return Point("key", "warning", "no API key", advice)
    text = upstream.source
    host = urlsplit(upstream.base_url).hostname
    if host:  # the host only: a URL may carry a password
        text += f" to {host}"
    if upstream.passed_through:
        text += "; the cloud's own credentials, not metered here"
    return Point("key", "ok", text)


_ASK_ADVICE = {
    "key": "The key was refused: check it, its rights and its account, or make a new one.",
    "model": "Name a model that the endpoint knows: `default` in [model] of .vibe-gate/gate.toml.",
    "address": "Check ANTHROPIC_BASE_URL, the proxy and the network.",
    "limit": "The key works or cannot be judged now: try again later, or raise the limit of the account.",
    "request": "Check ANTHROPIC_BASE_URL and the account; the message says what the endpoint does not take.",
}


def _asked_model(start: Path) -> Point:
    """What came of one real request with the key that was found."""
    try:
        upstream = find_upstream(read_process_environment().variables)
    except GateError:
        return Point("model", "warning", "not asked: the settings of the key contradict each other")
    if upstream is None:
        return Point("model", "warning", "not asked: no API key")
    if upstream.passed_through:
        text = f"not asked: agents reach {upstream.source} by themselves"
        return Point(
            "model", "warning", text, "Try it with `vibe-gate run --agent ID --prompt TEXT`."
        )
    reply = ask_model(upstream, _default_model(start))
    redactor = Redactor(read_process_environment().variables)
    text = redactor.text(reply.text)  # an endpoint may repeat the key
    if reply.refusal is None:
        return Point("model", "ok", text)
    state: PointState = "warning" if reply.refusal == "limit" else "broken"
    return Point("model", state, text, _ASK_ADVICE[reply.refusal])


def _default_model(start: Path) -> str:
    """The model that the gate in force names, or else the built-in gate's."""
    gate: Gate | None = None
    environment = read_process_environment()
    with suppress(GateError), open_repository(start, environment) as repository:
        gate = standing_gate(repository) or built_in_gate(repository.tree(EMPTY_TREE))
    model = gate.default_model(environment) if gate else environment.model
    return model or DEFAULT_MODEL


DOCTOR = Command(
    "Check what a review needs here, and say how to fix what is missing.",
    (
        argument(
            "--ask",
            action="store_true",
            help="send one small request to the model, and say what came back",
        ),
        JSON,
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate doctor         exit 0: a review can run; 2: something is broken
  vibe-gate doctor --ask   does the model answer this key? (costs a few tokens)
  vibe-gate doctor --json  the same as one JSON document
""",
)
