"""What the commands that judge or move bundles know about where they come from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from vibe_gate.errors import RevisionError
from vibe_gate.faces.cli.bundles.naming import named, repository_at
from vibe_gate.faces.cli.bundles.naming import provenance as provenance
from vibe_gate.secrets.redaction import Redactor
from vibe_gate.store import RunView
from vibe_gate.store.twins import Elsewhere, nowhere

RUNS_HELP = "run ids, unambiguous beginnings of them, or revisions"


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


@contextlib.contextmanager
def elsewhere(root: Path, environ: Mapping[str, str]) -> Iterator[Elsewhere]:
    """Contents of committed changes, from the repository and redacted as they were when they were kept."""
    redact = Redactor(environ)
    with repository_at(root, environ) as repository:
        if repository is None:
            yield nowhere
            return
        here = repository

        def content(tree: str, path: str) -> bytes | None:
            try:
                data = here.tree(tree).read(path)
            except RevisionError:
                return None
            return None if data is None else redact.data(data)

        yield content


def views(root: Path, references: Sequence[str], environ: Mapping[str, str]) -> list[RunView] | None:
    """The runs that were named, each once; None where none was. UsageError."""
    if not references:
        return None
    entries = dict.fromkeys(named(root, reference, environ).entry for reference in references)
    return [RunView(entry.run_id, entry.key, root / entry.bundle) for entry in entries]
