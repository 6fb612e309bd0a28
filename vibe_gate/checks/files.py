"""Checks of which files a change touches, and of what kind they are."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, StrictInt

from vibe_gate.checks.contract import (
    CheckInput,
    CheckResult,
    Excluding,
    Files,
    NoOptions,
    failed,
    finding,
    not_applicable,
    passed,
)
from vibe_gate.checks.tests_kept import TEST_FILES
from vibe_gate.domain import paths
from vibe_gate.domain.change import SUBMODULE_MODE, SYMLINK_MODE, FileDiff
from vibe_gate.domain.escape import counted, expression, listed
from vibe_gate.domain.model import Model
from vibe_gate.domain.rubric import Glob
from vibe_gate.domain.verdict import Finding

Globs = Annotated[tuple[Glob, ...], Field(min_length=1)]

NUL_WINDOW = 8000
"""Bytes in which git looks for a NUL before it calls a content binary."""


class OnlyPathsOptions(Model):
    """`paths`: globs; nothing else may change."""

    paths: Globs


class ForbiddenPathsOptions(Excluding):
    """`paths`: globs of what must not change; `message` replaces ours."""

    paths: Globs
    message: str = ""


class CompanionOptions(Model):
    """Where a file of `changed` changes, one of `companion` must change too (default: tests)."""

    changed: Globs
    companion: Globs = ("tests/**", "test/**", *TEST_FILES)
    message: str = ""


class MaxLinesOptions(Excluding):
    """`max`: added and deleted lines together, binary files aside."""

    max: StrictInt = Field(default=500, ge=0)


class LargeFileOptions(Excluding):
    """`max_kb`: size of one file after the change, in units of 1,024 bytes."""

    max_kb: StrictInt = Field(default=500, ge=0)


def no_deleted_files(input: CheckInput, options: Excluding, files: Files) -> CheckResult:
    """No file is deleted, or moved out of the criterion's paths."""
    findings = [found for file in files if (found := _deletion(input, file))]
    if not findings:
        return passed(f"None of {counted(len(files), 'changed file')} was deleted.")
    return failed(input, f"{counted(len(findings), 'file')} deleted: {listed(f.path for f in findings)}.", findings)


def _deletion(input: CheckInput, file: FileDiff) -> Finding | None:
    if file.after is None:
        return finding(input, "This file is deleted.", path=file.shown_path)
    globs = input.criterion.paths
    if globs and paths.matches(file.old_name, globs) and not paths.matches(file.path, globs):
        message = f"This file is moved out of the guarded paths, to {file.shown_path}."
        return finding(input, message, path=paths.quote(file.old_name))
    return None


def only_paths(input: CheckInput, options: OnlyPathsOptions, files: Files) -> CheckResult:
    """Every changed name, old and new, matches one of the globs."""
    outside = [name for file in files for name in file.names if not paths.matches(name, options.paths)]
    if not outside:
        return passed(f"All of {counted(len(files), 'changed file')} lie in the allowed paths.")
    allowed = listed(options.paths)
    findings = [finding(input, f"Only {allowed} may change here.", path=paths.quote(name)) for name in outside]
    shown = listed(paths.quote(name) for name in outside)
    return failed(input, f"{counted(len(outside), 'path')} outside {allowed}: {shown}.", findings)


def forbidden_paths(input: CheckInput, options: ForbiddenPathsOptions, files: Files) -> CheckResult:
    """No changed name, old or new, matches one of the globs."""
    message = options.message or f"This path must not change ({listed(options.paths)})."
    passing = f"None of {counted(len(files), 'changed file')} lies in a forbidden path."
    return _untouched(input, files, options.paths, "forbidden path", message, passing)


def no_policy_change(input: CheckInput, options: NoOptions, files: Files) -> CheckResult:
    """Nothing changes that the gate's policy blocks until a human approves."""
    message = "This file is part of the gate's policy; a human must approve its change."
    passing = "The change leaves the gate's own definitions alone."
    return _untouched(input, files, input.policy, "policy file", message, passing)


def _untouched(
    input: CheckInput, files: Files, globs: tuple[str, ...], what: str, message: str, passing: str
) -> CheckResult:
    hits = [paths.quote(name) for file in files for name in file.names if paths.matches(name, globs)]
    if not hits:
        return passed(passing)
    findings = [finding(input, message, path=shown) for shown in hits]
    return failed(input, f"{counted(len(hits), what)} changed: {listed(hits)}.", findings)


