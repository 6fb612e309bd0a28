"""Do this project's CLAUDE.md, commands, skills and subagents do what they are for?"""

from vibe_gate import expect


def test_fix_repairs_the_file_and_adds_a_line_to_the_changelog(vibe, vibe_repo):
    result = vibe.sync.run("claude", "/fix src/ledger.py: load fails if the file is not there.")
    expect(result).to_modify_only("src/ledger.py", "CHANGELOG.md")
    assert result.files.changed("CHANGELOG.md"), "CLAUDE.md asks for a line"
    expect(result).to_have_used_tool("Skill")


def test_review_asks_the_reviewer_and_changes_nothing(vibe, vibe_repo):
    result = vibe.sync.run("claude", "/review src/ledger.py")
    expect(result).to_have_used_tool("Agent")
    expect(result).to_have_used_tool("Read")  # the reviewer's own call
    assert not result.files.changed()
