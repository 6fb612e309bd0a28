"""Checks of which files a change touches, and of what kind they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from vibe_gate.checks.check_contract import (
    CheckInput,
    CheckResult,
    Excluding,
    Files,
    Hit,
    NoOptions,
    failed,
)
from vibe_gate.checks.tests_kept import TEST_FILES
from vibe_gate.domain import paths
from vibe_gate.domain.change import NUL_WINDOW, SUBMODULE_MODE, SYMLINK_MODE, FileDiff
from vibe_gate.domain.escape import counted, expression, list_names
from vibe_gate.domain.rubric import Glob

Globs = Annotated[tuple[Glob, ...], Meta(min_length=1)]


class OnlyPathsOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `only-paths`."""

    paths: Annotated[Globs, Meta(description="globs; nothing else may change")]


class ForbiddenPathsOptions(Excluding, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `forbidden-paths`."""

    paths: Annotated[Globs, Meta(description="globs of what must not change")]
    message: Annotated[str, Meta(description="what to say of a file that changes")] = ""


class CompanionOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `required-companion`."""

    changed: Annotated[Globs, Meta(description="globs: if such a file changes ...")]
    companion: Annotated[
        Globs, Meta(description="... one of these must change, by default a test")
    ] = (
        "tests/**",
        "test/**",
        *TEST_FILES,
    )
    message: Annotated[str, Meta(description="what to say if none does")] = ""


class MaxLinesOptions(Excluding, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `max-changed-lines`."""

    max: Annotated[
        int, Meta(ge=0, description="added and deleted lines together, binary files aside")
    ] = 500


class LargeFileOptions(Excluding, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `no-large-files`."""

    max_kb: Annotated[int, Meta(ge=0, description="size of one file, in units of 1,024 bytes")] = (
        500
    )


def no_deleted_files(input: CheckInput, options: Excluding, files: Files) -> Iterator[Hit]:
    """No file is deleted, or moved out of the criterion's paths."""
    guarded_paths = input.criterion.paths
    for file in files:
        if file.after is None:
            yield Hit("This file is deleted.", file.shown_path)
        elif guarded_paths and _moves_out_of(guarded_paths, file):
            message = f"This file is moved out of the guarded paths, to {file.shown_path}."
            yield Hit(message, paths.quote(file.old_name))


def _moves_out_of(globs: tuple[str, ...], file: FileDiff) -> bool:
    was_inside = paths.matches_any_glob(file.old_name, globs)
    return was_inside and not paths.matches_any_glob(file.path, globs)


def only_paths(input: CheckInput, options: OnlyPathsOptions, files: Files) -> Iterator[Hit]:
    """Every changed name, old and new, matches one of the globs."""
    message = f"Only {list_names(options.paths)} may change here."
    for file in files:
        for name in file.names:
            if not paths.matches_any_glob(name, options.paths):
                yield Hit(message, paths.quote(name))


def forbidden_paths(
    input: CheckInput, options: ForbiddenPathsOptions, files: Files
) -> Iterator[Hit]:
    """No changed name, old or new, matches one of the globs."""
    message = options.message or f"This path must not change ({list_names(options.paths)})."
    return _touched(files, options.paths, message)


def no_policy_change(input: CheckInput, options: NoOptions, files: Files) -> Iterator[Hit]:
    """Nothing changes that the gate's policy blocks until a human approves."""
    return _touched(files, input.policy, "This file is part of the gate's policy.")


def _touched(files: Files, globs: tuple[str, ...], message: str) -> Iterator[Hit]:
    for file in files:
        for name in file.names:
            if paths.matches_any_glob(name, globs):
                yield Hit(message, paths.quote(name))


def required_companion(input: CheckInput, options: CompanionOptions, files: Files) -> CheckResult:
    """Where one set of files changes, the other gains something too; a companion's deletion is no
    companion.
    """
    companions: list[FileDiff] = []
    grown: list[str] = []
    for file in input.change.files:
        if not paths.matches_any_glob(file.path, options.companion):
            continue
        companions.append(file)
        if file.after is not None and (file.added or file.binary):
            grown.append(file.shown_path)
    changed = [file for file in files if file not in companions and file.touches(options.changed)]
    if not changed:
        return CheckResult(
            "not_applicable", f"No changed file matches {list_names(options.changed)}."
        )
    count = counted(len(changed), "file")
    if grown:
        return CheckResult("pass", f"{count} changed together with {list_names(grown)}.")
    missing = list_names(options.companion, 3)
    message = options.message or f"Changed without a change in {missing}"
    reason = f"{count} changed without an addition in {missing}."
    return failed(input, reason, [Hit(message, file.shown_path) for file in changed])


def max_changed_lines(input: CheckInput, options: MaxLinesOptions, files: Files) -> CheckResult:
    """Added and deleted lines stay under the ceiling."""
    texts = [file for file in files if not file.binary]
    added = sum(file.added for file in texts)
    deleted = sum(file.deleted for file in texts)
    lines = f"{added + deleted:,} changed lines ({added:,} added, {deleted:,} deleted)"
    size = f"{lines} in {counted(len(files), 'file')}"
    if added + deleted <= options.max:
        return CheckResult("pass", f"{size}, at most {options.max:,} allowed.")
    largest_first = sorted(texts, key=_changed_lines, reverse=True)
    names = [f"{file.shown_path} ({_changed_lines(file):,})" for file in largest_first]
    most = list_names(names, 3)
    message = f"{size}, {options.max:,} allowed; split the change. Most: {most}."
    return failed(input, f"{size}; at most {options.max:,} allowed.", [Hit(message)])


def _changed_lines(file: FileDiff) -> int:
    return file.added + file.deleted


def no_binary(input: CheckInput, options: Excluding, files: Files) -> Iterator[Hit]:
    """No file with binary content is added or changed."""
    for file in files:
        if not file.binary or file.after is None or not _has_new_content(file):
            continue
        if not file.is_read:
            yield Hit("This file is too large to be read as text.", file.shown_path)
        elif b"\0" in input.read(file.after)[:NUL_WINDOW]:
            yield Hit("This file's content is binary (a NUL byte near its start).", file.shown_path)


def no_large_files(input: CheckInput, options: LargeFileOptions, files: Files) -> Iterator[Hit]:
    """No added or changed file is larger than the ceiling."""
    for file in files:
        if file.after is None or file.after.mode == SUBMODULE_MODE:
            continue
        size = file.after.size
        if size > options.max_kb * 1024 and _has_new_content(file):
            message = (
                f"This file has {size / 1024:,.1f} KiB; at most {options.max_kb:,} are allowed."
            )
            yield Hit(message, file.shown_path)


def _has_new_content(file: FileDiff) -> bool:
    """Whether the content is new; a mere move or change of mode brought nothing in."""
    return file.before is None or file.after is None or file.before.blob != file.after.blob


def no_escaping_symlinks(input: CheckInput, options: Excluding, files: Files) -> Iterator[Hit]:
    """No symbolic link leads out of the tree or into git's own folder."""
    for file in files:
        if file.after is None or file.after.mode != SYMLINK_MODE:
            continue
        target = paths.decode(input.read(file.after)) if file.is_read else ""
        problem = _escape(file.path, target)
        if problem:
            shown_target = paths.quote(input.redact(target)[:200])
            yield Hit(f"This link {problem}: {shown_target}", file.shown_path, 1, shown_target)


_GIT_FOLDER = expression(r"\.git[ .]*|git~[0-9]+", re.IGNORECASE)
# Characters that HFS+ ignores in names: `.g<U+200C>it` is `.git` there.
_IGNORED_IN_NAMES = expression("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def _escape(path: str, target: str) -> str:
    """How a link at `path` with this target leaves the tree; "" if it does not. Backslashes
    separate too (Windows).
    """
    plain = target.replace("\\", "/")
    if not plain or "\0" in plain:
        return "has no usable target"
    if plain.startswith("/") or re.match(r"[A-Za-z]:", plain):
        return "is absolute"
    if plain.startswith("~"):
        return "leads to a home directory"
    stack = path.split("/")[:-1]
    for part in plain.split("/"):
        if _GIT_FOLDER.fullmatch(_IGNORED_IN_NAMES.sub("", part.split(":")[0])):
            return "leads into .git"
        if part == "..":
            if not stack:
                return "leaves the tree"
            stack.pop()
        elif part not in {"", "."}:
            stack.append(part)
    return ""
