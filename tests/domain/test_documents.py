"""Documents: plain values for code that makes them, read by their types."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import ValidationError

from vibe_gate.domain.model import (
    CheckedModel,
    Field,
    Many,
    Model,
    Named,
    Timestamp,
    checked_by,
    first_mistake,
    keys_of,
    read,
    told_by,
)


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("is odd")
    return number


class Part(Model):
    """A part."""

    name: str = Field(max_length=5)
    weight: float = 1


class LargerPart(Part):
    """A part with one key more."""

    size: int = 1


class Whole(Model):
    """A document."""

    schema_: int = Field(alias="schema", ge=1, le=1, description="The format.")
    parts: Many[Part] = ()
    usd: float | None = None
    by_name: Named[float] = Field(default_factory=dict)
    until: date | None = None
    part: Part = Part(name="own")

    def __post_init__(self) -> None:
        if self.usd == 13:
            raise ValueError("13 is unlucky")


DOCUMENT = {
    "schema": 1, "parts": [{"name": "a", "weight": 2.0}], "usd": 3.0, "by_name": {"a": 0.5}, "until": "2026-01-02",
    "part": {"name": "own", "weight": 1.0},
}  # fmt: skip
WHOLE = Whole(schema=1, parts=(Part(name="a", weight=2),), usd=3, by_name={"a": 0.5}, until=date(2026, 1, 2))


def test_what_code_makes_is_written_as_it_is_read() -> None:
    assert WHOLE.model_dump() == DOCUMENT
    assert repr(WHOLE.model_dump()["usd"]) == "3.0"  # a float, although code gave a whole number
    assert Whole.model_validate(DOCUMENT) == WHOLE
    assert Whole.model_validate_json(WHOLE.model_dump_json()) == WHOLE


@given(st.lists(st.tuples(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False))))
def test_any_value_comes_back_as_it_was(parts: list[tuple[str, float]]) -> None:
    whole = Whole(schema=1, parts=tuple(Part(name=name, weight=weight) for name, weight in parts))
    assert Whole.model_validate_json(whole.model_dump_json()) == whole


def test_a_value_is_equal_by_its_content_and_does_not_change() -> None:
    same = WHOLE.model_copy(update={})
    assert same == WHOLE
    assert hash(Part(name="a")) == hash(Part.model_validate({"name": "a"}))
    assert WHOLE.model_copy(update={"usd": 1.0}) != WHOLE
    with pytest.raises(AttributeError):
        WHOLE.usd = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "schema: Field required"),
        ({"schema": 2}, "schema: Input should be less than or equal to 1"),
        ({"schema": 1, "other": 1}, "other: Unexpected keyword argument"),
        ({"schema": 1, "usd": float("nan")}, "usd: Input should be a finite number"),
        ({"schema": 1, "usd": 13}, "Value error, 13 is unlucky"),
        ({"schema": 1, "parts": [{"name": "too long"}]}, "parts.0.name: String should have at most 5 characters"),
        ({"schema": 1, "parts": [{"name": "\ud800"}]}, "parts.0.name: Input should be a valid string"),
        ({"schema": 1, "by_name": dict.fromkeys(map(str, range(100_001)), 1.0)}, "100,000 members"),
        ({"schema": 1, "parts": [["a", 1]]}, "parts.0: Input should be a dictionary"),
    ],
)
def test_what_is_read_is_checked(document: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(document)
    assert why in first_mistake(caught.value)


def test_of_a_long_list_only_the_first_mistake_is_told() -> None:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate({"schema": 1, "parts": [{}] * 1_000})
    assert caught.value.error_count() == 1


def test_keys_of_a_later_version_are_left_out_everywhere() -> None:
    later = DOCUMENT | {"new": 1, "part": {"name": "own", "weight": 1.0, "new": 1}}
    assert read(Whole, later) == WHOLE


def test_what_code_forgets_or_invents_is_an_error() -> None:
    with pytest.raises(TypeError, match="lacks schema_"):
        Whole()  # type: ignore[call-arg]
    with pytest.raises(KeyError):
        Part(name="a", size=1)  # type: ignore[call-arg]


def test_a_class_that_is_first_used_after_its_base_was_read_has_the_keys_of_both() -> None:
    assert Part.model_validate({"name": "a"}).weight == 1
    assert LargerPart(name="a").model_dump() == {"name": "a", "weight": 1.0, "size": 1}
    assert LargerPart.model_validate({"name": "a"}) == LargerPart(name="a")


def test_keys_are_named_as_in_the_document() -> None:
    assert list(keys_of(Whole)) == ["schema", "parts", "usd", "by_name", "until", "part"]


class Even(Model):
    """Two rules for one key."""

    number: Annotated[int, checked_by(_even)] = Field(default=0, ge=0)


@pytest.mark.parametrize("wrong", [3, -2])
def test_every_rule_of_a_key_holds(wrong: int) -> None:
    with pytest.raises(ValidationError):
        Even.model_validate({"number": wrong})
    assert Even.model_validate({"number": 2}).number == 2


class Yes(Model):
    """One form of an answer."""

    said: Literal["yes", "of course"]


class No(Model):
    """The other, which needs a reason."""

    said: Literal["no"]
    why: str


class Pair(NamedTuple):
    left: str
    right: Literal["a", "b"]


class Mixed(Model):
    """What few documents have."""

    answer: Annotated[Yes | No, told_by("said")] | None = None
    number: Literal["all"] | int = "all"
    pair: Pair = Pair("x", "a")
    at: Timestamp | None = None


class Camel(Mixed):
    """Written in another way than it is held."""

    any_key: int = 1

    @staticmethod
    def key_in_documents(name: str) -> str:
        return name.replace("_", "-")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"answer": {"said": "no"}}, "answer.no.why: Field required"),
        ({"answer": {"said": "perhaps"}}, "answer: Input tag 'perhaps' found using 'said' does not match"),
        ({"answer": {"said": "yes", "why": "so"}}, "answer.yes.why: Unexpected keyword argument"),
        ({"number": "some"}, "number.literal['all']: Input should be 'all'"),
        ({"pair": {"left": "x", "right": "c"}}, "pair.right: Input should be 'a' or 'b'"),
        ({"at": "2026-01-02T03:04:05"}, "at: Input should have timezone info"),
    ],
)
def test_unions_tuples_and_times_are_checked(document: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Mixed.model_validate(document)
    assert why in first_mistake(caught.value)


def test_unions_tuples_and_times_are_read() -> None:
    document = {"answer": {"said": "no", "why": "so"}, "number": 3, "pair": {"left": "y", "right": "b"}}
    at = datetime(2026, 1, 2, 4, 4, 5, 678_901, tzinfo=timezone(timedelta(hours=1)))
    mixed = Mixed.model_validate(document | {"at": at.isoformat()})
    assert mixed == Mixed(answer=No(said="no", why="so"), number=3, pair=Pair("y", "b"), at=at.astimezone(UTC))
    assert mixed.model_dump()["at"] == "2026-01-02T03:04:05.678Z"
    assert Mixed.model_validate({"answer": {"said": "of course"}}).answer == Yes(said="of course")


def test_a_class_may_write_its_keys_in_another_way() -> None:
    camel = Camel(any_key=2)
    assert camel.model_dump()["any-key"] == 2
    assert Camel.model_validate({"any-key": 2}) == camel
    assert list(keys_of(Camel))[-1] == "any-key"


class Asked(CheckedModel):
    """What people make."""

    schema_: int = Field(default=1, alias="schema")
    name: str = Field(max_length=5)
    words: tuple[str, ...] = ()


def test_what_people_make_is_checked_at_once() -> None:
    assert Asked(name="a", words=["b"]) == Asked.model_validate({"name": "a", "words": ["b"]})  # type: ignore[arg-type]
    for wrong, why in (({"name": "too long"}, "name: String should have"), ({}, "name: Field required")):
        with pytest.raises(ValidationError) as caught:
            Asked(**wrong)
        assert why in first_mistake(caught.value)


def test_a_value_is_made_copied_and_written_without_pydantic() -> None:
    script = (
        "import sys\nfrom vibe_gate.domain.summary import Cost\n"
        "Cost(usd=1).model_copy(update={'usd': 2.0}).model_dump_json()\n"
        "print({'pydantic', 'dataclasses', 'inspect'} & sys.modules.keys())"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "set()\n"
