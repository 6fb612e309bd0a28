"""Which secrets other scanners' allowlists allow: those of the trusted revision do, those of the
change do not.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

from vibe_gate import secrets
from vibe_gate.checks.check_contract import CheckInput, read_side_text
from vibe_gate.domain.change import FileDiff, FileVersion
from vibe_gate.domain.escape import counted

NOT_HONOURED = " Its allowlist comment comes with this change, so it does not count."


class Allowed:
    """Asks the trusted `.gitleaks.toml` and comments that stood before the change; counts what they
    allow.
    """

    def __init__(self, input: CheckInput) -> None:
        self._input = input
        self._lines: dict[str, list[str]] = {}
        """The lines of contents, by blob."""

        self._lines_and_pairs: dict[str, set[tuple[str, ...]]] = {}
        """By blob, each of its lines and any two that follow one another, without indentation."""

        self._is_allowed_by_comment: dict[tuple[str, int], bool] = {}
        """By path and number of a line."""

        self._count = 0

    @cached_property
    def _allowlist(self) -> secrets.Allowlist:
        if not self._input.gitleaks:
            return secrets.Allowlist()
        return secrets.read_allowlist(self._input.gitleaks)

    def allows(self, file: FileDiff, number: int, secret: str, line: str) -> bool:
        """Whether the trusted revision's `.gitleaks.toml`, or a comment that stood in this file
        before, allows it.
        """
        place = (file.path, number)
        if place not in self._is_allowed_by_comment:  # once for a line, be it full of secrets
            comment = self._comment(file, number)
            stood_before = bool(comment) and self._stood(file, comment)
            self._is_allowed_by_comment[place] = stood_before
        is_allowed = self._is_allowed_by_comment[place]
        if not is_allowed:
            is_allowed = self._allowlist.allows(file.path, secret, line)
        if is_allowed:
            self._count += 1
        return is_allowed

    def brought(self, file: FileDiff, number: int) -> bool:
        """Whether a comment of the change's own would allow it."""
        return bool(self._comment(file, number))

    def sentences(self) -> str:
        """What is said of allowlists beside the result; "" if there is nothing to say."""
        sentences: list[str] = []
        if self._count:
            sentences.append(f"{counted(self._count, 'secret')} allowed.")
        if self._allowlist.ignored:
            sentences.append(self._allowlist.ignored)
        changed_list = self._input.change.file(secrets.GITLEAKS_FILE)
        if changed_list is not None and changed_list.after is not None:
            sentences.append(f"This change's {secrets.GITLEAKS_FILE} counts once it is merged.")
        return "".join(f" {sentence}" for sentence in sentences)

    def _comment(self, file: FileDiff, number: int) -> tuple[str, ...]:
        return secrets.allowing_comment(self._of(file.after), number)

    def _stood(self, file: FileDiff, comment_lines: tuple[str, ...]) -> bool:
        """Whether these lines, one or two, stood in the file before, whatever their indentation."""
        if file.before is None:
            return False
        blob = file.before.blob
        if blob not in self._lines_and_pairs:
            lines = [line.strip() for line in self._of(file.before)]
            single_lines = {(line,) for line in lines}
            self._lines_and_pairs[blob] = single_lines | set(pairwise(lines))
        plain_lines = tuple(line.strip() for line in comment_lines)
        return plain_lines in self._lines_and_pairs[blob]

    def _of(self, version: FileVersion | None) -> list[str]:
        if version is None:
            return []
        if version.blob not in self._lines:
            content = self._input.read(version)
            self._lines[version.blob] = [read_side_text(line) for line in content.split(b"\n")]
        return self._lines[version.blob]
