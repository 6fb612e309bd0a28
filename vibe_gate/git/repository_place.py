"""Where the repository is, what git's configuration says, and whether vibe-gate can work there.

Git itself is asked (two quick calls, at the same time), so that subdirectories, linked
worktrees, submodules, `GIT_DIR`, `GIT_WORK_TREE`, `GIT_INDEX_FILE`, `core.worktree` and
`safe.directory` mean here what they mean to git.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.environment import Environment
from vibe_gate.errors import UnsupportedRepository, UsageError
from vibe_gate.git.program import Finished, Program, ending, finish

_QUESTIONS = (
    "--git-dir",
    "--git-common-dir",
    "--git-path objects",
    "--git-path index",
    "--is-bare-repository",
    "--is-shallow-repository",
    "--show-object-format",
    "--show-toplevel",
)

_OWN_SCOPES = frozenset({"local", "worktree"})
_FILTER_COMMANDS = frozenset({"clean", "smudge", "process"})


class Setting(Struct, frozen=True):
    """One line of git's configuration."""

    scope: str
    """As git names it, or "disk": what holds here whatever the lines say."""

    name: str

    value: str | None
    """None: a bare name, which git reads as true."""


class Settings:
    """Git's configuration as `git config --list` gives it, later lines winning.

    `git -c` and GIT_CONFIG_COUNT set nothing of ours: an agent's command line must not choose the
    gate.
    """

    def __init__(self, lines: list[Setting]) -> None:
        self.lines: list[Setting] = []
        self._values: dict[str, str | None] = {}
        self._trusted: dict[str, str | None] = {}
        for line in lines:
            if line.scope == "command" and line.name.startswith("vibe-gate."):
                continue
            self.lines.append(line)
            self._values[line.name] = line.value
            if line.scope not in _OWN_SCOPES:
                self._trusted[line.name] = line.value

    def value(self, name: str) -> str | None:
        """The value in force, or None. Section and key in any case; a bare name reads "true"."""
        return self._read(self._values, name)

    def trusted(self, name: str) -> str | None:
        """The same without what the repository's own configuration says."""
        return self._read(self._trusted, name)

    def own_filters(self) -> dict[str, set[str]]:
        """Content filters that the repository's own configuration says something about: name to
        keys.
        """
        names: dict[str, set[str]] = {}
        for setting in self.lines:
            section, _, name_and_key = setting.name.partition(".")
            if setting.scope in _OWN_SCOPES and section == "filter" and "." in name_and_key:
                name, _, key = name_and_key.rpartition(".")
                names.setdefault(name, set()).add(key)
        return names

    def _read(self, values: Mapping[str, str | None], name: str) -> str | None:
        key = _canonical(name)
        if key not in values:
            return None
        value = values[key]
        return "true" if value is None else value


class RepositoryPlace(Struct, frozen=True):
    """A repository that was found. All paths are absolute."""

    root: Path
    """The top of the working tree."""

    git_dir: Path
    """This working tree's own."""

    common_dir: Path
    """Shared between linked worktrees."""

    objects: Path
    index_file: Path

    shallow: bool
    """Whether the history ends early here."""

    settings: Settings

    git: Program
    """Git, bound to this repository."""

    environment: Environment
    """What was found in the environment of the process that looks for it."""


class _PlaceAnswers(Struct, frozen=True):
    """What git answers to _QUESTIONS, a field each, in their order."""

    git_dir: str
    common_dir: str
    objects: str
    index_file: str
    is_bare: str
    is_shallow: str
    object_format: str
    root: str


def find_repository(git: Program, environment: Environment) -> RepositoryPlace:
    """The repository around the folder of `git`, as git finds it there.

    `environment`: of the process, which git may see a part of.

    UsageError: none there, no working tree, or another owner's. UnsupportedRepository: a
    format that vibe-gate cannot read. Each with one sentence.
    """
    options = " ".join(_QUESTIONS).split()
    questions = git.start("rev-parse", "--path-format=absolute", *options)
    listing = git.start("config", "--list", "-z", "--show-scope")
    with ending(questions, listing):
        finished_questions = finish(questions)
        settings = read_git_settings(listing)
    answers = _parse_answers(git.folder, finished_questions)
    _refuse_formats(answers.object_format, settings)
    common_dir = Path(answers.common_dir)
    if is_true(settings.value("core.ignoreCase") or "") and not _ignores_case(common_dir):
        settings = Settings([*settings.lines, Setting("disk", "core.ignorecase", "false")])
    variables = {
        **git.child_environment,
        "GIT_DIR": answers.git_dir,
        "GIT_WORK_TREE": answers.root,
        "GIT_INDEX_FILE": answers.index_file,
        **_overrides(settings, git),
    }
    root = Path(answers.root)
    return RepositoryPlace(
        root=root,
        git_dir=Path(answers.git_dir),
        common_dir=common_dir,
        objects=Path(answers.objects),
        index_file=Path(answers.index_file),
        shallow=answers.is_shallow == "true",
        settings=settings,
        git=Program(root, variables),
        environment=environment,
    )


