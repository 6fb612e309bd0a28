"""The README as the package index shows it: links lead to this version's files, `uses:` and `rev:`
name its tag.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/vibe-gate/vibe-gate"


class IndexReadme(MetadataHookInterface):
    """What `[tool.hatch.metadata.hooks.custom]` of pyproject.toml runs at each build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the project's `readme`; its version is known by then."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": for_index(text, f"v{metadata['version']}"),
        }


def for_index(readme: str, tag: str) -> str:
    """Addresses in place of the paths of links and pictures, and the tag in place of a commit or an
    older tag.
    """
    text = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:|#)", rf"\1{REPOSITORY}/raw/{tag}/", readme)
    text = re.sub(r"(\]\()(?![a-z]+:|#)", rf"\1{REPOSITORY}/blob/{tag}/", text)
    return re.sub(r"(vibe-gate/vibe-gate@)[0-9a-f]{40} # v\S+", rf"\1{tag}", text)
