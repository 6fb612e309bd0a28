"""The git program, run so that nothing in a repository can make it run anything else.

Every call is a list of arguments (never shell text) with what a hostile repository could plant
switched off: the file system monitor, hooks, pagers, locks and writes that git would do in passing,
fetching of missing objects, questions at the terminal. Replace refs and grafts are ignored on
purpose: they show other commits than the ones under review. So is the commit-graph.

The user's configuration changes neither what git prints nor what it leaves out (`_PLAIN_OUTPUT`),
and a path is never a pattern, except in the calls that are given `PATTERNS`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import MODEL_KEYS, REPOSITORY_VARIABLES, paths
from vibe_gate.errors import InfrastructureError

_PLAIN_OUTPUT = (
    "advice.graftFileDeprecated=false",
    "color.advice=false",
    "color.push=false",
    "color.remote=false",
    "color.transport=false",
    "color.ui=false",
    "core.quotePath=true",
    "fetch.prune=false",
    "fetch.pruneTags=false",
    "format.pretty=medium",
    "i18n.logOutputEncoding=",  # names and titles as they are: a conversion can make line breaks of them
    "init.defaultObjectFormat=sha1",
    "init.defaultRefFormat=files",
    "init.templateDir=",
    "log.date=default",
    "log.follow=false",
    "log.showSignature=false",
    "submodule.recurse=false",
)
"""Settings of a user's configuration that would change what our calls print or do, at git's own
values.

