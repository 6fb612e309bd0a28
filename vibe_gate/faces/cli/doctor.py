"""`vibe-gate doctor`: check what a review needs, and say how to fix what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict

from vibe_gate.agent import agent_environment_from, find_cli
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.change import EMPTY_TREE
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import DEFAULT_MODEL, Gate, Retention
from vibe_gate.domain.paths import quote
from vibe_gate.errors import PASS, USAGE, AgentError, DefinitionError, GateError, UsageError
from vibe_gate.faces.agent_hook.agents import AGENTS, HookedAgent
from vibe_gate.faces.agent_hook.settings import hooks_of, missing_scripts, read_settings
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.output import COLUMNS, emit_result, now, wrapped
from vibe_gate.faces.git_hook.frameworks import (
    TRANSACTION,
    Framework,
    InstalledHooks,
    find_hooks,
    hooks_waiting_for_husky,
)
from vibe_gate.faces.git_hook.install import outdated, worktrees_without_hooks
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.loading import FOLDER, built_in_gate, load_gate
from vibe_gate.gate.trusted import standing_gate, standing_store
from vibe_gate.gateway import ask_model, find_upstream
from vibe_gate.git import Repository, open_repository
from vibe_gate.secrets import Redactor
from vibe_gate.store import captures
from vibe_gate.store.clone_state import open_state
from vibe_gate.version import __version__

State = Literal["ok", "warning", "broken"]
MARKS = {"ok": "✓", "warning": "!", "broken": "✗"}

ANSWER_S = 10.0
"""Seconds that a program may take to say its version."""


class Point(Struct, frozen=True):
    """One thing that was checked. `advice` says what to do; "" if nothing."""

    name: str
    state: State
    what: str
    advice: str = ""


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
    lines = (line for point in points for line in _lines(point))
    return emit_result(document, lines, exit_code, as_json=arguments.as_json)


def examine(start: Path) -> Iterator[Point]:
    """Check everything, in the order in which a review needs it."""
    yield Point("vibe-gate", "ok", f"{__version__}, Python {sys.version.split()[0]}")
    yield _git()
    yield Point("libgit2", "ok", f"pygit2 {importlib.metadata.version('pygit2')}")
    yield _agent()
    yield _key()
    yield from _here(start)


def _lines(point: Point) -> list[str]:
    indent = " " * 15
    first = f"{MARKS[point.state]} {point.name:<12} {safe(point.what)}"
    texts = [first, *(f"{indent}→ {safe(line)}" for line in point.advice.splitlines())]
    return [
        line
        for text in texts
        for line in wrapped(text, COLUMNS, indent + "  " * (text is not first)).split("\n")
    ]


def _git() -> Point:
    program = shutil.which("git")
    if program is None:
        return Point(
            "git", "broken", "the git program is not on PATH", "Install git 2.31 or newer."
        )
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, timeout=ANSWER_S, check=True, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Point(
            "git", "broken", f"{program} does not run ({type(error).__name__})", "Reinstall git."
        )
    return Point("git", "ok", f"{said.stdout.decode('utf-8', 'replace').strip()} ({program})")


def _agent() -> Point:
    try:
        cli = find_cli(agent_environment_from(read_process_environment().variables).search_path)
    except AgentError as error:
        return Point(
            "claude",
            "warning",
            str(error),
            "Until then checks run and judge questions are inconclusive.",
        )
    if cli.parent.name == "_bundled":
        return Point("claude", "ok", f"{_bundled_version(cli)}, bundled with claude-agent-sdk")
    return Point("claude", "ok", f"{cli} (claude-agent-sdk does not bundle one)")


def _bundled_version(cli: Path) -> str:
    try:
        return cli.with_suffix(".version").read_text().strip()
    except OSError:
        return "Claude Code"


def _key() -> Point:
    advice = (
        "Set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a local model.\n"
        "Without a key, checks still run; judge questions are skipped."
    )
    try:
        upstream = find_upstream(read_process_environment().variables)
    except GateError as error:
        return Point("key", "warning", str(error), advice)
    if upstream is None:
        return Point("key", "warning", "no API key", advice)
    address = urlsplit(upstream.base_url)
    where = (
        f" to {address.hostname}" if address.hostname else ""
    )  # the host only: a URL may carry a password
    metered = "; the cloud's own credentials, not metered here" if upstream.passed_through else ""
    return Point("key", "ok", f"{upstream.source}{where}{metered}")


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
        what = f"not asked: agents reach {upstream.source} by themselves"
        return Point(
            "model", "warning", what, "Try it with `vibe-gate run --agent ID --prompt TEXT`."
        )
    reply = ask_model(upstream, _default_model(start))
    what = Redactor(read_process_environment().variables).text(
        reply.text
    )  # an endpoint may repeat the key
    if reply.refusal is None:
        return Point("model", "ok", what)
    state: State = "warning" if reply.refusal == "limit" else "broken"
    return Point("model", state, what, _ASK_ADVICE[reply.refusal])


def _default_model(start: Path) -> str:
    """The model that the gate in force names, or else the built-in gate's."""
    gate: Gate | None = None
    environment = read_process_environment()
    with suppress(GateError), open_repository(start, environment) as repository:
        gate = standing_gate(repository) or built_in_gate(repository.tree(EMPTY_TREE))
    model = gate.default_model(environment) if gate else environment.model
    return model or DEFAULT_MODEL


