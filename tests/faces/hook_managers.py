"""Programs that manage git hooks, each for real: how a repository uses it, and what `install git`
says to add.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hooked import BIN, Hooked, ProgramResult, local_config

PROGRAMS = {
    "pre-commit": str(BIN / "pre-commit"),
    "prek": str(BIN / "prek"),
    "husky": shutil.which("husky"),
    "lefthook": shutil.which("lefthook"),
    "simple-git-hooks": shutil.which("simple-git-hooks"),
}
"""Where each program is, if it is here."""

TYPES = "-t pre-commit -t pre-merge-commit -t commit-msg -t pre-push -t post-commit -t post-rewrite"


@dataclass(frozen=True)
class Manager:
    """How a repository uses one of the programs."""

    name: str
    settings: str
    """The file that says what its hooks run."""
    begin: Callable[[Hooked], None]
    """Write settings without vibe-gate, and install the hooks."""
    obey: Callable[[Hooked, str], None]
    """Do what `install git` printed."""
    reinstall: tuple[str, ...]
    """What `npm install` or a person runs again."""

    @property
    def is_plain(self) -> bool:
        """Whether its settings name the `vibe-gate` of PATH; pre-commit and prek install the
        program themselves.
        """
        return self.name not in ("pre-commit", "prek")


def run_manager(repository: Hooked, *words: str) -> ProgramResult:
    """Run one of the programs; the test is skipped if it is not here."""
    name, *arguments = words
    program = PROGRAMS[name]
    if program is None or not Path(program).exists():
        pytest.skip(f"{name} is not installed here (npm and the extra `test` bring it)")
    result = repository.run(program, *arguments)
    assert result.code == 0, result.text
    return result


def _begin_pre_commit(name: str) -> Callable[[Hooked], None]:
    def begin(repository: Hooked) -> None:
        repository.write(**{"__pre-commit-config__yaml": "repos: []\n"})
        run_manager(repository, name, "install")

    return begin


def _obey_pre_commit(name: str) -> Callable[[Hooked, str], None]:
    def obey(repository: Hooked, advice: str) -> None:
        assert "id: vibe-gate-record" in advice
        assert f"  {name} install {TYPES}" in advice
        # The same hooks without the network.
        repository.write(**{"__pre-commit-config__yaml": local_config()})
        repository.git("add", "-A")
        run_manager(repository, name, "install", *TYPES.split())

    return obey


def _begin_husky(repository: Hooked) -> None:
    repository.write(package__json="{}\n")
    run_manager(repository, "husky", "init")
    (repository.path / ".husky" / "pre-commit").write_text("true # npm test\n")


def _obey_husky(repository: Hooked, advice: str) -> None:
    loop = advice.partition("commit .husky:\n")[2]
    result = repository.run("sh", "-c", loop)
    assert (result.code, result.text) == (0, "")


_OWN_COMMAND = "pre-commit:\n  commands:\n    own: {run: echo mine}\n"


def _begin_lefthook(repository: Hooked) -> None:
    repository.write(lefthook__yml=_OWN_COMMAND)
    run_manager(repository, "lefthook", "install")


def _obey_lefthook(repository: Hooked, advice: str) -> None:
    lines = advice.partition("run `lefthook install`:\n")[2]
    merged = lines.replace("pre-commit:\n  commands:\n", _OWN_COMMAND, 1)
    repository.write(lefthook__yml=merged)
    run_manager(repository, "lefthook", "install")


def _begin_simple(repository: Hooked) -> None:
    repository.write(package__json=json.dumps({"simple-git-hooks": {"pre-commit": "true"}}))
    run_manager(repository, "simple-git-hooks")


def _obey_simple(repository: Hooked, advice: str) -> None:
    block = advice.partition("run `npx simple-git-hooks`:\n")[2]
    file = repository.path / "package.json"
    document = json.loads(file.read_text())
    added = json.loads("{" + block + "}")["simple-git-hooks"]
    command = document["simple-git-hooks"].get("pre-commit")
    added["pre-commit"] = f"{command} && {added['pre-commit']}"
    document["simple-git-hooks"] = added
    file.write_text(json.dumps(document))
    run_manager(repository, "simple-git-hooks")


_PRE_COMMIT_SETTINGS = ".pre-commit-config.yaml"

MANAGERS = (
    Manager(
        "pre-commit",
        _PRE_COMMIT_SETTINGS,
        _begin_pre_commit("pre-commit"),
        _obey_pre_commit("pre-commit"),
        ("pre-commit", "install", *TYPES.split()),
    ),
    Manager(
        "prek",
        _PRE_COMMIT_SETTINGS,
        _begin_pre_commit("prek"),
        _obey_pre_commit("prek"),
        ("prek", "install", *TYPES.split()),
    ),
    Manager("husky", ".husky/pre-commit", _begin_husky, _obey_husky, ("husky",)),
    Manager(
        "lefthook", "lefthook.yml", _begin_lefthook, _obey_lefthook, ("lefthook", "install", "-f")
    ),
    Manager("simple-git-hooks", "package.json", _begin_simple, _obey_simple, ("simple-git-hooks",)),
)
