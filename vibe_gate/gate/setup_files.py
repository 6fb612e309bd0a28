"""The set-up of a project's Claude Code: CLAUDE.md, `.claude/` and `.mcp.json` of one tree.

What is loaded is on a list here, and of front matter and settings only the keys that are listed:
whatever else Claude Code reads in a project, now or in a later version, is not in the agent's home.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.change import EXECUTABLE_MODE
from vibe_gate.domain.document import parse_object
from vibe_gate.domain.escape import counted, expression, list_names, show_text
from vibe_gate.domain.project_setup import ProjectSetup, SetupFile
from vibe_gate.errors import UsageError
from vibe_gate.gate.front_matter import (
    first_key,
    front_matter_blocks,
    front_matter_end,
    front_matter_entries,
    unclosed_front_matter,
    unreadable_value,
)
from vibe_gate.git import Tree

INSTRUCTIONS = "CLAUDE.md"
OWN_FOLDER = ".claude"
SETTINGS = ".claude/settings.json"
SERVERS = ".mcp.json"
_LOCAL_INSTRUCTIONS = "CLAUDE.local.md"
_RULES = ".claude/rules"
_SKILL = "SKILL.md"

MAX_FILE_BYTES = 1_000_000
"""Of a file of the set-up: 250,000 tokens, more than a model takes."""

MAX_BYTES = 20_000_000
"""Of all files together: skills may hold pictures and tables."""

MAX_FILES = 2_000

MAX_IMPORTS = 5
"""Files that import one another, in a row; Claude Code follows no more."""

_MAX_LINKS = 8
_ROOT = PurePosixPath()

_NOT_IMPORTED = (
    *(f".claude/{name}/" for name in ("agents", "commands", "skills", "output-styles", "plugins")),
    ".claude/settings",
)
"""What Claude Code might find beside the instructions, and take for more than text."""

_HOOK_KEYS = ("type", "command", "args", "timeout", "async", "if")
_SERVER_KEYS = ("type", "command", "args", "env", "url", "headers")

_SKILL_KEYS = (
    *("name", "description", "when_to_use", "argument-hint", "arguments", "model", "effort"),
    *("allowed-tools", "disallowed-tools", "disable-model-invocation", "user-invocable"),
    *("context", "agent", "version", "license", "compatibility", "metadata"),
)
PASSED_KEYS: Mapping[str, frozenset[str]] = {
    "commands": frozenset(_SKILL_KEYS),
    "skills": frozenset(_SKILL_KEYS),
    "rules": frozenset({"description", "paths"}),
    "agents": frozenset(
        {"name", "description", "tools", "disallowedTools", "model", "color"}
        | {"skills", "maxTurns", "effort"}
    ),
}
"""Keys of front matter that are loaded. Hooks and MCP servers stand in there, too, and modes that
ask for no permission.
"""

_IMPORT = expression(r"(?:^|\s)@((?:[^\s\\]|\\ )+)")
_NO_PATTERN = expression(r"[*?\[\]{}!,\\\"\x00-\x1f]|^#|(?:^|/) | (?:/|\Z)")
"""In a folder's name: what would mean something else in a pattern of paths (of .gitignore's form)."""

_TOOL = expression(r"[^\s,()]+(?:\([^)]*\))?")
_HOOK_NAME = expression(r"([A-Za-z]+)(?:\(([^()]*)\))?\Z")


def read_setup(tree: Tree, agent: Agent, place: str) -> ProjectSetup:
    """What of the tree's set-up is loaded for the agent. UsageError: it cannot be, and why.

    `place`: what the tree is, as in "the working tree".
    """
    reader = _SetupReader(tree, agent, place)
    reader.read_instructions()
    reader.read_rules()
    reader.read_definitions("commands")
    reader.read_definitions("agents")
    reader.read_skills()
    reader.note_links()
    hooks = reader.read_hooks(agent.setup_hooks)
    servers = reader.read_servers(agent.setup_mcp_servers)
    setup = ProjectSetup(
        digests=reader.digests,
        files=tuple(reader.files.values()),
        commands=tuple(sorted(reader.commands)),
        hooks=hooks,
        mcp_servers=servers,
        left_out=tuple(reader.left_out),
    )
    if setup.programs and "Bash" not in agent.tools:
        raise UsageError(
            f'The agent {agent.id}: {show_text(setup.programs[0])} runs a command: list "Bash" in '
            "tools, too."
        )
    return setup


def find_differing_setup(trusted: Tree, current: Tree) -> list[str]:
    """Paths of the set-up, of any kind, at which the two trees differ."""
    trusted_ids = _setup_ids(trusted)
    current_ids = _setup_ids(current)
    all_paths = sorted(trusted_ids.keys() | current_ids.keys())
    return [path for path in all_paths if trusted_ids.get(path) != current_ids.get(path)]


def _setup_ids(tree: Tree) -> dict[str, str]:
    """By path, what the tree has there."""
    ids = {}
    for raw_path, entry in tree.walk(tree.id):
        path = paths.decode(raw_path)
        names = path.split("/")
        is_named = names[-1] in (INSTRUCTIONS, _LOCAL_INSTRUCTIONS, SERVERS)
        if is_named or OWN_FOLDER in names:
            ids[path] = f"{entry.mode:o} {entry.id}"
    return ids


class _SetupReader:
    """One reading of a tree."""

    def __init__(self, tree: Tree, agent: Agent, place: str) -> None:
        self.files: dict[str, SetupFile] = {}
        """By place."""
        self.digests: dict[str, str] = {}
        self.commands: set[str] = set()
        self.left_out: list[str] = []
        self._tree = tree
        self._place = place
        self._tool_names = {_tool_name(tool) for tool in agent.tools}
        self._bytes = 0

    def read_instructions(self) -> None:
        """CLAUDE.md of the root and of `.claude/`, with what they import; those of other folders
        become rules for these.
        """
        for path in (INSTRUCTIONS, f"{OWN_FOLDER}/{INSTRUCTIONS}"):
            self._read_with_imports(path, 0)
        for path in self._tree.list(""):
            folder, _, name = path.rpartition("/")
            if name != INSTRUCTIONS or not folder or folder == OWN_FOLDER:
                continue
            if OWN_FOLDER in folder.split("/") or _NO_PATTERN.search(folder):
                self._leave_out(path)
                continue
            content = self._require(path)
            self._note_imports(path, content)
            rule = f"---\npaths:\n  - {json.dumps(f'{folder}/**')}\n---\n".encode() + content
            place = f"config/rules/of-folders/{len(self.files):04}.md"
            self._add(path, place, content, rule)

    def read_rules(self) -> None:
        """`.claude/rules/`: those for some paths are Claude Code's own, as paths are the agent's
        folder's there.
        """
        for path in self._markdown_below(_RULES):
            raw = self._require(path)
            content = self._passed(path, raw, "rules")
            if _has_key(content, "paths"):
                self._note_imports(path, raw)
                place = f"config/rules/{path.removeprefix(_RULES + '/')}"
                self._add(path, place, raw, content)
            else:
                self._add(path, f"project/{path}", raw, content)
                self._follow_imports(path, content, 1)

    def read_definitions(self, kind: str) -> None:
        """`.claude/commands/` or `.claude/agents/`."""
        folder = f"{OWN_FOLDER}/{kind}"
        for path in self._markdown_below(folder):
            raw = self._require(path)
            inner_path = path.removeprefix(f"{folder}/")
            self._add(path, f"config/{kind}/{inner_path}", raw, self._passed(path, raw, kind))
            if kind == "commands":
                self._require_inside(path, raw, _ROOT)
                self._note_missing(path, raw, _ROOT)
                self.commands.add(inner_path.removesuffix(".md").replace("/", ":"))

    def read_skills(self) -> None:
        """`.claude/skills/NAME/`, with all files of a skill."""
        folder = f"{OWN_FOLDER}/skills"
        for path in self._tree.list(folder):
            inner_path = path.removeprefix(f"{folder}/")
            name, _, file_name = inner_path.partition("/")
            # A skill with `.claude-plugin` is a plugin, whose hooks and servers are in force.
            is_hidden = any(part.startswith(".") for part in inner_path.split("/"))
            if not file_name or is_hidden:
                self._leave_out(path)
                continue
            raw = self._require(path)
            content = raw
            if file_name.rpartition("/")[2] == _SKILL:
                content = self._passed(path, raw, "skills")
                self._require_inside(path, raw, _ROOT)
                self._note_missing(path, raw, _ROOT)
            if file_name == _SKILL:
                self.commands.add(name)
            self._add(path, f"config/skills/{inner_path}", raw, content)

    def note_links(self) -> None:
        """Name links and submodules that Claude Code would follow."""
        for path in self._tree.links(OWN_FOLDER):
            if path not in self.digests:
                self._leave_out(path, "a link or submodule")

    # Hooks and servers, by name

    def read_hooks(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The named hooks of settings.json, in its form. UsageError."""
        if not names:
            return {}
        groups_by_event = self._object_in(SETTINGS, "hooks")
        known_names = list(_hook_names(groups_by_event))
        hooks: dict[str, Any] = {}
        for name in names:
            match = _HOOK_NAME.match(name)
            groups = _groups_named(groups_by_event, match[1], match[2]) if match else []
            if match is None or not groups:
                place = f"{SETTINGS} of {self._place}"
                raise UsageError(_no_such("hook", name, known_names, place))
            chosen_groups = [_passed_hook_group(name, group) for group in groups]
            self._note_digest(f"{SETTINGS}#{name}", chosen_groups)
            chosen = hooks.setdefault(match[1], [])
            chosen += [group for group in chosen_groups if group not in chosen]
        return hooks

    def read_servers(self, names: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
        """The named servers of .mcp.json, in its form. UsageError."""
        if not names:
            return {}
        known_servers = self._object_in(SERVERS, "mcpServers")
        servers: dict[str, Mapping[str, Any]] = {}
        for name in names:
            server = known_servers.get(name)
            if not isinstance(server, dict):
                place = f"{SERVERS} of {self._place}"
                raise UsageError(_no_such("MCP server", name, list(known_servers), place))
            passed = {key: server[key] for key in _SERVER_KEYS if key in server}
            if "${" in json.dumps(passed):
                raise UsageError(
                    f"{SERVERS}: the server {name} takes values of your environment (${{...}}), "
                    f"which agents do not get: define [mcp.{name}] with `env` in gate.toml, and "
                    "name it in mcp_servers."
                )
            self._note_digest(f"{SERVERS}#{name}", passed)
            servers[name] = passed
        return servers

    def _object_in(self, path: str, key: str) -> dict[str, Any]:
        """The object under a key of a JSON file; {} if there is none. UsageError."""
        content = self._read(path)
        if content is None:
            return {}
        try:
            value = parse_object(content).get(key)
        except ValueError:
            raise UsageError(f"{path} of {self._place} is not a JSON object.") from None
        return value if isinstance(value, dict) else {}

    def _note_digest(self, name: str, value: object) -> None:
        text = json.dumps(value, sort_keys=True)
        self.digests[name] = hashlib.sha256(text.encode()).hexdigest()

    # Files

    def _markdown_below(self, folder: str) -> list[str]:
        """The Markdown files below a folder of `.claude`, links to files of the tree among them."""
        file_paths = [path for path in self._tree.list(folder) if path.endswith(".md")]
        for path in self._tree.links(folder):
            if path.endswith(".md") and self._read(path) is not None:
                file_paths.append(path)
        return sorted(file_paths)

    def _read(self, path: str) -> bytes | None:
        """The content of a file, or of the file of this tree that a link leads to."""
        for _ in range(_MAX_LINKS):
            target = self._tree.link_target(path)
            if target is None:
                return self._tree.read(path)
            inner_path = _joined(PurePosixPath(path).parent, target)
            if inner_path is None:
                return None
            path = inner_path
        return None

    def _require(self, path: str) -> bytes:
        """The content of a file that is there. UsageError: it is too large."""
        content = self._read(path) or b""
        if len(content) > MAX_FILE_BYTES:
            raise UsageError(
                f"{paths.quote(path)} has {len(content):,} bytes; the set-up of an agent takes "
                f"files of at most {MAX_FILE_BYTES:,}."
            )
        return content

    def _add(self, path: str, place: str, raw: bytes, content: bytes) -> None:
        """Load the file as `content`. UsageError: the set-up is too large."""
        entry = self._tree.entry(paths.encode(path))
        is_executable = entry is not None and entry.mode == EXECUTABLE_MODE
        self.files[place] = SetupFile(place, content, is_executable)
        self.digests[paths.quote(path)] = hashlib.sha256(raw).hexdigest()
        self._bytes += len(content)
        if self._bytes > MAX_BYTES or len(self.files) > MAX_FILES:
            raise UsageError(
                f"The set-up of the project has more than {MAX_FILES:,} files or {MAX_BYTES:,} "
                f"bytes (last read: {paths.quote(path)}): make `.claude/` smaller."
            )

    def _leave_out(self, path: str, reason: str = "") -> None:
        name = paths.quote(path)
        self.left_out.append(f"{name} ({reason})" if reason else name)

    # Front matter

    def _passed(self, path: str, raw: bytes, kind: str) -> bytes:
        """The file without keys of front matter that are not loaded. UsageError: it has a line that
        may be a key or not.
        """
        lines = raw.decode("utf-8", "surrogateescape").replace("\r\n", "\n").split("\n")
        end = front_matter_end(lines)
        if unclosed_front_matter(lines):
            raise UsageError(
                f"{paths.quote(path)}:1: front matter that does not end: write --- on a line of "
                "its own behind its last key."
            )
        if not end:
            if first_key(lines) in PASSED_KEYS[kind]:
                self._leave_out(path, "begins with keys, but not with ---: it is text")
            return b"---\n---\n" + raw
        passed_lines: list[str] = []
        for number, key, block in front_matter_blocks(lines[1:end]):
            if not key or "\r" in "".join(block):
                raise UsageError(
                    f"{paths.quote(path)}:{number}: not front matter that can be loaded in part: "
                    "write key: value, and indent what belongs to it."
                )
            if key not in PASSED_KEYS[kind]:
                self._leave_out(path, show_text(key))
                continue
            problem = unreadable_value(key, block)
            if problem:
                raise UsageError(
                    f"{paths.quote(path)}:{number}: front matter that cannot be read: "
                    f"{show_text(key)} {problem}."
                )
            if (kind, key) == ("agents", "tools"):
                passed_lines += self._allowed_tools(block)
            else:
                passed_lines += block
        text = "\n".join(["---", *passed_lines, "---", *lines[end + 1 :]])
        return text.encode("utf-8", "surrogateescape")

    def _allowed_tools(self, block: Sequence[str]) -> Sequence[str]:
        """The lines of a subagent's `tools` without those that the agent lacks. Without a value, as
        without the key, a subagent has all of the agent's.
        """
        ((_, _, value),) = front_matter_entries(block)
        if value == "":
            return block
        listed = value if isinstance(value, list) else [value or ""]
        allowed_tools = []
        for text in listed:
            for match in _TOOL.finditer(text):
                name = _tool_name(match[0])
                if name in self._tool_names or name == "*" or name.startswith("mcp__"):
                    allowed_tools.append(match[0])
        return [f"tools: {json.dumps(allowed_tools)}"]

    # Imports

    def _read_with_imports(self, path: str, depth: int) -> None:
        """Load instructions, and the files of the tree that they import."""
        place = f"project/{path}"
        if place in self.files or self._read(path) is None:
            return
        content = self._require(path)
        self._add(path, place, content, content)
        self._follow_imports(path, content, depth)

    def _follow_imports(self, path: str, content: bytes, depth: int) -> None:
        folder = PurePosixPath(path).parent
        self._require_inside(path, content, folder)
        for _, name in _imported_names(content):
            imported = None if name.startswith(("/", "~")) else _joined(folder, name)
            is_nested = "/.claude/" in (imported or "")
            if name.startswith("~") or is_nested or (imported or "").startswith(_NOT_IMPORTED):
                self._leave_out(path, f"@{show_text(name)}")
            elif imported is not None and depth < MAX_IMPORTS:
                self._read_with_imports(imported, depth + 1)
        self._note_missing(path, content, folder)

    def _require_inside(self, path: str, content: bytes, folder: PurePosixPath) -> None:
        """UsageError: Claude Code would read a file outside of the repository. `folder`: where
        relative paths begin.
        """
        for line, name in _imported_names(content):
            if name.startswith("/"):
                is_outside = Path(name).exists()
            else:
                is_outside = not name.startswith("~") and _joined(folder, name) is None
            if is_outside:
                raise UsageError(
                    f"{paths.quote(path)}:{line} refers to @{show_text(name)}, which is outside of the "
                    "repository: take the @ out, or copy the file into the repository."
                )

    def _note_missing(self, path: str, content: bytes, folder: PurePosixPath) -> None:
        """Name what is referred to as Markdown of the repository and is not there."""
        for _, name in _imported_names(content):
            imported = None if name.startswith("~") else _joined(folder, name)
            if imported and imported.endswith(".md") and self._read(imported) is None:
                self._leave_out(path, f"refers to @{show_text(name)}, which is not there")

    def _note_imports(self, path: str, content: bytes) -> None:
        """Name the imports of a rule for some paths: Claude Code would load them for all."""
        self._require_inside(path, content, PurePosixPath(path).parent)
        for _, name in _imported_names(content):
            if name.endswith(".md"):
                self._leave_out(path, f"@{show_text(name)}")


def _imported_names(content: bytes) -> Iterator[tuple[int, str]]:
    """What stands behind an "@" as paths do, without fragments, each with its line."""
    text = content.decode("utf-8", "replace")
    for match in _IMPORT.finditer(text):
        name = match[1].replace("\\ ", " ").partition("#")[0].strip("\"'`")
        if name and "\0" not in name:
            yield text.count("\n", 0, match.start(1)) + 1, name


def _joined(folder: PurePosixPath, name: str) -> str | None:
    """The path in the repository; None if it leads out of it."""
    if name.startswith("/"):
        return None
    path = os.path.normpath(folder / name)
    return None if path == ".." or path.startswith("../") else path


def _tool_name(tool: str) -> str:
    """The name of a tool, without what its rule is about; "Task" is an old name of "Agent"."""
    name = tool.partition("(")[0].strip()
    return "Agent" if name == "Task" else name


def _has_key(content: bytes, key: str) -> bool:
    lines = content.decode("utf-8", "replace").split("\n")
    entries = front_matter_entries(lines[1 : front_matter_end(lines)])
    return any(name == key and value != "" for _, name, value in entries)


def _hook_names(groups_by_event: Mapping[str, Any]) -> Iterator[str]:
    """How the hooks of settings.json are named."""
    for event, groups in groups_by_event.items():
        if not isinstance(groups, list):
            continue
        for group in groups:
            matcher = group.get("matcher") if isinstance(group, dict) else None
            yield f"{event}({matcher})" if matcher else event


def _groups_named(
    groups_by_event: Mapping[str, Any], event: str, matcher: str | None
) -> list[Mapping[str, Any]]:
    """The groups of an event, all or those of a matcher."""
    groups = groups_by_event.get(event)
    if not isinstance(groups, list):
        return []
    dicts: list[Mapping[str, Any]] = [group for group in groups if isinstance(group, dict)]
    if matcher is None:
        return dicts
    return [group for group in dicts if group.get("matcher") == matcher]


def _passed_hook_group(name: str, group: Mapping[str, Any]) -> dict[str, Any]:
    """The group with commands alone. UsageError: it has another kind of hook."""
    inner_hooks = group.get("hooks")
    if not isinstance(inner_hooks, list):
        inner_hooks = []
    passed_hooks = []
    for hook in inner_hooks:
        if not isinstance(hook, dict) or hook.get("type") != "command":
            raise UsageError(
                f'{SETTINGS}: the hook {name} is not of the type "command", the only one that is '
                "loaded for agents."
            )
        passed_hooks.append({key: hook[key] for key in _HOOK_KEYS if key in hook})
    passed: dict[str, Any] = {"hooks": passed_hooks}
    if isinstance(group.get("matcher"), str):
        passed["matcher"] = group["matcher"]
    return passed


def _no_such(noun: str, name: str, known_names: list[str], place: str) -> str:
    near = nearest(name, known_names)
    if near:
        advice = f"did you mean {show_text(near)}?"
    elif known_names:
        shown_names = list_names(map(show_text, known_names))
        advice = f"it has {counted(len(known_names), noun)}: {shown_names}."
    else:
        advice = "it has none."
    return f"There is no {noun} {show_text(name)} in {place}; {advice}"