def _here(start: Path) -> Iterator[Point]:
    try:
        opened = open_repository(start, read_process_environment())
    except GateError as error:
        yield Point(
            "repository", "broken", str(error), "Run this in a git repository with a working tree."
        )
        return
    with opened as repository:
        yield Point("repository", "ok", str(repository.root))
        for name, look in (("definitions", _definitions), ("hooks", _hooks)):
            try:
                yield look(repository)
            except GateError as error:
                yield Point(name, "broken", str(error))
        yield from _agent_hooks(repository)
        yield from _worktree_hooks(repository)
        yield _store(repository.store_root)
        if repository.store_remark:
            yield Point("store", "warning", repository.store_remark)
        yield from _shared_store(repository)
        if damaged := sorted(repository.common_dir.glob("vibe-gate/state.db.damaged-*Z")):
            names = ", ".join(f"{path.name}*" for path in damaged)  # with -wal and -shm
            what = f"was damaged and begun anew; safe to delete: {names} (in {damaged[0].parent})"
            yield Point("state.db", "warning", what)
        yield from _sessions(repository.common_dir)


def _definitions(repository: Repository) -> Point:
    tree = repository.tree(repository.snapshot())
    files = tree.list(FOLDER)
    if not files:
        return Point(
            "definitions",
            "ok",
            f"built-in gate (no {FOLDER} here)",
            "`vibe-gate init` writes starters.",
        )
    try:
        load_gate(tree, revision="", origin="trusted")
    except DefinitionError as error:
        count = counted(len(error.mistakes), "mistake")
        return Point("definitions", "broken", f"{count} in the working tree", str(error))
    return Point(
        "definitions",
        "ok",
        f"{counted(len(files), 'file')} in {FOLDER} of the working tree, no mistakes",
    )


def _hooks(repository: Repository) -> Point:
    hooks = find_hooks(repository.root, repository.hooks_folder())
    if hooks.framework is not None:
        return _framework_hooks(repository, hooks, hooks.framework)
    old = outdated(repository)
    if old is None and hooks.running:
        return Point("hooks", "ok", f"your own hooks run vibe-gate at {', '.join(hooks.running)}")
    if old is None:
        return Point("hooks", "ok", "not installed (`vibe-gate install git` adds them)")
    if old:
        advice = "Run `vibe-gate install git` again."
        return Point("hooks", "warning", f"outdated: {', '.join(old)}", advice)
    return Point("hooks", "ok", "installed and up to date")


def _framework_hooks(repository: Repository, hooks: InstalledHooks, framework: Framework) -> Point:
    """Whether a framework runs vibe-gate at all hooks, and git refuses an agent's way around
    them.
    """
    if hooks_waiting_for_husky(hooks, repository.hooks_folder()):
        text = "husky has not written its hooks in this working tree, so git runs none"
        return Point("hooks", "warning", text, "Run `npx husky` here.")
    own_names = [file.name for file in hooks.owned_by("vibe-gate")]
    old = [name for name in outdated(repository) or () if name in own_names]
    if old:
        text = f"{framework} manages them; outdated: {', '.join(old)}"
        return Point("hooks", "warning", text, "Run `vibe-gate install git` again.")
    advice = "`vibe-gate install git` prints what to add."
    is_guarded = any(file.owner == "vibe-gate" for file in hooks.files if file.name == TRANSACTION)
    if not hooks.running:
        state: State = (
            "warning" if is_guarded else "ok"
        )  # our hook is there, and refuses nothing yet
        return Point(
            "hooks", state, f"{framework} manages them, and does not run vibe-gate", advice
        )
    missing = (*hooks.missing, *(() if is_guarded else (TRANSACTION,)))
    if not missing:
        return Point("hooks", "ok", f"vibe-gate runs at each of them; {framework} manages them")
    places = f"{', '.join(hooks.running)}; not at {', '.join(missing)}"
    text = f"{framework} manages them; vibe-gate runs at {places}"
    if missing == (TRANSACTION,):
        advice = "`vibe-gate install git` adds it."
    return Point("hooks", "warning", text, advice)


