"""The versions of a file that `blame` reads: a few of them at a time, however long the history
is.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property, lru_cache

from vibe_gate.domain import paths
from vibe_gate.git import Repository
from vibe_gate.store.stored_writes import DigestedLines, LineDigests, split_git_lines

MAX_TEXTS = 8
"""Texts in memory together: a commit's, the one before, and those that a moved line comes from."""

MAX_STATES = 64
"""Digests of texts in memory together: the earlier versions in which a line is looked for that came
back."""

MAX_SEARCHED = 500
"""Lines that are searched for in a whole text: to search for so many costs about as much as to match
the texts.
"""

_BINARY_WITHIN = 8_000
"""Bytes of a file within which git looks for a NUL."""

_REWRITTEN_BYTES = bytes([*range(9, 14), *range(28, 33), *range(128, 256)]) + b"'\","
"""What `matching.bare` and `matching.loosened` leave out or replace, or bytes that may be part of
it.
"""


class FileText:
    """The text of a file in a commit."""

    def __init__(self, content: bytes, blob: str) -> None:
        self.blob = blob
        """The id of the content."""
        self._content = content

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Its lines as git counts them; bytes that are not UTF-8 are replaced."""
        return tuple(split_git_lines(self._content.decode("utf-8", "replace")))

    def may_have_any(self, lines: Collection[str]) -> bool:
        """Whether one of the lines may stand in the text, in one piece or as a formatter rewrote
        it.

        True of some lines that do not, and of many lines; a False spares matching the whole text.
        """
        if len(lines) > MAX_SEARCHED:
            return True
        return any(_comparable(line.encode()) in self._comparable_content for line in lines)

    @cached_property
    def _comparable_content(self) -> bytes:
        return _comparable(self._content)


class FileTexts:
    """The texts of files in commits, read again when they were not asked for lately."""

    def __init__(self, repository: Repository, digests: LineDigests) -> None:
        self._repository = repository
        self._digests = digests
        self._cached_text = lru_cache(MAX_TEXTS)(self._read_text)
        self._cached_state = lru_cache(MAX_STATES)(self._read_state)

    def text(self, commit: str, path: str) -> FileText | None:
        """The file in the commit; None if it is not there, or binary."""
        return self._cached_text(commit, path)

    def state(self, commit: str, path: str) -> DigestedLines:
        """The digests of the file's lines in the commit; none if it is not there, or binary."""
        return self._cached_state(commit, path)

    def _read_text(self, commit: str, path: str) -> FileText | None:
        tree = self._repository.tree(commit)
        entry = tree.entry(paths.encode(path))
        content = tree.read(path)
        if entry is None or content is None or b"\0" in content[:_BINARY_WITHIN]:
            return None
        return FileText(content, entry.id)

    def _read_state(self, commit: str, path: str) -> DigestedLines:
        text = self.text(commit, path)
        return self._digests.of(text.lines) if text else ()


def _comparable(content: bytes) -> bytes:
    """The content without what a formatter changes: of a rewritten line the same bytes are left."""
    return content.translate(None, _REWRITTEN_BYTES)
