"""Asking side by side."""

from __future__ import annotations

import asyncio

import pytest

from vibe_gate.errors import StorageError
from vibe_gate.judging.votes import together


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def fail() -> int:
    raise StorageError("the disk is full")


def test_results_come_in_the_order_of_the_questions():
    assert asyncio.run(together(answer(value) for value in (3, 1, 2))) == [3, 1, 2]


def test_the_first_error_is_raised_itself():
    async def asked() -> list[list[int]]:
        return await together([together([answer(1), fail()]), together([answer(2)])])

    with pytest.raises(StorageError, match="the disk is full"):
        asyncio.run(asked())
