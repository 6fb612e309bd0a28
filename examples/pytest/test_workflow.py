"""A workflow of the project: its stages, its verdict."""


def test_fix_and_check_passes(vibe, vibe_repo):
    result = vibe.sync.workflow("fix-and-check")
    assert result.summary.outcome == "pass"
    assert [rubric.id for rubric in result.summary.rubrics] == ["errors"]
    assert vibe.files.changed("src/**")
