"""Trees for the definitions: a folder on disk, or files written down in the test."""

from __future__ import annotations

from pathlib import Path


class FolderTree:
    """The regular files below a folder, as a git tree would show them: no symbolic links."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> bytes | None:
        place = self.root / path
        return place.read_bytes() if place.is_file() and not place.is_symlink() else None

    def list(self, prefix: str) -> list[str]:
        places = (self.root / prefix).rglob("*")
        files = (place for place in places if place.is_file() and not place.is_symlink())
        return sorted(place.relative_to(self.root).as_posix() for place in files)

    def links(self, prefix: str) -> list[str]:
        places = [self.root / prefix, *(self.root / prefix).rglob("*")]
        return sorted(place.relative_to(self.root).as_posix() for place in places if place.is_symlink())


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
