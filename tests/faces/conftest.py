"""Fixtures of the faces' tests: the environment that the Action installs, built once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from acting import environment


@pytest.fixture(scope="session")
def ambient() -> dict[str, str]:
    """The environment before a test's own hides it: where pip finds packages on this machine."""
    return dict(os.environ)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, ambient: dict[str, str]) -> Path:
    """The Action's environment, installed from the lock once for all workers: `wheels`, `venv`, and what was `said`."""
    own = tmp_path_factory.getbasetemp()
    return environment(own.parent if "PYTEST_XDIST_WORKER" in ambient else own, ambient)
