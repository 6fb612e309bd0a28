"""Commands that a repository's own files name (scripts of package.json, targets of a Makefile,
Cargo, Go): what `init` proposes.

Nothing is run, no link is followed, and nothing of the repository but names that are plain words
goes into a proposal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

MAX_BYTES = 1_000_000
"""What is read of a package.json or a Makefile."""
MAX_PROJECTS = 8
"""Projects below the root for which something is proposed."""

_SKIPPED_FOLDERS = frozenset(
    (
        "node_modules",
        "vendor",
        "target",
        "dist",
        "build",
        "third_party",
        "testdata",
        "fixtures",
        "examples",
    )
)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,60}")

_SCRIPTS = {
    "lint": ("lint",),
    "typecheck": ("typecheck", "type-check", "check-types", "types", "tsc"),
    "format": ("format:check", "check-format", "fmt:check", "prettier:check"),
    "test": ("test",),
}
"""By what a criterion is called, the names that people give such a script; the first that is there
is proposed.
"""

_TARGETS = ("lint", "check", "typecheck", "test")
_NO_TEST = "no test specified"
"""Of the script that `npm init` writes: it only fails."""


class PackageManager(Struct, frozen=True):
    """How one package manager installs what a lock file names, and runs a script."""

    install: str
    run: str
    """Before a script's name."""
    run_in_all: str
    """With `{}` for the name of a script that members of a workspace have."""


_NPM = PackageManager("npm ci --silent", "npm run", "npm run {} --workspaces --if-present")
_PNPM = PackageManager(
    "pnpm install --frozen-lockfile --silent", "pnpm run", "pnpm -r --if-present run {}"
)
_YARN = PackageManager(
    "yarn install --frozen-lockfile --silent", "yarn run", "yarn workspaces run {}"
)
_BERRY = PackageManager("yarn install --immutable", "yarn run", "yarn workspaces foreach -A run {}")
_BUN = PackageManager(
    "bun install --frozen-lockfile --silent", "bun run", "bun run --filter '*' {}"
)

_LOCK_FILES = {
    "pnpm-lock.yaml": _PNPM,
    "bun.lock": _BUN,
    "bun.lockb": _BUN,
    "yarn.lock": _YARN,
    "package-lock.json": _NPM,
    "npm-shrinkwrap.json": _NPM,
}
_BY_NAME = {"pnpm": _PNPM, "bun": _BUN, "yarn": _YARN, "npm": _NPM}


class CommandProposal(Struct, frozen=True):
    """A command check that `init` offers."""

    id: str
    command: tuple[str, ...]
    fix: str = ""
    """The command that repairs; "" if there is none."""
    new_only: bool = False
    folder: str = ""
    """Where the command runs; "": the root."""

    @property
    def title(self) -> str:
        """What people type."""
        words = " ".join(self.command)
        if self.command[0] == "sh":
            words = self.command[-1].split(" && ")[-1]
        if self.folder:
            return f"{words} in {self.folder}"
        return words

    def criterion(self) -> str:
        """The criterion in TOML, commented out."""
        command = self.command
        if self.folder:
            shell_line = command[2] if command[0] == "sh" else " ".join(command)
            command = ("sh", "-c", f"cd {self.folder} && {shell_line}")
        lines = [
            "[[criterion]]",
            f'id = "{self.id}"',
            'kind = "check"',
            f"command = {json.dumps(command)}",
        ]
        settings = []
        if self.new_only:
            settings.append("new_only = true")
        if self.fix:
            settings.append(f"fix = {json.dumps(self.fix)}")
        if settings:
            lines.append(f"options = {{ {', '.join(settings)} }}")
        if self.folder:
            lines.append(f'paths = ["{self.folder}/**"]')
        lines.append("must = true")
        return "".join(f"# {line}\n" for line in lines)


def propose_commands(root: Path) -> list[CommandProposal]:
    """The commands that files at the root name, then those of projects in folders below it."""
    root = root.resolve()
    proposals = list(_of_folder(root, root))
    has_workspaces = _has_workspaces(root)
    for folder in _project_folders(root):
        is_member = has_workspaces and _read_text(folder / "package.json")
        if is_member:
            continue
        name = folder.relative_to(root).as_posix()
        suffix = name.replace("/", "-").replace(".", "-").lower()
        for proposal in _of_folder(folder, root):
            proposals.append(
                CommandProposal(
                    id=f"{proposal.id}-{suffix}"[:64].rstrip("-"),
                    command=proposal.command,
                    fix=proposal.fix,
                    new_only=proposal.new_only,
                    folder=name,
                )
            )
    return proposals


def _of_folder(folder: Path, root: Path) -> Iterator[CommandProposal]:
    scripts = list(_of_package(folder, root))
    yield from scripts
    script_ids = {proposal.id for proposal in scripts}
    for proposal in _of_makefile(folder):
        if proposal.id not in script_ids:
            yield proposal
    if _is_plain_file(folder / "Cargo.toml"):
        yield from _CARGO
    if _is_plain_file(folder / "go.mod"):
        yield from _GO
        if any(_is_plain_file(folder / name) for name in _GOLANGCI_SETTINGS):
            yield _GOLANGCI


