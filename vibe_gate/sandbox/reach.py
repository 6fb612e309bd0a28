"""What a command may read and run: the system, the programs of PATH and their libraries; not the user's files.

Landlock only allows, it takes nothing back: a folder that is listed is open with all that lies below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/snap", "/gnu/store",
    "/home/linuxbrew/.linuxbrew", "/var/lib/gems", "/proc", "/sys", "/dev/fd",
)  # fmt: skip
"""Programs, libraries, settings of the machine."""

TOOL_HOMES = (
    ".pyenv", ".rbenv", ".nodenv", ".goenv", ".jenv", ".asdf", ".nvm", ".fnm", ".volta", ".bun", ".deno", ".sdkman",
    ".rustup", ".cargo/bin", ".dotnet", ".ghcup", ".juliaup", ".linuxbrew", ".local/bin", ".local/lib", ".local/pipx",
    ".local/share/uv", ".local/share/pipx", ".local/share/mise", ".local/share/fnm", ".local/share/pnpm",
    "go/bin", "sdk", "miniconda3", "anaconda3", "miniforge3",
)  # fmt: skip
"""Folders of a home that hold programs and no credentials (so not all of ~/.cargo, which has a registry's token)."""

BESIDE_PROGRAMS = ("lib", "lib32", "lib64", "libexec", "share", "include", "etc", "pyvenv.cfg", "conda-meta")
"""What programs of PREFIX/bin read below PREFIX."""

_CLOSED = ("HOME", "GITHUB_WORKSPACE", "RUNNER_TEMP")
"""Variables that name folders which are never opened as a whole, nor any folder that they lie in."""

_PROGRAM_FOLDERS = ("bin", "sbin", "condabin", "Scripts")


def readable(program: str, path: str, environ: Mapping[str, str]) -> list[str]:
    """Paths, each with all that lies below, sorted. Some may not be there.

    `path` is the command's PATH, `environ` the gate's environment: its HOME is the one to keep closed.
    """
    closed = {Path("/")}
    for name in _CLOSED:
        for private in _absolute(environ.get(name, "")):
            closed |= {private, *private.parents, private.resolve(), *private.resolve().parents}
    found = {*map(Path, SYSTEM), Path("/etc/resolv.conf").resolve(), *_absolute(environ.get("RUNNER_TOOL_CACHE", ""))}
    found |= {home / one for home in _absolute(environ.get("HOME", "")) for one in TOOL_HOMES}
    # A command without an interpreter of its own may be a script for the gate's.
    folders = [Path(program).parent, Path(program).resolve().parent, Path(sys.base_prefix, "bin")]
    for folder in (*_absolute(path), *folders):
        found |= set(_programs(folder))
    return sorted(str(one) for one in found if one not in closed)


def _absolute(path: str) -> list[Path]:
    return [Path(one) for one in path.split(os.pathsep) if Path(one).is_absolute()]


def _programs(folder: Path) -> Iterator[Path]:
    """A folder of programs and what they read; of a virtual environment, that of its interpreter, too."""
    for one in {folder, folder.resolve()}:
        yield one
        if one.name == ".bin":
            yield one.parent  # node_modules/.bin: the packages
        if one.name not in _PROGRAM_FOLDERS:
            continue
        for beside in BESIDE_PROGRAMS:
            if beside != "share" or one.parent.name != ".local":
                yield one.parent / beside
        if (one.parent / "pyvenv.cfg").is_file():
            python = (one / "python").resolve()
            yield python.parent
            yield from (python.parent.parent / beside for beside in BESIDE_PROGRAMS)
