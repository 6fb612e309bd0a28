"""What the recorders ask of redaction; the door is `adapters/redaction`, handed in by whoever connects them."""

from __future__ import annotations

from typing import Any, Protocol


class Redactor(Protocol):
    """Replaces secrets by placeholders. Everything passes here before its first byte is written."""

    def text(self, text: str, /) -> str:
        """Text without secrets."""

    def data(self, data: bytes, /) -> bytes:
        """Bytes without secrets."""

    def value(self, value: Any, /) -> Any:  # noqa: ANN401 - any JSON
        """JSON without secrets in any of its texts."""
