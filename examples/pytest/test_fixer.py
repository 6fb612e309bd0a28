"""One agent: what it changes, which tools it uses, what it costs."""

import pytest

from vibe_gate import expect

TASK = "src/ledger.py: load fails if the file is not there. Make it return an empty list."


async def test_the_fixer_changes_the_source_alone(vibe, vibe_repo):
    result = await vibe.run("fixer", TASK)
    assert result.files.changed("src/ledger.py")
    expect(result).to_modify_only("src/**")
    expect(result).to_use_only_tools("Read", "Grep", "Glob", "Edit")
    expect(result).to_stay_under_cost(0.10)
    assert vibe_repo.git("status", "--porcelain") == ""  # agents work in a clone


@pytest.mark.vibe(repeat=3, pass_rate=0.6, max_usd=0.30)
def test_the_fixer_reads_before_it_writes(vibe, vibe_repo):
    vibe.sync.run("fixer", TASK)
    names = [call.name for call in vibe.tools.all()]
    assert names.index("Read") < names.index("Edit")
