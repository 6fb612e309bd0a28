"""Trees for the definitions: files written down in the test."""

from __future__ import annotations


class FileTree(dict[str, bytes]):
    """Files by their paths."""

    def read(self, path: str) -> bytes | None:
        return self.get(path)

    def list(self, prefix: str, *, without: str = "") -> list[str]:
        skipped = f"{without or '//'}/"
        return sorted(
            path for path in self if path.startswith(f"{prefix}/") and not path.startswith(skipped)
        )

    def links(self, prefix: str, *, without: str = "") -> list[str]:
        return []


def text_tree(files: dict[str, str | bytes]) -> FileTree:
    """Files given as text or bytes, below `.vibe-gate/`."""
    contents = {
        path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()
    }
    return FileTree({f".vibe-gate/{path}": raw for path, raw in contents.items()})
