"""A tree for the definitions: files written down in the test."""

from __future__ import annotations


class TextTree:
    """Files given as text or bytes, below `.vibe-gate/`."""

    def __init__(self, files: dict[str, str | bytes]) -> None:
        self.files = {
            f".vibe-gate/{path}": text if isinstance(text, bytes) else text.encode() for path, text in files.items()
        }

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in self.files if path.startswith(f"{prefix}/"))

    def links(self, prefix: str) -> list[str]:
        return []
