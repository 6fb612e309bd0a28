"""What `vibe-gate doctor` finds in a repository: its gate, its hooks, its stores."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Retention
from vibe_gate.domain.paths import quote
from vibe_gate.errors import DefinitionError, GateError, UsageError
from vibe_gate.faces.agent_hook import turn_switch
from vibe_gate.faces.agent_hook.hooked_agents import AGENTS, HookedAgent
from vibe_gate.faces.agent_hook.plugin_settings import find_plugin
from vibe_gate.faces.agent_hook.settings import hooks_of, missing_scripts, read_settings
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.git_hook.frameworks import (
    TRANSACTION,
    Framework,
    InstalledHooks,
    find_hooks,
    hooks_waiting_for_husky,
)
from vibe_gate.faces.git_hook.install import is_written_whole, outdated, worktrees_without_hooks
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.loading import FOLDER, load_gate
from vibe_gate.gate.trusted import standing_gate, standing_store
from vibe_gate.git import Repository, open_repository
from vibe_gate.store import captures
from vibe_gate.store.clone_state import open_state

PointState = Literal["ok", "absent", "warning", "broken"]
"""`absent`: not set up, which nothing requires."""


class Point(Struct, frozen=True):
    """One thing that was checked."""

    name: str
    state: PointState
    what: str
    """What was found, in a sentence."""
    advice: str = ""
    """What to do; "" if nothing."""


def examine_repository(start: Path) -> Iterator[Point]:
    """Check the repository around a folder, its gate, hooks and stores."""
    try:
        opened = open_repository(start, read_process_environment())
    except GateError as error:
        yield Point(
            "repository", "broken", str(error), "Run this in a git repository with a working tree."
        )
        return
    with opened as repository:
        yield Point("repository", "ok", str(repository.root))
        for name, examine in (("definitions", _definitions), ("hooks", _hooks)):
            try:
                yield examine(repository)
            except GateError as error:
                yield Point(name, "broken", str(error))
        yield from _agent_hooks(repository)
        yield from _worktree_hooks(repository)
        yield _store(repository.store_root)
        if repository.store_remark:
            yield Point("store", "warning", repository.store_remark)
        yield from _shared_store(repository)
        yield from _damaged_state(repository.common_dir)
        yield from _sessions(repository.common_dir)


def _damaged_state(common_dir: Path) -> Iterator[Point]:
    """State files that were damaged and are not used any more; nothing if there are none."""
    damaged_files = sorted(common_dir.glob("vibe-gate/state.db.damaged-*Z"))
    if damaged_files:
        names = ", ".join(f"{path.name}*" for path in damaged_files)  # with -wal and -shm
        folder = damaged_files[0].parent
        text = f"was damaged and begun anew; safe to delete: {names} (in {folder})"
        yield Point("state.db", "warning", text)


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
        return Point("hooks", "absent", "not installed (`vibe-gate install git` adds them)")
    if not hooks.running and TRANSACTION not in old and not is_written_whole(repository):
        text = f"only {TRANSACTION}, which refuses nothing until there is a gate at commits"
        return Point("hooks", "warning", text, "`vibe-gate install git` adds it.")
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
        # A warning if our hook is there, which refuses nothing yet.
        state: PointState = "warning" if is_guarded else "absent"
        text = f"{framework} manages them, and does not run vibe-gate"
        return Point("hooks", state, text, advice)
    missing = [*hooks.missing]
    if not is_guarded:
        missing.append(TRANSACTION)
    if not missing:
        return Point("hooks", "ok", f"vibe-gate runs at each of them; {framework} manages them")
    places = f"{', '.join(hooks.running)}; not at {', '.join(missing)}"
    text = f"{framework} manages them; vibe-gate runs at {places}"
    if missing == [TRANSACTION]:
        advice = "`vibe-gate install git` adds it."
    return Point("hooks", "warning", text, advice)


def _agent_hooks(repository: Repository) -> Iterator[Point]:
    """The settings of agents that have hooks of vibe-gate; nothing of an agent that has none."""
    for agent in AGENTS.values():
        places = {repository.root / place: repository.root for place in (agent.local, agent.shared)}
        with suppress(UsageError):  # no home
            user_settings = agent.user_settings(read_process_environment().variables)
            places[user_settings] = user_settings.parent
        for path, top in places.items():
            yield from _settings_hooks(agent, path, top)
        yield from _plugin_and_switch(agent, repository)


def _plugin_and_switch(agent: HookedAgent, repository: Repository) -> Iterator[Point]:
    """The plugin that brings the agent's hooks, and whether its turns are not reviewed here."""
    plugin = find_plugin(agent, repository.root, read_process_environment().variables)
    if plugin:
        text = (
            f"{safe(plugin)} is enabled (`/plugin disable` in {agent.title} takes its hooks away)"
        )
        yield Point(f"{agent.name} plugin", "ok", text)
    common_dir = os.fsencode(repository.common_dir)
    if os.path.lexists(turn_switch.switch_file(common_dir, agent.name)):
        text = f"not reviewed when they end (`vibe-gate install {agent.name} --stop` adds that)"
        yield Point(f"{agent.name} turns", "absent", text)


