"""What every test stands on: an environment and a home of its own, and loopback only."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
from collections.abc import Iterator

import pytest
import sdk_alone
import watch
from clean_environ import clean_environ
from hypothesis import HealthCheck, settings
from missing_tools import pytest_sessionfinish, pytest_terminal_summary  # noqa: F401 - hooks of pytest

# Containers set PYTHONDONTWRITEBYTECODE. Then each worker of each run rewrites the asserts of all
# test modules, which takes twice as long as the rest of collecting.
sys.dont_write_bytecode = False

# The same examples in every run, however slow the machine: a red run is about the change. For
# others than these: `pytest --hypothesis-profile=default`.
settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("same")

_HOMES = itertools.count()


def pytest_configure() -> None:
    """Hear Ctrl-C, and leave garbage until all tests are collected: little of them is.

    What a shell started in the background ignores Ctrl-C, and so would all that the tests start.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What thousands of collected tests are made of stays, and is not looked through whenever
    garbage is collected.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of faults/ is slow: it kills, waits or fills disks."""
    for item in items:
        if "faults" in item.path.parts:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def environ(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The environment of this test; os.environ is the same, so that nothing leaks in sideways."""
    # Not mktemp, which lists every folder made so far to number one more: with thousands of tests
    # that is seconds.
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_HOMES))
    home.mkdir(parents=True)
    (home / ".gitconfig").write_text(
        "[init]\n\tdefaultBranch = main\n[maintenance]\n\tauto = false\n"
    )
    values = clean_environ(home)
    for name in list(os.environ):
        if name not in values:
            monkeypatch.delenv(name)
    for name, value in values.items():
        if os.environ.get(name) != value:  # few differ, and thousands of tests set them
            monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def quick_agents(environ: dict[str, str]) -> Iterator[None]:
    """Agents whose program is `quick_cli.py`: what they are asked, and what becomes of it, is the
    subject.
    """
    environ["PATH"] = f"{sdk_alone.QUICK}:{environ['PATH']}"
    yield
    refused = sdk_alone.refused()
    assert not refused, f"quick_cli.py is not made for this, take `real_cli`: {refused}"


@pytest.fixture
def real_cli(quick_agents: None, environ: dict[str, str]) -> None:
    """The CLI itself, in a module whose agents are quick."""
    environ["PATH"] = environ["PATH"].removeprefix(f"{sdk_alone.QUICK}:")


@pytest.fixture(autouse=True)
def no_way_out() -> Iterator[None]:
    """Writing to the home directory of whoever runs the tests, and any connection that is not
    loopback, is an error.
    """
    watch.acts.clear()
    watch.watched.set()
    yield
    watch.watched.clear()
    assert not watch.acts, f"a test tried to {', '.join(watch.acts)}"