def required_companion(input: CheckInput, options: CompanionOptions, files: Files) -> CheckResult:
    """Where one set of files changes, the other gains something too; a companion's deletion is no companion."""
    companions = [file for file in input.change.files if paths.matches(file.path, options.companion)]
    changed = [file for file in files if file not in companions and file.touches(options.changed)]
    if not changed:
        return not_applicable(f"No changed file matches {listed(options.changed)}.")
    grown = [file for file in companions if file.after is not None and (file.added or file.binary)]
    if grown:
        shown = listed(file.shown_path for file in grown)
        return passed(f"{counted(len(changed), 'file')} changed together with {shown}.")
    message = options.message or f"Changed without a change in {listed(options.companion, 3)}"
    findings = [finding(input, message, path=file.shown_path) for file in changed]
    return failed(
        input,
        f"{counted(len(changed), 'file')} changed without an addition in {listed(options.companion, 3)}.",
        findings,
    )


def max_changed_lines(input: CheckInput, options: MaxLinesOptions, files: Files) -> CheckResult:
    """Added and deleted lines stay under the ceiling."""
    texts = [file for file in files if not file.binary]
    added, deleted = sum(file.added for file in texts), sum(file.deleted for file in texts)
    told = f"{added + deleted:,} changed lines ({added:,} added, {deleted:,} deleted) in {counted(len(files), 'file')}"
    if added + deleted <= options.max:
        return passed(f"{told}, at most {options.max:,} allowed.")
    largest = sorted(texts, key=lambda file: -(file.added + file.deleted))
    most = listed((f"{file.shown_path} ({file.added + file.deleted:,})" for file in largest), 3)
    message = f"{told}, {options.max:,} allowed; split the change. Most: {most}."
    return failed(input, f"{told}; at most {options.max:,} allowed.", [finding(input, message)])


def no_binary(input: CheckInput, options: Excluding, files: Files) -> CheckResult:
    """No file with binary content is added or changed."""
    hits = [
        file
        for file in files
        if file.binary and file.after is not None and _has_content_change(file)
        and b"\0" in input.read(file.after)[:NUL_WINDOW]
    ]  # fmt: skip
    if not hits:
        return passed(f"No binary content in {counted(len(files), 'changed file')}.")
    findings = [
        finding(input, "This file's content is binary (a NUL byte near its start).", path=file.shown_path)
        for file in hits
    ]
    return failed(input, f"{counted(len(hits), 'binary file')}: {listed(file.shown_path for file in hits)}.", findings)


def no_large_files(input: CheckInput, options: LargeFileOptions, files: Files) -> CheckResult:
    """No added or changed file is larger than the ceiling."""
    hits = [
        (file, file.after.size)
        for file in files
        if file.after is not None and file.after.mode != SUBMODULE_MODE and file.after.size > options.max_kb * 1024
        and _has_content_change(file)
    ]  # fmt: skip
    if not hits:
        return passed(f"None of {counted(len(files), 'changed file')} is over {options.max_kb:,} KiB.")
    findings = [
        finding(
            input,
            f"This file has {size / 1024:,.1f} KiB; at most {options.max_kb:,} are allowed.",
            path=file.shown_path,
        )
        for file, size in hits
    ]
    shown = listed(file.shown_path for file, _ in hits)
    return failed(input, f"{counted(len(hits), 'file')} over {options.max_kb:,} KiB: {shown}.", findings)


def _has_content_change(file: FileDiff) -> bool:
    """Whether the content is new; a mere move or change of mode brought nothing in."""
    return file.before is None or file.after is None or file.before.blob != file.after.blob


def no_escaping_symlinks(input: CheckInput, options: Excluding, files: Files) -> CheckResult:
    """No symbolic link leads out of the tree or into git's own folder."""
    links = [(file, file.after) for file in files if file.after is not None and file.after.mode == SYMLINK_MODE]
    if not links:
        return passed("No symbolic link was added or changed.")
    findings = []
    for file, version in links:
        target = paths.decode(input.read(version))
        why = _escape(file.path, target)
        if why:
            shown = paths.quote(input.redact(target)[:200])
            findings.append(finding(input, f"This link {why}: {shown}", path=file.shown_path, line=1, quote=shown))
    if not findings:
        return passed(f"{counted(len(links), 'changed symbolic link')}, none leaves the tree.")
    return failed(input, f"{counted(len(findings), 'symbolic link')} out of the tree or into .git.", findings)


_GIT_FOLDER = expression(r"\.git[ .]*|git~[0-9]+", re.IGNORECASE)
# Characters that HFS+ ignores in names: `.g<U+200C>it` is `.git` there.
_IGNORED_IN_NAMES = expression("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def _escape(path: str, target: str) -> str:
    """How a link at `path` with this target leaves the tree; "" if it does not. Backslashes separate too (Windows)."""
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
