"""Placeholders: what stands where a secret stood, the same wherever it is replaced.

A secret becomes `[redacted:KIND:TAG]`. TAG is 8 hex digits of a sha-256, which tells
nothing about a random value of 20 characters or more; a shorter one could be guessed
against it, so there the TAG is that of the KIND alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from vibe_gate.secrets.scan import SecretMatch

MIN_TAGGED = 20
"""Characters from which a placeholder may tell secrets apart: fewer could be guessed against 32 bits of a hash."""


def placeholder(kind: str, secret: str) -> str:
    """What is written for a secret of that kind."""
    told = secret if len(secret) >= MIN_TAGGED else ""
    tag = hashlib.sha256(f"vibe-gate redaction\0{kind}\0{told}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"[redacted:{kind}:{tag}]"


def replaced(text: str, found: Iterable[SecretMatch]) -> str:
    """`text` with placeholders for what `secrets.find` found in it."""
    out: list[str] = []
    position = 0
    for match in found:
        written = placeholder(match.kind, match.value)
        if not text[match.start + 1 : match.end : 2].strip("\0"):
            # UTF-16 stays UTF-16.
            written = "\0".join(written) + "\0" * ((match.end - match.start) % 2 == 0)
        out += [text[position : match.start], written]
        position = match.end
    return "".join([*out, text[position:]]) if out else text


def as_bytes_seen(text: str, redact: Callable[[str], str]) -> str:
    """`redact` of `text` as UTF-8 seen as Latin-1: one way for text and bytes, so that a value has one placeholder.

    ASCII, the usual case, needs no copy.
    """
    return redact(text) if text.isascii() else as_seen(redact(as_bytes(text)))


def as_bytes(text: str) -> str:
    """`text` as UTF-8 seen as Latin-1, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def as_seen(text: str) -> str:
    """The way back. What is no UTF-8 becomes U+FFFD: no text may end what it is written down in."""
    raw = text.encode("latin-1")
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")
