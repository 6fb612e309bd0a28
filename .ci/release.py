"""Make a release in this clone: `nox -s release -- X.Y.Z` (docs/releasing.md). Nothing leaves the
clone.

Everything is made in a worktree of its own, below .nox, and checked there; the tag and `main` come
last. A run that fails or is killed before that leaves nothing to undo.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

UNRELEASED = "## Unreleased\n"
PACKAGE, CHANGELOG = "vibe_gate/version.py", "CHANGELOG.md"
PLUGIN = ".claude-plugin/vibe-gate/.claude-plugin/plugin.json"
PLUGIN_HOOK = ".claude-plugin/vibe-gate/hooks/run.sh"
DISTRIBUTION = "distributions/vibe-gate/pyproject.toml"
_NAMED = re.compile(r"(\bvibe-gate(?:-core)?(?:\[\w+\])?==|/vibe-gate\b.*\n\s*rev: v)\d+\.\d+\.\d+")
_PINNED = re.compile(r"(\bvibe-gate/vibe-gate@)[0-9a-f]{40} # v\S+")


class Refused(Exception):
    """Why there is no release, with what to do."""


def main() -> int:
    """Release the version that the command line names."""
    root = Path(__file__).resolve().parents[1]
    try:
        if len(sys.argv) != 2:
            raise Refused("Give one version: nox -s release -- X.Y.Z")
        release(
            root,
            sys.argv[1],
            f"{datetime.now(UTC):%Y-%m-%d}",
            lambda tree: _build(tree, root / "dist"),
        )
    except Refused as refused:
        print(f"release: {refused}", file=sys.stderr)
        return 1
    print(f"Made v{sys.argv[1]}; dist/ has what was checked. Look at it, then publish it:")
    print(f"  git show v{sys.argv[1]} main\n  git push --atomic origin main v{sys.argv[1]}")
    return 0


def release(root: Path, version: str, today: str, build: Callable[[Path], None]) -> None:
    """Commit and tag a version, then pin the tag's commit in the examples. `build` checks the tree
    that is tagged.
    """
    refuse(root, version)
    tree = root / ".nox" / "release-tree"
    _remove(root, tree)  # of a run that was killed
    _git(root, "worktree", "add", "--quiet", "--detach", str(tree))
    try:
        write_version(tree, version, today)
        tagged = _commit(tree, f"release: {version}")
        build(tree)
        _rewrite(tree, _PINNED, rf"\g<1>{tagged} # v{version}")
        pinned = _commit(tree, f"examples: pin v{version}")
    finally:
        _remove(root, tree)
    _git(root, "tag", "--annotate", "--message", f"vibe-gate {version}", f"v{version}", tagged)
    try:
        _git(root, "merge", "--quiet", "--ff-only", pinned)
    except Refused:
        _git(root, "tag", "--delete", f"v{version}")
        raise


def refuse(root: Path, version: str) -> None:
    """Raise `Refused` unless the clone is ready for this version."""
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise Refused(f"{version!r} is not a version of the form X.Y.Z.")
    if (branch := _git(root, "branch", "--show-current")) != "main":
        raise Refused(f"The current branch is {branch or 'none'}. Switch to main.")
    if changed := _git(root, "status", "--porcelain"):
        raise Refused(f"The working tree has changes. Commit or stash them first:\n{changed}")
    released = [tag[1:] for tag in _git(root, "tag", "--list", "v*.*.*").split()]
    if version in released:
        undo = f"If it was not pushed, take it back: git reset --keep v{version}~1 && git tag -d v{version}"
        raise Refused(f"The tag v{version} exists. {undo}\nOtherwise choose a greater version.")
    newest = max(filter(re.compile(r"[\d.]+").fullmatch, released), key=_order, default="0")
    if _order(version) <= _order(newest):
        raise Refused(f"{version} is not greater than {newest}, the newest release.")
    if not unreleased((root / CHANGELOG).read_text()):
        raise Refused(
            f"{CHANGELOG} has nothing under {UNRELEASED.strip()!r}. Write what changes for users."
        )


def unreleased(changelog: str) -> str:
    """What stands below the heading of the next release."""
    return changelog.partition(UNRELEASED)[2].partition("\n## ")[0].strip()


def write_version(tree: Path, version: str, today: str) -> None:
    """Set the version in the package, the changelog, and in pages that name it for an
    installation.
    """
    package, changelog = tree / PACKAGE, tree / CHANGELOG
    package.write_text(
        re.sub(r'(?m)^(__version__ = )".*"$', rf'\1"{version}"', package.read_text())
    )
    plugin = tree / PLUGIN
    plugin.write_text(re.sub(r'(?m)^(  "version": )".*"', rf'\1"{version}"', plugin.read_text()))
    distribution = tree / DISTRIBUTION
    named = _NAMED.sub(rf"\g<1>{version}", distribution.read_text())
    distribution.write_text(re.sub(r'(?m)^(version = )".*"$', rf'\1"{version}"', named))
    hook = tree / PLUGIN_HOOK
    hook.write_text(_NAMED.sub(rf"\g<1>{version}", hook.read_text()))
    heading = f"{UNRELEASED}\n## {version} ({today})\n"
    changelog.write_text(changelog.read_text().replace(UNRELEASED, heading, 1))
    _rewrite(tree, _NAMED, rf"\g<1>{version}")


def _rewrite(tree: Path, pattern: re.Pattern[str], by: str) -> None:
    examples = (path for path in (tree / "examples").rglob("*.y*ml"))
    for page in [tree / "README.md", *(tree / "docs").rglob("*.md"), *examples]:
        page.write_text(pattern.sub(by, page.read_text()))


def _commit(tree: Path, title: str) -> str:
    _git(tree, "commit", "--quiet", "--all", "--message", title)
    return _git(tree, "rev-parse", "HEAD")


def _build(tree: Path, dist: Path) -> None:
    if subprocess.run([tree / ".ci" / "dist"], check=False).returncode:
        raise Refused(
            "The package failed its check; the lines above say why. Nothing was committed or tagged."
        )
    shutil.rmtree(dist, ignore_errors=True)
    shutil.copytree(tree / "dist", dist)


def _remove(root: Path, tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    _git(root, "worktree", "prune")


def _git(where: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=where, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Refused(
            f"`git {' '.join(arguments[:2])}` failed:\n{done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout.strip()


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    sys.exit(main())