def _parse_answers(start: Path, finished_questions: Finished) -> _PlaceAnswers:
    """What git answered in the folder `start`. UsageError, UnsupportedRepository."""
    lines = finished_questions.out.decode("utf-8", "surrogateescape").split("\n")[:-1]
    start_name = paths.quote(os.fspath(start))
    if finished_questions.code and len(lines) < len(_QUESTIONS) - 1:
        raise _refusal(start, finished_questions)
    if not finished_questions.code and len(lines) != len(_QUESTIONS):
        raise UsageError(
            f"{start_name} has a newline in its path, so git's answers cannot be read."
        )
    git_dir, is_bare = lines[0], lines[4]
    if is_bare == "true":
        raise UsageError(
            f"{paths.quote(git_dir)} is a bare repository: "
            "run vibe-gate in a clone that has a working tree."
        )
    if finished_questions.code:
        raise UsageError(f"{start_name} is inside .git: run vibe-gate in the working tree.")
    return _PlaceAnswers(*lines)


def is_true(value: str) -> bool:
    """A boolean as git writes it."""
    return value.lower() not in {"false", "no", "off", "0", ""}


def read_git_settings(listing: subprocess.Popen[bytes]) -> Settings:
    """The configuration that a started `git config --list -z --show-scope` prints."""
    return Settings(_parse_settings(finish(listing).out))


def _parse_settings(raw: bytes) -> list[Setting]:
    fields = raw.decode("utf-8", "surrogateescape").split("\0")[:-1]
    lines = []
    for scope, line in zip(fields[::2], fields[1::2], strict=False):
        name, separator, value = line.partition("\n")
        lines.append(Setting(scope, name, value if separator else None))
    return lines


def _canonical(name: str) -> str:
    """The name of a setting as `git config --list` prints it: a subsection keeps its case."""
    section, _, subsection_and_key = name.partition(".")
    subsection, dot, key = subsection_and_key.rpartition(".")
    return f"{section.lower()}.{subsection}{dot}{key.lower()}"


_FORMAT_COMPLAINTS = ("repository extension", "repo version", "object format")


def _refusal(start: Path, answers: Finished) -> UsageError:
    """The sentence for a folder in which git itself refuses to work."""
    name = paths.quote(os.fspath(start))
    complaint = answers.err
    if "dubious ownership" in complaint or "unsafe repository" in complaint:
        return UsageError(
            f"the repository at {name} belongs to another user, so git does not trust it: "
            f"if you do, run `git config --global --add safe.directory {name}`."
        )
    detail = " ".join(complaint.removeprefix("fatal: ").split())
    if any(words in complaint for words in _FORMAT_COMPLAINTS):
        return UnsupportedRepository(
            f"this git cannot open the repository at {name} ({detail}): install a newer git, "
            "or review a clone made with the default formats."
        )
    if "not a git repository" in complaint:
        return UsageError(
            f"{name} is not inside a git repository: run vibe-gate where the code is, "
            "or `git init`."
        )
    detail = detail or f"exit code {answers.code}"
    return UsageError(f"git cannot open a repository at {name}: {paths.quote(detail)}.")


def _refuse_formats(object_format: str, settings: Settings) -> None:
    if object_format != "sha1":
        raise UnsupportedRepository(
            f"this repository names its objects by {object_format}, which vibe-gate does not read yet: "
            "review it in a repository made with `git init --object-format=sha1`."
        )
    has_promisor = any(_is_promisor(setting) for setting in settings.lines)
    if has_promisor or settings.value("extensions.partialclone"):
        raise UnsupportedRepository(
            "this repository is a partial clone (objects are missing until git fetches them), and vibe-gate "
            "fetches nothing: review a clone made without --filter."
        )


def _is_promisor(setting: Setting) -> bool:
    """Whether the setting says that a remote has objects that are missing here."""
    if not setting.name.startswith("remote.") or not setting.name.endswith(".promisor"):
        return False
    return is_true(setting.value or "true")


def _ignores_case(common_dir: Path) -> bool:
    """Whether the disk takes names that differ in case for one; git asks the same way when it makes
    a repository.
    """
    return os.path.exists(common_dir / "CoNfIg")  # noqa: PTH110 (it says no where nobody may look)


def _overrides(settings: Settings, git: Program) -> dict[str, str]:
    """Variables that set for every call of git what the repository's own configuration must not
    say.
    """
    pairs = [(line.name, line.value or "") for line in settings.lines if line.scope == "disk"]
    pairs += _quiet_filters(settings)
    if not pairs:
        return {}
    return git.variables_for_settings(pairs)


def _quiet_filters(settings: Settings) -> list[tuple[str, str]]:
    """Settings that switch off content filters of the repository's own configuration.

    A filter that the user's global or the system's configuration sets too keeps those values.
    """
    pairs: list[tuple[str, str]] = []
    if is_true(settings.trusted("vibe-gate.allowLocalFilters") or ""):
        return pairs
    for name, keys in settings.own_filters().items():
        # A key that is not set stays so: to git, an empty `process` is one all the same, and hides
        # `clean`.
        for key in keys & _FILTER_COMMANDS:
            command = f"filter.{name}.{key}"
            pairs.append((command, settings.trusted(command) or ""))
        required = f"filter.{name}.required"
        pairs.append((required, settings.trusted(required) or "false"))
    return pairs
