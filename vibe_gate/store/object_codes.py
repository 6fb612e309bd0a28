"""Codes that tell what this team wrote into its shared store from all else that lies there.

They are made from a secret that the team shares, and hold for one address: what was written
elsewhere with the same secret, or stands under another name, does not count.
"""

from __future__ import annotations

import hashlib
import hmac

LEAST_SECRET = 20
"""Characters of a secret that nobody guesses."""

_SIZE = 64
"""Characters of a code, hex digits of a sha-256."""


class Codes:
    """The codes of one store."""

    def __init__(self, url: str, secret: str) -> None:
        self._key = hmac.digest(
            secret.encode(), f"vibe-gate store 1\0{url.rstrip('/')}".encode(), "sha256"
        )

    def code(self, name: str, body: bytes = b"") -> str:
        """The code of what stands under a name."""
        return hmac.digest(self._key, hashlib.sha256(name.encode()).digest() + body, "sha256").hex()

    def name(self, folder: str, key: str) -> str:
        """A name in a folder that tells nobody without the secret what it is about."""
        return f"{folder}/{self.code(f'name of {folder}', key.encode())[:40]}"

    def coded(self, name: str, body: bytes) -> bytes:
        """What is written under the name: the code and the body."""
        return self.code(name, body).encode() + b"\n" + body

    def body(self, name: str, data: bytes) -> bytes | None:
        """What was written under the name; None if it is not what somebody with the secret wrote
        there.
        """
        body = data[_SIZE + 1 :]
        if not hmac.compare_digest(data, self.coded(name, body)):
            return None
        return body
