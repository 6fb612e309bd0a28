"""A matrix of models: parameters are pytest's own, and the table at the end compares the models."""

import pytest

from vibe_gate import expect


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-sonnet-5"])
@pytest.mark.vibe(timeout_s=120)
async def test_an_empty_ledger_is_a_list(vibe, vibe_repo, model):
    result = await vibe.run(
        "fixer", "src/ledger.py: load fails on an empty file. Return [] then.", model=model
    )
    (file,) = result.files.changed()
    expect(result).to_have_used_tool("Edit", max=3)
    assert "[]" in file.after.text()
