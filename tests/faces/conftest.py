"""Fixtures of the faces' tests, what takes long made once: the Action's environment, repositories
with hooks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from acting import environment
from command import CommandResult, vibe_gate
from contract.github import LoopbackGitHub, loopback_github
from faces.jobs import Project, make_project
from forked import import_program
from hooked import Hooked, add_judged_gate, copy_template, install_gate
from program import repository


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what commits with a judge, or through a hook framework: each test takes
    seconds.
    """
    for item in items:
        if {"judging", "pushing"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def ambient() -> dict[str, str]:
    """The environment before a test's own hides it: where pip finds packages on this machine. No
    model's address.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "CLAUDE_"))
    }


@pytest.fixture(scope="session")
def imported_program() -> None:
    """All of the program: a pytest in process would forget what it imports, and have classes twice."""
    import_program()


@pytest.fixture
def pytester(
    pytester: pytest.Pytester, imported_program: None, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """Without the plugin of hypothesis, which is a fifth of what each pytest that is started costs."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
    return pytester


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, ambient: dict[str, str]) -> Path:
    """The Action's environments by name, made once for all workers: `wheels`, `venv`, and what was
    `said`.
    """
    base = tmp_path_factory.getbasetemp()
    return environment(base.parent if "PYTEST_XDIST_WORKER" in ambient else base, ambient)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    return repository(tmp_path / "r")


@pytest.fixture
def bundles(environ: dict[str, str]) -> Callable[..., CommandResult]:
    """Runs `vibe-gate bundles ...` in a folder."""
    return lambda cwd, *argv, **variables: vibe_gate(
        "bundles", *argv, cwd=cwd, environ={**environ, **variables}
    )


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the repositories that tests copy."""
    return tmp_path_factory.mktemp("templates")


@pytest.fixture
def plain(templates: Path, tmp_path: Path, environ: dict[str, str]) -> Hooked:
    """A repository with the built-in gate at its commits."""
    return copy_template(
        templates / "plain",
        tmp_path / "repository",
        environ,
        lambda repository: install_gate(repository, "install git"),
    )


@pytest.fixture
def judging(templates: Path, tmp_path: Path, environ: dict[str, str]) -> Hooked:
    """A repository with a gate whose only criterion is a judge's."""
    template = templates / "judging"
    return copy_template(
        template,
        tmp_path / "repository",
        environ,
        lambda repository: install_gate(add_judged_gate(repository), "install git"),
    )


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """A GitHub without pull requests."""
    with loopback_github() as started:
        yield started


@pytest.fixture
def project(tmp_path: Path, environ: dict[str, str], github: LoopbackGitHub) -> Project:
    """A project whose gate needs no model, and its origin at that GitHub."""
    return make_project(tmp_path, environ, github)
