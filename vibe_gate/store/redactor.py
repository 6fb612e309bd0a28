"""What the recorders ask of redaction; the door is `secrets/redaction`, handed in by whoever connects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Redactor(Protocol):
    """Replaces secrets by placeholders. Everything passes here before its first byte is written."""

    def text(self, text: str, /) -> str:
        """Text without secrets."""

    def data(self, data: bytes, /) -> bytes:
        """Bytes without secrets."""

    def value(self, value: Any, /) -> Any:  # noqa: ANN401 - any JSON
        """JSON without secrets in any of its texts."""


class CountingRedactor(Redactor, Protocol):
    """One that tells how much it replaced: a bundle's summary says so."""

    @property
    def found(self) -> Mapping[str, int]:
        """How many secrets were replaced, by kind."""

    def part(self) -> CountingRedactor:
        """A redactor of the same secrets with a count of its own; what it finds counts here too."""


def tally(redact: CountingRedactor) -> dict[str, Any]:
    """`redacted` of a summary: how many placeholders were written, in all and by kind."""
    kinds = dict(sorted(redact.found.items()))
    return {"count": sum(kinds.values()), "kinds": kinds}