Blame and file histories, which more of them change, are asked in a repository of our own
(`objects.bare`).
"""

_SAFE_WORK = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.splitIndex=false",  # a scratch index must not leave a shared index in the user's .git
    "core.safecrlf=false",  # a warning at best; as an error it would stop a snapshot
    "core.commitGraph=false",  # a file that anybody can write, and that can give a commit other parents
    "gc.auto=0",
)
"""Settings by which git runs and writes nothing of its own."""


def _as_options(settings: Iterable[str]) -> Iterator[str]:
    for setting in settings:
        yield "-c"
        yield setting


_PROGRAM = (
    "git",
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    *_as_options(_SAFE_WORK),
    *_as_options(_PLAIN_OUTPUT),
)

_FIXED = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_TRACE2": "0",  # global configuration can switch these on, and `-c` cannot switch them off
    "GIT_TRACE2_EVENT": "0",
    "GIT_TRACE2_PERF": "0",
    "LC_ALL": "C",  # its sentences are recognised below and in `detect`
    "LANGUAGE": "",
}

_DROPPED = frozenset(
    {
        *MODEL_KEYS,  # an agent in a clone can read what its user's processes were started with
        "GIT_EXTERNAL_DIFF",
        "GIT_PREFIX",
        "GIT_PAGER",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "GIT_GLOB_PATHSPECS",
        "GIT_NOGLOB_PATHSPECS",
        "GIT_ICASE_PATHSPECS",
        "GIT_DEFAULT_HASH",
        "GIT_DEFAULT_REF_FORMAT",
    }
)

PATTERNS = {"GIT_LITERAL_PATHSPECS": "0"}
"""For calls whose paths are written by us, as patterns (`:(exclude)...`)."""

PATIENCE_S = 300
"""Seconds for one call: far more than a walk of a million files takes, far less than for ever."""


class CallTimeoutError(InfrastructureError):
    """A call of git that did not end in time."""

    def __init__(self, patience_s: float) -> None:
        super().__init__(
            f"git did not finish within {patience_s:g} seconds: run `git status`. If it does not end "
            "either, remove FIFOs named .gitignore or .gitattributes."
        )
        self.patience_s = patience_s


class Finished(Struct, frozen=True):
    """What a call left behind. `err` is text for people, in English."""

    code: int
    out: bytes
    err: str

    @property
    def line(self) -> str:
        """Standard output as one line of text, without its newline."""
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def complaint(self) -> str:
        """What git complained about, on one line that is safe to print."""
        return paths.quote(" ".join(self.err.split()))


class Program:
    """The git program at one folder, with one environment."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self.child_environment: dict[str, str] = {}
        for name, value in variables.items():
            if name not in _DROPPED and not name.startswith("GIT_TRACE"):
                self.child_environment[name] = value
        # A relative entry (".") would run a program called git that lies in the reviewed tree.
        folders = variables.get("PATH", os.defpath).split(":")
        absolute_folders = [folder for folder in folders if folder.startswith("/")]
        self.child_environment["PATH"] = ":".join(absolute_folders)
        self.child_environment |= _FIXED

    def start(
        self, *arguments: str, reads: bool = False, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a call and do not wait. `reads`: standard input is a pipe, otherwise empty.

        `variables` are added to its environment.
        """
        child_environment = {**self.child_environment, **(variables or {})}
        return _open([*_PROGRAM, *arguments], self.folder, child_environment, reads)

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run a call to its end; a code other than 0 is the caller's to read. `variables` are
        added to its environment.
        """
        process = self.start(*arguments, reads=stdin is not None, variables=variables)
        return finish(process, stdin, PATIENCE_S)

    def variables_for_settings(self, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Variables that set configuration for a call, after what its environment sets so.

        `-c` shows a value to everybody, and cuts a name at its first "=".
        """
        count = self.child_environment.get("GIT_CONFIG_COUNT", "0")
        first = int(count) if count.isdecimal() else 0
        variables = {"GIT_CONFIG_COUNT": str(first + len(pairs))}
        for number, (name, value) in enumerate(pairs, first):
            variables[f"GIT_CONFIG_KEY_{number}"] = name
            variables[f"GIT_CONFIG_VALUE_{number}"] = value
        return variables

    def elsewhere(self, folder: Path) -> Program:
        """The program in a folder that may be of another repository."""
        variables = {
            name: value
            for name, value in self.child_environment.items()
            if name not in REPOSITORY_VARIABLES
        }
        return Program(folder, variables)

    def bare(self, folder: Path, variables: Mapping[str, str]) -> Program:
        """The program in a bare repository of our own; of the user's environment only where
        programs are.
        """
        user_variables = {
            name: value
            for name, value in self.child_environment.items()
            if name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH")
        }
        path = os.fspath(folder)
        homes = {"GIT_DIR": path, "HOME": path, "XDG_CONFIG_HOME": path}
        system = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
        return Program(folder, {**user_variables, **homes, **system, **variables})


def run_as_user(folder: Path, child_environment: Mapping[str, str], *arguments: str) -> Finished:
    """Run git as its user would: by the settings in force there, hooks included."""
    return finish(_open(["git", *arguments], folder, child_environment, reads=False))


def finish(
    process: subprocess.Popen[bytes], stdin: bytes | None = None, patience_s: float = PATIENCE_S
) -> Finished:
    """Wait for a call that `Program.start` began, and collect what it wrote. CallTimeoutError if it
    does not end. Whatever this raises, the call is ended.
    """
    try:
        out, err = process.communicate(stdin, timeout=patience_s)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise CallTimeoutError(patience_s) from error
    except BaseException:  # the deadline's, or Ctrl-C
        _kill(process)
        raise
    return Finished(process.returncode, out or b"", err.decode("utf-8", "replace").strip())


@contextmanager
def ending(*processes: subprocess.Popen[bytes]) -> Iterator[None]:
    """The time of calls that run side by side: if one is given up, none goes on."""
    try:
        yield
    except BaseException:
        for process in processes:
            _kill(process)
        raise


def _kill(process: subprocess.Popen[bytes]) -> None:
    with process:  # closes its pipes, which what git started may hold
        process.kill()


def _open(
    arguments: list[str], folder: Path, child_environment: Mapping[str, str], reads: bool
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            arguments,
            cwd=folder,
            env=child_environment,
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise InfrastructureError(_why_not_started(folder, error)) from error


def _why_not_started(folder: Path, error: OSError) -> str:
    if not isinstance(error, FileNotFoundError):
        return f"git could not be started in {folder}: {error.strerror}."
    if not folder.is_dir():
        return f"the folder {folder} does not exist."
    return "git was not found on PATH: install git 2.31 or newer."
