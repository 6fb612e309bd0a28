"""A release up to the push: what it writes, commits and tags, when it refuses, and that a failure
leaves nothing.
"""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from repos import Repo

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    "vibe_gate/version.py", "README.md", ".gitignore", "docs/reference/github.md", "examples/workflows/simple.yml",
    "examples/hooks/.pre-commit-config.yaml", ".claude-plugin/vibe-gate/.claude-plugin/plugin.json",
    ".claude-plugin/vibe-gate/hooks/run.sh", "distributions/vibe-gate/pyproject.toml",
    "examples/workflows/pages.yml",
)  # fmt: skip
NEWS = "# Changelog\n\n## Unreleased\n\n- New: a thing.\n\n## 0.1.0 (2026-01-02)\n\n- All.\n"


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = load(".ci/release.py")


@pytest.fixture
def clone(tmp_path, environ):
    """What a release reads and writes of this project, on main, with one release."""
    repo = Repo(tmp_path / "clone", environ)
    for name in COPIED:
        repo.write(name, (ROOT / name).read_bytes())
    repo.commit("First", **{"CHANGELOG.md": NEWS})
    repo.git("tag", "v0.1.0")
    return repo


def test_a_release_is_a_tagged_commit_and_one_more_that_pins_it(clone):
    changelogs = []
    release.release(
        clone.path,
        "0.2.0",
        "2026-11-27",
        lambda tree: changelogs.append((tree / "CHANGELOG.md").read_text()),
    )
    assert clone.git("log", "--format=%s", "v0.1.0..main") == "examples: pin v0.2.0\nrelease: 0.2.0"
    tagged = clone.git("rev-parse", "v0.2.0^{commit}")
    assert tagged == clone.git("rev-parse", "main~1")
    assert changelogs == [
        NEWS.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 (2026-11-27)\n")
    ]
    assert '__version__ = "0.2.0"' in clone.git("show", "v0.2.0:vibe_gate/version.py")
    assert '"version": "0.2.0"' in clone.git("show", f"v0.2.0:{COPIED[6]}")
    assert " vibe-gate==0.2.0 " in clone.git("show", f"v0.2.0:{COPIED[7]}")
    distribution = tomllib.loads(clone.git("show", f"v0.2.0:{COPIED[8]}"))["project"]
    assert (distribution["version"], distribution["dependencies"][0]) == (
        "0.2.0",
        "vibe-gate-core==0.2.0",
    )
    extras = distribution["optional-dependencies"]
    assert extras["store"] == ["vibe-gate-core[store]==0.2.0"]
    assert "'vibe-gate-core[store]==0.2.0'" in clone.git("show", f"v0.2.0:{COPIED[9]}")
    versions = re.compile(
        r"(?:vibe-gate\n\s+rev: v|\bvibe-gate==|vibe-gate/vibe-gate@\w+ # v)([\d.]+)"
    )
    pages = [(clone.path / name).read_text() for name in (*COPIED[1:2], *COPIED[3:6])]
    assert [versions.findall(page) for page in pages] == [
        ["0.2.0"] * 2,
        ["0.2.0"],
        ["0.2.0"],
        ["0.2.0"],
    ]
    for name in ("README.md", "examples/workflows/simple.yml"):
        assert f"vibe-gate/vibe-gate@{tagged} # v0.2.0" in (clone.path / name).read_text()
    assert clone.git("status", "--porcelain") == ""


def test_a_release_that_cannot_be_is_refused_with_what_to_do(clone):
    def refusal(version: str) -> str:
        with pytest.raises(release.Refused) as refused:
            release.refuse(clone.path, version)
        return str(refused.value)

    assert refusal("1.0") == "'1.0' is not a version of the form X.Y.Z."
    assert "take it back: git reset --keep v0.1.0~1 && git tag -d v0.1.0\n" in refusal("0.1.0")
    assert refusal("0.0.9") == "0.0.9 is not greater than 0.1.0, the newest release."
    clone.write("new.py", "")
    assert refusal("0.2.0").endswith("Commit or stash them first:\n?? new.py")
    clone.commit("Emptied", **{"CHANGELOG.md": NEWS.replace("- New: a thing.\n\n", "")})
    assert (
        refusal("0.2.0")
        == "CHANGELOG.md has nothing under '## Unreleased'. Write what changes for users."
    )
    clone.git("switch", "-qc", "topic")
    assert refusal("0.2.0") == "The current branch is topic. Switch to main."


def test_a_release_whose_check_fails_leaves_nothing_and_the_next_one_goes_through(clone):
    def fails(tree: Path) -> None:
        raise release.Refused("The package failed its check")

    before = clone.git("for-each-ref")
    with pytest.raises(release.Refused):
        release.release(clone.path, "0.2.0", "2026-11-27", fails)
    assert (clone.git("for-each-ref"), clone.git("status", "--porcelain")) == (before, "")
    assert clone.git("worktree", "list").count("\n") == 0
    old_tree = clone.path / ".nox" / "release-tree"  # of a run that was killed
    clone.git("worktree", "add", "-q", "--detach", str(old_tree))
    release.release(clone.path, "0.2.0", "2026-11-27", lambda tree: None)
    assert not old_tree.exists()


def test_the_index_gets_a_readme_whose_links_lead_somewhere():
    text = load("hatch_build.py").for_index((ROOT / "README.md").read_text(), "v9.9.9")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert targets
    assert all(target.startswith("https://") for target in targets)
    assert "uses: vibe-gate/vibe-gate@v9.9.9\n" in text
    paths = [
        target.partition("/v9.9.9/")[2].partition("#")[0]
        for target in targets
        if "/v9.9.9/" in target
    ]
    assert [path for path in paths if not (ROOT / path).exists()] == []
