"""Files below `.vibe-gate/` that vibe-gate writes as a whole."""

from __future__ import annotations

import secrets
from pathlib import Path

import tomli_w

from vibe_gate.domain import paths
from vibe_gate.domain.calibration import Baseline
from vibe_gate.domain.document import plain, without_none
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.gate.baseline import BASELINES

_HEAD = "# Measured by `vibe-gate calibrate`; do not edit. docs/guides/calibration.md\n"


def write_definition(root: Path, path: str, content: bytes) -> str:
    """Write the file at `path` from the root, all of it or nothing; the path.

    UsageError at a symbolic link, InfrastructureError if it cannot be written.
    """
    target = root / path
    for folder in (target, *target.parents):
        if folder == root or not folder.is_relative_to(root):
            continue
        if folder.is_symlink():
            raise UsageError(f"{paths.quote(path)}: a symbolic link is on the way; move it away.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.parent / f".{secrets.token_hex(8)}"
        part.write_bytes(content)
        part.replace(target)
    except OSError as error:
        raise InfrastructureError(f"{path} could not be written: {error.strerror}.") from error
    return path


def baseline_toml(baseline: Baseline) -> str:
    """The file's text."""
    return _HEAD + tomli_w.dumps(without_none(plain(baseline)))


def write_baseline(root: Path, baseline: Baseline) -> str:
    """Write the rubric's baseline; its path from the root. UsageError at a symbolic link."""
    path = f"{BASELINES}/{baseline.rubric}.toml"
    return write_definition(root, path, baseline_toml(baseline).encode())
