"""What commands behind the wall get of this program's environment, and what of the machine they may
read and run.

The system, the programs of PATH and their libraries; not the user's files. Landlock only allows, it
takes nothing back: a folder that is listed is open with all that lies below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/snap",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
    "/var/lib/gems",
    "/proc",
    "/sys",
    "/dev/fd",
)
"""Programs, libraries, settings of the machine."""

TOOL_HOMES = (
    ".pyenv",
    ".rbenv",
    ".nodenv",
    ".goenv",
    ".jenv",
    ".asdf",
    ".nvm",
    ".fnm",
    ".volta",
    ".bun",
    ".deno",
    ".sdkman",
    ".rustup",
    ".cargo/bin",
    ".dotnet",
    ".ghcup",
    ".juliaup",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/uv",
    ".local/share/pipx",
    ".local/share/mise",
    ".local/share/fnm",
    ".local/share/pnpm",
    "go/bin",
    "sdk",
    "miniconda3",
    "anaconda3",
    "miniforge3",
)
"""Folders of a home that hold programs and no credentials (so not all of ~/.cargo, which has a
registry's token).
"""

BESIDE_PROGRAMS = (
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "share",
    "include",
    "etc",
    "pyvenv.cfg",
    "conda-meta",
)
"""What programs of PREFIX/bin read below PREFIX."""

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

_PASSED_NAMES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")

_CLOSED_NAMES = ("HOME", "GITHUB_WORKSPACE", "RUNNER_TEMP")
"""Variables that name folders which are never opened as a whole, nor any folder that they lie
in.
"""

_PROGRAM_FOLDERS = ("bin", "sbin", "condabin", "Scripts")


class CommandEnvironment(Struct, frozen=True):
    """What was found in this program's environment for the commands that it runs behind the
    wall.
    """

    variables: Mapping[str, str]
    """What commands see of it: PATH, LANG, LC_ALL, LC_CTYPE and TZ, as far as they are set."""
    closed: frozenset[Path]
    """The user's own folders, and every folder that they lie in."""
    tools: frozenset[Path]
    """Where a user or a CI machine keeps programs beside the system's. Some may not be there."""

    @property
    def search_path(self) -> str:
        """Where programs are looked for."""
        return self.variables.get("PATH", DEFAULT_PATH)


def command_environment_from(environ: Mapping[str, str]) -> CommandEnvironment:
    """Read what commands may know, and which folders stay closed to them."""
    closed = {Path("/")}
    for name in _CLOSED_NAMES:
        for folder in _absolute_paths(environ.get(name, "")):
            closed |= {folder, *folder.parents, folder.resolve(), *folder.resolve().parents}
    tools = set(_absolute_paths(environ.get("RUNNER_TOOL_CACHE", "")))
    for home in _absolute_paths(environ.get("HOME", "")):
        tools |= {home / name for name in TOOL_HOMES}
    variables = {name: environ[name] for name in _PASSED_NAMES if environ.get(name)}
    return CommandEnvironment(variables, frozenset(closed), frozenset(tools))


def readable_paths(program: str, search_path: str, environment: CommandEnvironment) -> list[str]:
    """Paths, each with all that lies below, sorted. Some may not be there. `search_path` is the
    command's own PATH.
    """
    paths = {*map(Path, SYSTEM), Path("/etc/resolv.conf").resolve(), *environment.tools}
    # A command without an interpreter of its own may be a script for the gate's.
    folders = [Path(program).parent, Path(program).resolve().parent, Path(sys.base_prefix, "bin")]
    for folder in (*_absolute_paths(search_path), *folders):
        paths |= set(_with_libraries(folder))
    return sorted(str(path) for path in paths if path not in environment.closed)


def _absolute_paths(path: str) -> list[Path]:
    return [Path(entry) for entry in path.split(os.pathsep) if Path(entry).is_absolute()]


def _with_libraries(folder: Path) -> Iterator[Path]:
    """A folder of programs and what they read; of a virtual environment, that of its interpreter,
    too.
    """
    for programs in {folder, folder.resolve()}:
        yield programs
        if programs.name == ".bin":
            yield programs.parent  # node_modules/.bin: the packages
        if programs.name not in _PROGRAM_FOLDERS:
            continue
        for name in BESIDE_PROGRAMS:
            if name != "share" or programs.parent.name != ".local":
                yield programs.parent / name
        if (programs.parent / "pyvenv.cfg").is_file():
            python = (programs / "python").resolve()
            yield python.parent
            yield from (python.parent.parent / name for name in BESIDE_PROGRAMS)
