"""Documents: plain values for code that makes them, read by their types."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.agent import Agent
from vibe_gate.domain.document import (
    MAX_NAMES,
    Named,
    Timestamp,
    decode_document,
    first_mistake,
    holds_all,
    plain,
    read,
    schema_of,
    to_json,
    without_none,
)
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.tables import read_table
from vibe_gate.gate.loading import built_in_rubrics

pytestmark = pytest.mark.every_python


class Part(Struct, frozen=True, kw_only=True):
    """A part."""

    name: Annotated[str, Meta(max_length=5)]
    weight: float = 1.0


class Whole(Struct, frozen=True, kw_only=True):
    """A document."""

    schema: Annotated[int, Meta(ge=1, le=1, description="The format.")]
    parts: tuple[Part, ...] = ()
    usd: float | None = None
    by_name: Named[float] = {}
    until: date | None = None
    at: Timestamp | None = None
    part: Part = Part(name="own")

    def __post_init__(self) -> None:
        if self.usd == 13:
            raise ValueError("13 is unlucky")


DOCUMENT = {
    "schema": 1, "parts": [{"name": "a", "weight": 2.0}], "usd": 3.0, "by_name": {"a": 0.5}, "until": "2026-01-02",
    "at": None, "part": {"name": "own", "weight": 1.0},
}  # fmt: skip
WHOLE = Whole(
    schema=1,
    parts=(Part(name="a", weight=2.0),),
    usd=3.0,
    by_name={"a": 0.5},
    until=date(2026, 1, 2),
)


def test_what_code_makes_is_written_as_it_is_read() -> None:
    assert plain(WHOLE) == DOCUMENT
    assert read(Whole, DOCUMENT) == WHOLE
    assert decode_document(Whole, to_json(WHOLE)) == WHOLE
    assert without_none(plain(WHOLE)) == {
        name: value for name, value in DOCUMENT.items() if name != "at"
    }


def test_a_whole_number_under_a_key_for_fractions_is_read_as_one() -> None:
    assert repr(read(Whole, {"schema": 1, "usd": 3}).usd) == "3.0"


ANY_PART = st.tuples(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(ANY_PART, max_size=3))
def test_any_value_comes_back_as_it_was(parts: list[tuple[str, float]]) -> None:
    original = Whole(
        schema=1, parts=tuple(Part(name=name, weight=weight) for name, weight in parts)
    )
    assert decode_document(Whole, to_json(original)) == original


def test_times_are_written_in_utc_with_milliseconds() -> None:
    at = datetime(2026, 1, 2, 4, 4, 5, 678_901, tzinfo=timezone(timedelta(hours=1)))
    timed = read(Whole, {"schema": 1, "at": at.isoformat()})
    assert timed.at == at.astimezone(UTC)
    assert plain(timed)["at"] == "2026-01-02T03:04:05.678Z"


@pytest.mark.parametrize(
    ("document", "mistake"),
    [
        ({}, "object missing required field `schema`"),
        ({"schema": 2}, "schema: expected `int` <= 1"),
        ({"schema": 1, "usd": 1e999}, "it has a number that is not finite"),
        ({"schema": 1, "usd": 13}, "13 is unlucky"),
        (
            {"schema": 1, "parts": [{"name": "too long"}]},
            "parts[0].name: expected `str` of length <= 5",
        ),
        ({"schema": 1, "parts": [{"name": "\ud800"}]}, "it has half a surrogate pair"),
        (
            {"schema": 1, "by_name": dict.fromkeys(map(str, range(MAX_NAMES + 1)), 1.0)},
            "of length <= 100000",
        ),
        ({"schema": 1, "parts": [["a", 1]]}, "parts[0]: expected `object`, got `array`"),
        ({"schema": True}, "schema: expected `int`, got `bool`"),
        (
            {"schema": 1, "at": "2026-01-02T03:04:05"},
            "at: expected `datetime` with a timezone component",
        ),
    ],
)
def test_what_is_read_is_checked(document: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValueError) as caught:
        read(Whole, document)
    assert mistake in first_mistake(caught.value)


def test_keys_of_a_later_version_are_left_out_everywhere() -> None:
    later = DOCUMENT | {"new": 1, "part": {"name": "own", "weight": 1.0, "new": 1}}
    assert read(Whole, later) == WHOLE


def test_whether_something_was_left_out_is_known() -> None:
    assert holds_all(WHOLE, DOCUMENT)
    assert holds_all(WHOLE, {"schema": 1, "parts": [{"name": "a"}]})
    assert not holds_all(WHOLE, DOCUMENT | {"new": None})
    assert not holds_all(WHOLE, DOCUMENT | {"part": {"name": "own", "new": 1}})
    assert not holds_all(WHOLE, DOCUMENT | {"parts": [{"name": "a", "new": 1}]})


def test_text_that_is_nested_too_deeply_is_no_document() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_document(Whole, b'{"schema": 1, "new": ' + b"[" * 100_000)
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        read(Whole, {"schema": 1, "new": deep})


def test_a_schema_begins_with_the_document_and_names_what_is_in_it() -> None:
    schema = schema_of(Whole)
    assert (schema["title"], schema["required"], list(schema["$defs"])) == (
        "Whole",
        ["schema"],
        ["Part"],
    )
    assert schema["properties"]["schema"]["description"] == "The format."


@pytest.mark.parametrize(
    ("wrong", "mistake"),
    [
        (
            {"id": "Upper"},
            'id: must be lower-case letters, digits, ".", "_" and "-", at most 64, not "Upper"',
        ),
        (
            {"id": "a\n"},
            'id: must be lower-case letters, digits, ".", "_" and "-", at most 64, not "a\\n"',
        ),
        ({"tools": ["Read", "Raed"]}, 'tools[1]: "Raed" is not a tool; did you mean Read?'),
        ({"tools": "Read"}, 'tools: must be an array, not "Read"; write ["Read"]'),
        ({"model": "--model"}, 'model: "--model" is not the name of a language model'),
        ({"max_turns": 0}, "max_turns: must be at least 1, not 0"),
        ({"max_cost_usd": float("nan")}, "max_cost_usd: must be a finite number, not nan"),
        ({"isolation": "walled"}, 'isolation: must be "none", "clone" or "sandbox", not "walled"'),
    ],
)
def test_an_agent_is_checked_when_it_is_made_and_the_key_is_named(
    wrong: dict[str, Any], mistake: str
) -> None:
    with pytest.raises(ValueError) as caught:
        Agent(**{"id": "a"} | wrong)
    assert str(caught.value) == mistake


def test_an_agent_takes_lists_and_whole_numbers_and_gives_tools_for_todos() -> None:
    agent = Agent(id="a", tools=["Read", "TodoWrite"], timeout_s=5)  # type: ignore[arg-type]
    assert agent.tools == ("Read", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet")
    assert repr(agent.timeout_s) == "5.0"
    assert replace(agent, id="b").tools == agent.tools


AGENT = Agent(
    id="a", description="d", model="m", system_prompt="s", tools=("Read", "TodoWrite", "Bash"),
    disallowed_tools=("Bash(git push *)",), mcp_servers=("docs",), max_turns=7, max_cost_usd=2, timeout_s=60,
    isolation="sandbox",
)  # fmt: skip
ASKED = Criterion(
    id="q", kind="judge", must=True, weight=2.0, question="Is it?", good="yes", paths=("src/**",)
)
CHECKED = Criterion(
    id="c", kind="check", weight=1.0, check="only-paths", options={"paths": ["a"], "n": 1}
)
SMALL = """
schema = 1
id = "r"
[[criterion]]
id = "q"
kind = "judge"
question = "Is it?"
"""
LARGE = Rubric(
    schema=1, id="r", pass_threshold=1.0, votes=3, model="m", sees=("message",),
    criterion=(ASKED, CHECKED),
)  # fmt: skip
WRITTEN = """
schema = 1
id = "r"
pass_threshold = 1
[[criterion]]
id = "a"
kind = "check"
command = ["true"]
weight = 3
options = { timeout_s = 5 }
"""


@pytest.mark.parametrize(
    ("definition", "digest"),
    [
        (Agent(id="a"), "4b7a60a889bee9ae577f772389045688198cda0b6dd63cbf777758159c1dd9ca"),
        (AGENT, "18338656a9dd959daa7b6ea48c91b45ed94343fa79e56ad6dfba12400e97bfac"),
        (
            read_table(Rubric, tomllib.loads(SMALL), []),
            "771b7c7ae3dc846a1a3b3726a53ad96e5cd42a3c7f0da7211444360e85d7da44",
        ),
        (LARGE, "d2be9b2d9009367c2067c9366f056b0342776090bc0fb145d78aa408ed470890"),
        (built_in_rubrics()[0], "c98942023c7ab40035a9d3f8ec8d3ff6ea6fe7bb8ba86e46f4ac1f238a6ee581"),
        (built_in_rubrics()[1], "322e94fec63d4b168b37b2c7d8880c8bcb034647914d42f72cdb98f9d5034a04"),
        (
            read_table(Rubric, tomllib.loads(WRITTEN), []),
            "1f90787b8f3920e6c03af95552fbf222c67d02642e9048ca6f0e90d2c38857ec",
        ),
    ],
)
def test_the_same_definition_has_the_digest_that_earlier_versions_gave_it(
    definition: Agent | Rubric, digest: str
) -> None:
    """Receipts and paid answers are found by it."""
    assert definition.digest == digest


def test_a_key_of_a_later_version_counts_in_the_digest_once_it_is_used() -> None:
    rubric = built_in_rubrics()[0]
    used = [replace(rubric, **entry) for entry in ({"models": ("a", "b")}, {"fallback": "c"})]
    assert len({rubric.digest, *(entry.digest for entry in used)}) == 3
    assert replace(used[1], fallback=None).digest == rubric.digest


def test_a_value_is_made_copied_and_written_without_pydantic() -> None:
    script = (
        "import sys\nfrom msgspec.structs import replace\nfrom vibe_gate.domain.document import to_json\n"
        "from vibe_gate.domain.summary import Cost\n"
        "to_json(replace(Cost(usd=1.0), usd=2.0))\n"
        "print({'pydantic', 'pydantic_core'} & sys.modules.keys())"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
        == "set()\n"
    )
