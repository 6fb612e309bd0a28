"""A repository on its way to another machine: a git bundle, and what a bundle leaves out.

Where HEAD points, where the remotes' HEADs point, and the settings that decide which revision is
trusted go with it, so that a commit is judged there by the same gate. No other setting does, and no
password in a URL.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.environment import Environment
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.git.object_store import Objects
from vibe_gate.git.program import Finished, Program
from vibe_gate.git.repository_place import Place

_SETTINGS = re.compile(
    r"vibe-gate\.trust|branch\..+\.(?:remote|merge)|remote\..+\.(?:fetch|url)", re.DOTALL
)
_PASSWORD = re.compile(r"(?<=://)[^/@]*@")
_HEAD, _FILES = "refs/vibe-gate/head", "refs/vibe-gate/files"
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (
        ("NAME", "vibe-gate"),
        ("EMAIL", "vibe-gate@localhost"),
        ("DATE", "@0 +0000"),
    )
}


class RepositoryCopy(Struct, frozen=True):
    """All refs with their history as a git bundle; `links` are the symbolic ones, HEAD among them
    unless detached.

    `has_files`: it has the working tree's files, too.
    """

    bundle: bytes
    links: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    has_files: bool

    def write(self, folder: Path, environment: Environment) -> None:
        """Make it a repository in the empty folder; without its files nothing is checked out.
        InfrastructureError.
        """
        git = Program(folder, environment.variables).elsewhere(folder)
        bundle = folder / "bundle"
        bundle.write_bytes(self.bundle)
        _done(git.run("init", "--quiet"))
        _done(
            git.run(
                "fetch", "--quiet", "--no-tags", "--update-head-ok", str(bundle), "+refs/*:refs/*"
            )
        )
        bundle.unlink()
        head = git.run("rev-parse", "--quiet", "--verify", _HEAD)
        if not head.code:
            _done(git.run("update-ref", "--no-deref", "HEAD", head.line))
        for name, target in self.links:
            _done(git.run("symbolic-ref", name, target))
        for name, value in self.settings:
            _done(git.run("config", "--local", "--add", name, value))
        if self.has_files:
            _done(git.run("read-tree", "--reset", "-u", _FILES))
        for name in (_HEAD, _FILES):
            git.run("update-ref", "-d", name)


def copied(place: Place, objects: Objects, tree: str) -> RepositoryCopy:
    """The repository as it travels, with the files of `tree` if not "". UsageError: a shallow or
    empty clone.
    """
    if place.shallow:
        raise UsageError(
            "This clone is shallow, and workers need its history: run `git fetch --unshallow`."
        )
    listed = place.git.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)")
    refs = [line.split(" ") for line in listed.line.split("\n") if line]
    plain, links = (
        [(name, ref) for name, ref, link in refs if not link],
        [(ref, link) for _, ref, link in refs if link],
    )
    head = place.git.run("symbolic-ref", "--quiet", "HEAD")
    if head.code:
        plain.append((place.git.run("rev-parse", "--verify", "HEAD").line, _HEAD))
    else:
        links.append(("HEAD", head.line))
    if tree:
        plain.append(
            (
                _done(objects.bare.run("commit-tree", "-m", "files", tree, variables=_AUTHOR)).line,
                _FILES,
            )
        )
    if not plain:
        raise UsageError("There are no commits here yet.")
    settings = [
        (one.name, _PASSWORD.sub("", one.value)) for one in place.settings.lines if one.value
    ]
    kept = tuple(pair for pair in settings if _SETTINGS.fullmatch(pair[0]))
    return RepositoryCopy(_bundle(objects, plain), tuple(links), kept, bool(tree))


def _bundle(objects: Objects, refs: list[tuple[str, str]]) -> bytes:
    """A git bundle of these refs, made beside the repository: its own refs stay as they are."""
    folder = objects.folder / "shipping"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    text = "".join(f"{name} {ref}\n" for name, ref in sorted(refs, key=lambda pair: pair[1]))
    (folder / "packed-refs").write_bytes(text.encode("utf-8", "surrogateescape"))
    return _done(
        objects.bare.run(
            "bundle", "create", "--quiet", "-", "--all", variables={"GIT_DIR": str(folder)}
        )
    ).out


def _done(ended: Finished) -> Finished:
    if ended.code:
        raise InfrastructureError(f"git could not copy the repository: {paths.quote(ended.said)}.")
    return ended
