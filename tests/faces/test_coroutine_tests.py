"""Coroutines that use the fixture `vibe` are run whatever plugin for async tests is installed, and
once."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import asyncio

import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def note(name):
    await asyncio.sleep(0)
    with open("ran.txt", "a") as file:
        file.write(f"{name} {asyncio.current_task() is not None}\\n")


async def test_bare(vibe):
    await note("bare")


@pytest.mark.asyncio
async def test_marked(vibe):
    await note("marked")


@pytest.mark.anyio
async def test_anyio(vibe):
    await note("anyio")


class TestGroup:
    async def test_method(self, vibe, tmp_path):
        await note("method")


async def test_failing(vibe):
    await note("failing")
    assert 1 == 2
"""

PLUGINS = {
    "none": ["-p", "no:asyncio", "-p", "no:anyio"],
    "asyncio strict": ["-p", "no:anyio", "--asyncio-mode=strict"],
    "asyncio auto": ["-p", "no:anyio", "--asyncio-mode=auto"],
    "anyio": ["-p", "no:asyncio"],
    "all strict": ["--asyncio-mode=strict"],
}


@pytest.mark.parametrize("arguments", PLUGINS.values(), ids=PLUGINS)
def test_a_coroutine_runs_once_with_each_plugin_for_async_tests(pytester, arguments):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_inprocess(
        "-W", "ignore::pytest.PytestUnknownMarkWarning", *arguments
    )
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["E*assert 1 == 2"])
    notes = sorted((pytester.path / "ran.txt").read_text().splitlines())
    names = ["anyio", "bare", "failing", "marked", "method"]
    assert notes == [f"{name} True" for name in names]


def test_a_coroutine_without_the_fixture_is_left_to_others(pytester):
    pytester.makepyfile("async def test_other(): ...")
    result = pytester.runpytest_inprocess("-p", "no:anyio", "--asyncio-mode=strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])