def _settings_hooks(agent: HookedAgent, path: Path, top: Path) -> Iterator[Point]:
    """The hooks in one file of an agent's settings, `top` the folder that they belong to."""
    name, place = f"{agent.name} hooks", quote(str(path))
    try:
        hooks = hooks_of(read_settings(path, top) or "{}", place)
    except UsageError as error:
        yield Point(name, "warning", str(error))
        return
    if missing_scripts(hooks):
        advice = f"Run `vibe-gate install {agent.name}` again, with the option for that file."
        text = f"hooks in {place} start a vibe-gate that is not there"
        yield Point(name, "warning", text, advice)
    elif hooks:
        yield Point(name, "ok", f"in {place}")


def _worktree_hooks(repository: Repository) -> Iterator[Point]:
    """The linked worktrees in which hooks of this working tree do not run; nothing if there are
    none.
    """
    names = worktrees_without_hooks(repository)
    if names:
        advice = (
            "core.hooksPath is relative: run `vibe-gate install git` in each, or make it absolute."
        )
        yield Point("hooks", "warning", f"not in worktrees {quote(', '.join(names))}", advice)
    for agent in AGENTS.values():
        if not _has_hooks(repository.root / agent.local, repository.root) or _has_user_hooks(agent):
            continue
        bare_names = []
        for top in repository.linked_tops():
            places = (top / agent.local, top / agent.shared)
            has_hooks = any(_has_hooks(place, top) for place in places)
            if top != repository.root and not has_hooks:
                bare_names.append(top.name)
        if bare_names:
            advice = f"Run `vibe-gate install {agent.name}` in each, or use --user."
            text = f"not in worktrees {quote(', '.join(bare_names))}"
            yield Point(f"{agent.name} hooks", "warning", text, advice)


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
        return  # the point about the working tree says so
    if gate is None or not gate.store_url:
        return
    advice = "Without it reviews are made as if there were none: see docs/guides/shared-store.md."
    try:
        store = standing_store(repository, now)
    except UsageError as error:
        yield Point("shared store", "warning", str(error), advice)
        return
    store.probe()
    faults = store.take_remarks()
    if faults:
        yield Point("shared store", "warning", faults[0], advice)
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
    number = counted(len(recent_gaps), "gap")
    time = f"{last_gap.moment:%Y-%m-%d %H:%M}Z"
    text = f"{number} in the capture, the last {time}: {last_gap.reason}"
    advice = (
        "An agent's work from then may look like a person's: commit it with a Co-authored-by "
        "trailer.\n"
        f"All times and reasons are in {place / 'gaps'}; delete that file once the cause is fixed."
    )
    yield Point("sessions", "warning", text, advice)
