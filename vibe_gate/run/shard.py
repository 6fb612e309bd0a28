"""Shards: parts of a long list of tasks for machines that know nothing of each other."""

from __future__ import annotations

import hashlib
import re

from msgspec import Struct

from vibe_gate.errors import UsageError

_FORM = re.compile(r"([1-9][0-9]{0,4})/([1-9][0-9]{0,4})")


class Shard(Struct, frozen=True):
    """A part of a list. Which part a task is in depends on its name and `count` alone."""

    number: int = 1
    """From 1."""

    count: int = 1
    """How many parts there are."""

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, name: str) -> bool:
        """Whether the task with this name (a commit or run id, a case's name) is in this part."""
        digest = hashlib.sha256(name.encode()).digest()
        return int.from_bytes(digest) % self.count == self.number - 1


WHOLE = Shard()


def shard_of(text: str) -> Shard:
    """The value of `--shard K/N`. UsageError if K is not one of 1 to N."""
    match = _FORM.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise UsageError(f"--shard '{text}' is not K/N; the parts of eight are 1/8 to 8/8.")
    return Shard(int(match[1]), int(match[2]))