def _agent_hooks(repository: Repository) -> Iterator[Point]:
    """The settings of agents that have hooks of vibe-gate; nothing of an agent that has none."""
    for agent in AGENTS.values():
        name = f"{agent.name} hooks"
        places = {repository.root / place: repository.root for place in (agent.local, agent.shared)}
        with suppress(UsageError):  # no home
            own = agent.user_settings(read_process_environment().variables)
            places[own] = own.parent
        for path, below in places.items():
            shown = quote(str(path))
            try:
                hooks = hooks_of(read_settings(path, below) or "{}", shown)
            except UsageError as error:
                yield Point(name, "warning", str(error).removesuffix(" Nothing was changed."))
                continue
            if missing_scripts(hooks):
                advice = (
                    f"Run `vibe-gate install {agent.name}` again, with the option for that file."
                )
                yield Point(
                    name, "warning", f"hooks in {shown} start a vibe-gate that is not there", advice
                )
            elif hooks:
                yield Point(name, "ok", f"in {shown}")


def _worktree_hooks(repository: Repository) -> Iterator[Point]:
    """The linked worktrees in which hooks of this working tree do not run; nothing if there are
    none.
    """
    if names := worktrees_without_hooks(repository):
        advice = (
            "core.hooksPath is relative: run `vibe-gate install git` in each, or make it absolute."
        )
        yield Point("hooks", "warning", f"not in worktrees {quote(', '.join(names))}", advice)
    for agent in AGENTS.values():
        if not _has_hooks(repository.root / agent.local, repository.root) or _has_user_hooks(agent):
            continue
        tops = [top for top in repository.linked_tops() if top != repository.root]
        places = [(top, place) for top in tops for place in {agent.local, agent.shared}]
        covered = {top for top, place in places if _has_hooks(top / place, top)}
        without = ", ".join(top.name for top in tops if top not in covered)
        if without:
            advice = f"Run `vibe-gate install {agent.name}` in each, or use --user."
            yield Point(
                f"{agent.name} hooks", "warning", f"not in worktrees {quote(without)}", advice
            )


def _has_user_hooks(agent: HookedAgent) -> bool:
    with suppress(UsageError):  # no home
        path = agent.user_settings(read_process_environment().variables)
        return _has_hooks(path, path.parent)
    return False


def _has_hooks(path: Path, below: Path) -> bool:
    """Whether settings of an agent have hooks of vibe-gate."""
    with suppress(UsageError):
        return bool(hooks_of(read_settings(path, below) or "{}", quote(str(path))))
    return False


def _store(root: Path) -> Point:
    store = root / STORE
    if store.is_symlink() or (store.exists() and not store.is_dir()):
        return Point(
            "store",
            "broken",
            f"{store} is not a directory",
            "Move it away; the next review makes a new one.",
        )
    place = store if store.exists() else root
    if not os.access(place, os.W_OK | os.X_OK):
        return Point(
            "store",
            "broken",
            f"{place} is not writable",
            "Bundles are stored there: change its owner or mode.",
        )
    free_mb = shutil.disk_usage(place).free // 1_000_000
    if free_mb < Retention().min_free_disk_mb:
        return Point(
            "store", "warning", f"{store}: {free_mb} MB free", "Free some disk space for bundles."
        )
    return Point("store", "ok", f"{store} ({free_mb:,} MB free)")


def _shared_store(repository: Repository) -> Iterator[Point]:
    """The shared store, if the gate at the trusted revision names one: whether it can be read from
    here.
    """
    try:
        gate = standing_gate(repository)
    except DefinitionError:
        return  # told of the working tree
    if gate is None or not gate.store_url:
        return
    advice = "Without it reviews are made as if there were none: see docs/guides/shared-store.md."
    try:
        store = standing_store(repository, now)
    except UsageError as error:
        yield Point("shared store", "warning", str(error), advice)
        return
    store.probe()
    if told := store.take_remarks():
        yield Point("shared store", "warning", told[0], advice)
    else:
        yield Point("shared store", "ok", gate.store_url)


def _sessions(common_dir: Path) -> Iterator[Point]:
    """Agent events that were not captured and may still concern a change; nothing without a
    captured session.
    """
    place = common_dir / "vibe-gate" / "captures"
    if not place.is_dir():
        return
    since = datetime.now(UTC) - captures.MAX_AGE
    gaps = captures.read_capture_gaps(open_state(common_dir))
    recent_gaps = [gap for gap in gaps if gap.moment >= since]
    if not recent_gaps:
        yield Point("sessions", "ok", "captured; no missing events known")
        return
    last_gap = max(recent_gaps, key=lambda gap: (gap.moment, gap.reason))
    advice = (
        "An agent's work from then may look like a person's: commit it with a Co-authored-by trailer.\n"
        f"All times and reasons are in {place / 'gaps'}; delete that file once the cause is fixed."
    )
    count = counted(len(recent_gaps), "gap")
    when = f"{last_gap.moment:%Y-%m-%d %H:%M}Z"
    what = f"{count} in the capture, the last {when}: {last_gap.reason}"
    yield Point("sessions", "warning", what, advice)


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
