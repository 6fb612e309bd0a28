"""Judges: a rubric of the project, and an answer in a form of our own."""

from typing import Literal

from pydantic import BaseModel

TASK = "src/ledger.py: load fails if the file is not there. Make it return an empty list."


class Assessment(BaseModel):
    passed: bool
    risk: Literal["low", "medium", "high"]
    why: str


async def test_the_repair_meets_the_rubric(vibe, vibe_repo):
    result = await vibe.run("fixer", TASK)
    await vibe.expect(result).to_pass_rubric("errors")


async def test_the_repair_is_no_risk(vibe, vibe_repo):
    result = await vibe.run("fixer", TASK)
    found = await vibe.judge(
        result, instructions="Could a caller be surprised by this change?", answer=Assessment
    )
    assert found.risk != "high", found.why
