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
from vibe_gate.git.repository_place import RepositoryPlace

_SETTINGS = re.compile(
    r"vibe-gate\.trust|branch\..+\.(?:remote|merge)|remote\..+\.(?:fetch|url)", re.DOTALL
)
_PASSWORD = re.compile(r"(?<=://)[^/@]*@")
_HEAD = "refs/vibe-gate/head"
_FILES = "refs/vibe-gate/files"
_AUTHOR = {
    "GIT_AUTHOR_NAME": "vibe-gate",
    "GIT_AUTHOR_EMAIL": "vibe-gate@localhost",
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_NAME": "vibe-gate",
    "GIT_COMMITTER_EMAIL": "vibe-gate@localhost",
    "GIT_COMMITTER_DATE": "@0 +0000",
}
"""Of the commit that holds the working tree's files."""


class RepositoryCopy(Struct, frozen=True):
    """A repository as it is sent to another machine."""

    bundle: bytes
    """All refs with their history, as a git bundle."""

    links: tuple[tuple[str, str], ...]
    """The symbolic refs, HEAD among them unless detached, each with its target."""

    settings: tuple[tuple[str, str], ...]
    """Names and values."""

    has_files: bool
    """Whether it has the working tree's files, too."""

    def write(self, folder: Path, environment: Environment) -> None:
        """Make it a repository in the empty folder; without its files nothing is checked out.
        InfrastructureError.
        """
        git = Program(folder, environment.variables).elsewhere(folder)
        bundle = folder / "bundle"
        bundle.write_bytes(self.bundle)
        _check(git.run("init", "--quiet"))
        fetch = ("fetch", "--quiet", "--no-tags", "--update-head-ok")
        _check(git.run(*fetch, str(bundle), "+refs/*:refs/*"))
        bundle.unlink()
        head = git.run("rev-parse", "--quiet", "--verify", _HEAD)
        if not head.code:
            _check(git.run("update-ref", "--no-deref", "HEAD", head.line))
        for name, target in self.links:
            _check(git.run("symbolic-ref", name, target))
        for name, value in self.settings:
            _check(git.run("config", "--local", "--add", name, value))
        if self.has_files:
            _check(git.run("read-tree", "--reset", "-u", _FILES))
        for name in (_HEAD, _FILES):
            git.run("update-ref", "-d", name)


def copy_repository(place: RepositoryPlace, objects: Objects, tree: str) -> RepositoryCopy:
    """The repository as it is sent, with the files of `tree` if not "". UsageError: a shallow or
    empty clone.
    """
    if place.shallow:
        raise UsageError(
            "This clone is shallow, and workers need its history: run `git fetch --unshallow`."
        )
    refs, links = _read_refs(place)
    if tree:
        commit = _check(objects.bare.run("commit-tree", "-m", "files", tree, variables=_AUTHOR))
        refs.append((commit.line, _FILES))
    if not refs:
        raise UsageError("There are no commits here yet.")
    return RepositoryCopy(
        bundle=_make_bundle(objects, refs),
        links=tuple(links),
        settings=tuple(_settings_to_send(place)),
        has_files=bool(tree),
    )


def _read_refs(place: RepositoryPlace) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The refs as (object id, name), and the symbolic ones as (name, target); with HEAD."""
    refs: list[tuple[str, str]] = []
    links: list[tuple[str, str]] = []
    listing = place.git.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)").line
    for line in listing.split("\n"):
        if not line:
            continue
        object_id, ref, target = line.split(" ")
        if target:
            links.append((ref, target))
        else:
            refs.append((object_id, ref))
    head = place.git.run("symbolic-ref", "--quiet", "HEAD")
    if head.code:
        refs.append((place.git.run("rev-parse", "--verify", "HEAD").line, _HEAD))
    else:
        links.append(("HEAD", head.line))
    return refs, links


def _settings_to_send(place: RepositoryPlace) -> list[tuple[str, str]]:
    """The settings that decide which revision is trusted, without passwords."""
    settings = []
    for setting in place.settings.lines:
        if setting.value and _SETTINGS.fullmatch(setting.name):
            settings.append((setting.name, _PASSWORD.sub("", setting.value)))
    return settings


def _make_bundle(objects: Objects, refs: list[tuple[str, str]]) -> bytes:
    """A git bundle of these refs, made beside the repository: its own refs stay as they are."""
    folder = objects.folder / "repository-copy"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    packed_refs = ""
    for object_id, ref in sorted(refs, key=lambda pair: pair[1]):
        packed_refs += f"{object_id} {ref}\n"
    (folder / "packed-refs").write_bytes(packed_refs.encode("utf-8", "surrogateescape"))
    variables = {"GIT_DIR": str(folder)}
    answer = objects.bare.run("bundle", "create", "--quiet", "-", "--all", variables=variables)
    return _check(answer).out


def _check(answer: Finished) -> Finished:
    """What git answered. InfrastructureError: it could not do it."""
    if answer.code:
        raise InfrastructureError(
            f"git could not copy the repository: {paths.quote(answer.complaint)}."
        )
    return answer
