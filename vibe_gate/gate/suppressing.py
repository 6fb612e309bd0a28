"""Adding to `.vibe-gate/suppressions.toml` of a working tree: what stands there stays as it is, comments included."""

from __future__ import annotations

import secrets
from pathlib import Path

import tomli_w

from vibe_gate.domain import paths
from vibe_gate.domain.suppression import Suppression
from vibe_gate.errors import DefinitionError, InfrastructureError, UsageError
from vibe_gate.gate.loading import suppressions_of
from vibe_gate.gate.reading import FOLDER, SUPPRESSIONS

_HEAD = """\
# What this repository has decided to live with. Read at the trusted revision; docs/receipts.md.
schema = 1
"""


def add_suppression(root: Path, rule: Suppression) -> str:
    """Append a suppression; its file's path from the root.

    DefinitionError where the file has mistakes already, UsageError at a symbolic link.
    """
    folder, target = root / FOLDER, root / SUPPRESSIONS
    if folder.is_symlink() or target.is_symlink():
        raise UsageError(f"{paths.quote(SUPPRESSIONS)}: a symbolic link stands there; move it away.")
    try:
        old = target.read_bytes() if target.exists() else _HEAD.encode()
        _refuse_mistakes(old)
        table = rule.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        text = "\n" + tomli_w.dumps({"suppression": [table]}, multiline_strings=False)
        new = old + (b"" if old.endswith(b"\n") else b"\n") + text.encode()
        _refuse_mistakes(new)
        folder.mkdir(exist_ok=True)
        part = folder / f".{secrets.token_hex(8)}"
        part.write_bytes(new)
        part.replace(target)
    except OSError as error:
        raise InfrastructureError(f"{SUPPRESSIONS} could not be written: {error.strerror}.") from error
    return SUPPRESSIONS


def _refuse_mistakes(raw: bytes) -> None:
    wrong: list[str] = []
    suppressions_of(_One(raw), wrong)
    if wrong:
        raise DefinitionError(wrong)


class _One:
    """The file as a tree of its own, for the strict reader."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def read(self, path: str) -> bytes | None:
        return self._raw if path == SUPPRESSIONS else None

    def links(self, prefix: str) -> list[str]:
        return []

    def list(self, prefix: str) -> list[str]:
        return [SUPPRESSIONS]
