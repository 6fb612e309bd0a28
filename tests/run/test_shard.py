"""Parts of a list of tasks, for machines that know nothing of each other."""

from __future__ import annotations

import pytest
from answers import passes
from command import vibe_gate
from repos import GOOD, RUBRIC, gated
from wire import answering

from vibe_gate.errors import UsageError
from vibe_gate.run.shard import WHOLE, Shard, shard_of


def test_parts_are_the_whole_without_overlap_about_equal_and_known_on_every_machine():
    names = [f"{number:040x}" for number in range(4000)]
    parts = [[name for name in names if Shard(number, 8).has(name)] for number in range(1, 9)]
    assert sorted(name for part in parts for name in part) == names
    assert max(map(len, parts)) < 1.2 * min(map(len, parts))
    first = [number for number in range(16) if Shard(1, 2).has(names[number])]
    assert first == [1, 3, 7, 8, 10, 11, 14], "by sha-256, for ever"
    assert all(WHOLE.has(name) for name in names)


@pytest.mark.parametrize(
    "text", ["", "3", "0/8", "9/8", "1/0", "-1/8", "1/8/9", " 1/8", "1/100000", "١/٨"]
)
def test_what_is_no_part_is_a_mistake_in_the_command_line(text: str):
    with pytest.raises(UsageError, match="1/8 to 8/8"):
        shard_of(text)


@pytest.mark.slow  # reviews
@pytest.mark.usefixtures("quick_agents")
def test_a_part_of_the_cases_is_run_alone_and_writes_no_baseline(tmp_path, environ):
    repo = gated(
        tmp_path / "repo", environ, rubric=RUBRIC.partition('[[criterion]]\nid = "names')[0]
    )
    case_text = 'schema = 1\nrubric = "quality"\n[expect]\nerrors-not-swallowed = "pass"\n'
    names = ["one", "three", "two"]
    for name in names:
        repo.write(f".vibe-gate/cases/{name}/case.toml", case_text)
        repo.write(f".vibe-gate/cases/{name}/before/load.py", GOOD)
        repo.write(f".vibe-gate/cases/{name}/after/load.py", GOOD.replace("path", name))
    parts = {
        f"{number}/8": [name for name in names if Shard(number, 8).has(name)]
        for number in range(1, 9)
    }
    empty, part = (next(part for part in parts if len(parts[part]) == cases) for cases in (0, 1))

    with answering(passes("errors-not-swallowed")) as model:
        measured = vibe_gate(
            "calibrate", "--shard", part, cwd=repo.path, environ=repo.environ | model.environ
        )
    assert (measured.code, len(model.script.requests)) == (0, 1), measured.err
    assert f"Part {part} of the cases: no baseline was written." in measured.out
    assert not (repo.path / ".vibe-gate/baseline").exists()
    for shard in (part, empty):
        tested = vibe_gate("test", "--shard", shard, "--json", cwd=repo.path, environ=repo.environ)
        assert [case["name"] for case in tested.json["cases"]] == parts[shard], tested.err