_CARGO = (
    CommandProposal(
        "clippy",
        ("cargo", "clippy", "--", "-D", "warnings"),
        "cargo clippy --fix",
        new_only=True,
    ),
    CommandProposal("cargo-fmt", ("cargo", "fmt", "--check"), "cargo fmt"),
    CommandProposal("cargo-test", ("cargo", "test", "--quiet")),
)

_GO = (
    CommandProposal("go-vet", ("go", "vet", "./..."), new_only=True),
    CommandProposal("go-test", ("go", "test", "./...")),
)

_GOLANGCI = CommandProposal(
    "golangci-lint", ("golangci-lint", "run"), "golangci-lint run --fix", new_only=True
)

_GOLANGCI_SETTINGS = (".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json")


def _of_package(folder: Path, root: Path) -> Iterator[CommandProposal]:
    """The scripts of a package.json; of a workspace's root also those that only its members
    have.
    """
    package = _read_json(folder / "package.json")
    if package is None:
        return
    manager = _manager_of(folder, root, package)
    scripts = _scripts_of(package)
    member_scripts: set[str] = set()
    if folder == root and _has_workspaces(root):
        for member in _project_folders(root):
            member_scripts |= _scripts_of(_read_json(member / "package.json") or {}).keys()
    for id, names in _SCRIPTS.items():
        name = next((name for name in names if name in scripts), None)
        if name is not None:
            yield CommandProposal(id, ("sh", "-c", f"{manager.install} && {manager.run} {name}"))
            continue
        name = next((name for name in names if name in member_scripts), None)
        if name is not None:
            yield CommandProposal(
                id, ("sh", "-c", f"{manager.install} && {manager.run_in_all.format(name)}")
            )


def _scripts_of(package: dict[str, Any]) -> dict[str, str]:
    """The package's scripts by name, without the one that npm writes where there are no tests."""
    scripts = package.get("scripts")
    if not isinstance(scripts, dict):
        return {}
    texts = {}
    for name, text in scripts.items():
        if isinstance(text, str) and _NO_TEST not in text:
            texts[name] = text
    return texts


def _manager_of(folder: Path, root: Path, package: dict[str, Any]) -> PackageManager:
    """By the lock file of the folder, the root's, or what package.json names; npm if nothing
    does.
    """
    for place in dict.fromkeys((folder, root)):
        for lock_file, manager in _LOCK_FILES.items():
            if _is_plain_file(place / lock_file):
                is_berry = manager is _YARN and _is_plain_file(place / ".yarnrc.yml")
                return _BERRY if is_berry else manager
    name, _, version = str(package.get("packageManager", "")).partition("@")
    if name == "yarn" and not version.startswith("1."):
        return _BERRY
    return _BY_NAME.get(name, _NPM)


def _has_workspaces(root: Path) -> bool:
    package = _read_json(root / "package.json") or {}
    return "workspaces" in package or _is_plain_file(root / "pnpm-workspace.yaml")


def _of_makefile(folder: Path) -> Iterator[CommandProposal]:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        text = _read_text(folder / name)
        if text is None:
            continue
        for target in _TARGETS:
            if re.search(rf"^{target}\s*:(?!=)", text, re.MULTILINE):
                yield CommandProposal(target, ("make", target))
        return


def _project_folders(root: Path) -> list[Path]:
    """Folders up to two levels below the root that have a project of their own, by name."""
    manifests: Sequence[str] = ("package.json", "Cargo.toml", "go.mod")
    folders = []
    for pattern in ("*", "*/*"):
        for path in sorted(root.glob(pattern)):
            if not all(map(_is_plain_name, path.relative_to(root).parts)):
                continue
            if any(_is_plain_file(path / manifest) for manifest in manifests):
                folders.append(path)
    # What a project holds is its own business: its Cargo or pnpm workspace.
    outermost = [path for path in folders if not any(other in path.parents for other in folders)]
    return outermost[:MAX_PROJECTS]


def _is_plain_name(name: str) -> bool:
    """Whether it is a folder's that may have a project, and needs no quotes in a command."""
    return _PLAIN_NAME.fullmatch(name) is not None and name not in _SKIPPED_FOLDERS


def _is_plain_file(path: Path) -> bool:
    """Whether it is a regular file that no link leads to."""
    with suppress(OSError):
        return path.is_file() and path.resolve() == path
    return False


def _read_text(path: Path) -> str | None:
    if not _is_plain_file(path):
        return None
    with suppress(OSError), path.open("rb") as file:
        return file.read(MAX_BYTES).decode("utf-8", "replace")
    return None


def _read_json(path: Path) -> dict[str, Any] | None:
    text = _read_text(path)
    try:
        document = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
