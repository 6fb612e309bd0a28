"""The built-in rubric `asked`: off until gate.toml names it, and replaced by a file of that
name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_gate.domain.rubric import Rubric
from vibe_gate.errors import UsageError
from vibe_gate.gate.chosen import rubric_named
from vibe_gate.gate.loading import offered_rubric
from vibe_gate.gate.trusted import own_gate

GATE = 'schema = 1\nrubrics = ["asked"]\n'
OWN = """\
schema = 1
id = "asked"
[[criterion]]
id = "clear"
kind = "judge"
question = "Is it clear?"
"""


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / ".vibe-gate" / {"gate": "gate.toml", "asked": "rubrics/asked.toml"}[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_gate_has_it_if_it_names_it_and_its_own_file_goes_first(tmp_path: Path) -> None:
    assert "asked" not in {rubric.id for rubric in own_gate(tmp_path).rubrics}
    assert rubric_named(own_gate(tmp_path), "asked") is offered_rubric("asked"), (
        "--rubric asked tries it anywhere"
    )
    write(tmp_path, gate=GATE)
    gate = own_gate(tmp_path)
    assert gate.rubrics == (offered_rubric("asked"),)
    assert "built-in/rubrics/asked.toml" in dict(gate.digests), (
        "another version of it is another definition"
    )
    write(tmp_path, asked=OWN)
    gate = own_gate(tmp_path)
    assert [criterion.id for criterion in gate.rubrics[0].criterion] == ["clear"]
    assert rubric_named(gate, "asked") is gate.rubrics[0]
    with pytest.raises(UsageError, match="did you mean 'asked'"):
        rubric_named(gate, "aksed")


def test_its_questions_are_asked_with_the_prompt_alone_and_other_criteria_stay() -> None:
    rubric = offered_rubric("asked")
    assert {criterion.needs for criterion in rubric.criterion} == {"prompt"}
    assert [criterion.id for criterion in rubric.criterion if criterion.must] == [
        "asked-for",
        "nothing-weakened",
    ]
    assert rubric.knowing(("message",)).criterion == ()
    assert rubric.knowing(("prompt",)) is rubric
    assert isinstance(rubric, Rubric)
