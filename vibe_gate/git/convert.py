"""Content that git changes on its way in: line endings, filters, ident, encodings.

Such a file's id is left to git itself: `git update-index` on a small index of our own,
with new objects going to the scratch store. Everything else is hashed by us.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError
from vibe_gate.git.detect import Place
from vibe_gate.git.modes import SUBMODULE_MODE
from vibe_gate.git.status import Stage
from vibe_gate.git.store import Store
from vibe_gate.git.tree import Entry

ATTRIBUTES = b".gitattributes"
_SYSTEM_FILES = ("/etc/gitattributes", "/usr/local/etc/gitattributes", "/opt/homebrew/etc/gitattributes")


class Candidate(NamedTuple):
    """A regular file to convert, and its entries in the index (git looks at their line endings)."""

    path: bytes
    stages: tuple[Stage, ...]


def everywhere(place: Place) -> bool:
    """Whether something outside the tree's own .gitattributes may convert any file.

    Rather too often than too seldom: the answer costs three quick calls of git, not rightness.
    """
    settings, environ = place.settings, place.git.environ
    if (settings.value("core.autocrlf") or "false").lower() not in {"false", "no", "off", "0"}:
        return True
    if settings.value("attr.tree") or environ.get("GIT_ATTR_SOURCE"):
        return True
    home = environ.get("HOME", "")
    configured = settings.value("core.attributesFile")
    xdg = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    own = configured.replace("~", home, 1) if configured and configured.startswith("~/") else configured
    files = [str(place.common_dir / "info" / "attributes"), own or f"{xdg}/git/attributes", *_SYSTEM_FILES]
    return any(Path(file).exists() for file in files) or bool(configured and configured.startswith("~"))


def convert(
    place: Place, store: Store, candidates: Sequence[Candidate], attributes: Mapping[bytes, Entry]
) -> dict[bytes, Entry]:
    """What `git add` would put into the index for these files; a file that is gone meanwhile is left out.

    `attributes`: entries of .gitattributes files that are tracked but not on disk, which
    git then reads from the index.
    """
    scratch = store.folder / "convert-index"
    scratch.unlink(missing_ok=True)
    # Git refreshes the time of an object that it would write but finds; so it finds only ours.
    environ = {**store.environ, "GIT_INDEX_FILE": os.fspath(scratch), "GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
    known = [(path, Stage(entry.mode, entry.id, 0)) for path, entry in attributes.items()]
    known += [(candidate.path, stage) for candidate in candidates for stage in candidate.stages]
    for _, stage in known:
        if stage.mode != SUBMODULE_MODE:
            store.write(*store.read(stage.id))
    store.flush()
    lines = b"".join(b"%o %s %d\t%s\0" % (s.mode, s.id.encode(), s.number, path) for path, s in known)
    wanted = b"".join(candidate.path + b"\0" for candidate in candidates)
    run = _runner(place, environ)
    run(("-c", "core.sparseCheckout=false", "update-index", "-z", "--index-info"), lines)
    run(("-c", "core.sparseCheckout=false", "-c", "core.looseCompression=0", "update-index",
         "--add", "--remove", "-z", "--stdin"), wanted)  # fmt: skip
    listed = run(("ls-files", "-s", "-z"), b"")
    asked = {candidate.path for candidate in candidates}
    return {path: entry for path, entry in map(_listed, listed.split(b"\0")[:-1]) if path in asked}


def _runner(place: Place, environ: Mapping[str, str]) -> Callable[[tuple[str, ...], bytes], bytes]:
    def run(arguments: tuple[str, ...], stdin: bytes) -> bytes:
        done = place.git.run(*arguments, stdin=stdin, environ=environ)
        if done.code:
            detail = " ".join(done.err.split())
            raise UsageError(f"git could not convert a file as .gitattributes asks ({paths.quote(detail)}).")
        return done.out

    return run


def _listed(record: bytes) -> tuple[bytes, Entry]:
    about, _, path = record.partition(b"\t")
    mode, name, _ = about.decode("ascii").split(" ")
    return path, Entry(int(mode, 8), name)
