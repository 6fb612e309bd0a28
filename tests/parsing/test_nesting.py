"""Which definition stands around a line: the walk over all lines agrees with a look at each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.parsing.nesting import Definition, Nesting


def definition(name: str, role: str, first: int, last: int) -> Definition:
    return Definition(name, role, first, last, first, first)


@st.composite
def nested_definitions(draw: st.DrawFn) -> list[Definition]:
    """Definitions of a file of 12 lines, outer ones before inner ones; some share lines."""
    definitions = []
    for _ in range(draw(st.integers(0, 8))):
        first = draw(st.integers(1, 12))
        last = draw(st.integers(first, 12))
        role = draw(st.sampled_from(["function", "type", "value"]))
        definitions.append(definition(draw(st.sampled_from(["", "a", "b"])), role, first, last))
    return sorted(definitions, key=lambda item: (item.first, -item.last))


def rank(item: Definition) -> int:
    if item.role != "function":
        return 0
    return 2 if item.name else 1


@given(nested_definitions())
def test_the_innermost_named_function_around_each_line_is_found(
    definitions: list[Definition],
) -> None:
    nesting = Nesting(definitions)
    for line in range(14):
        expected = None
        for item in definitions:
            is_around = item.first <= line <= item.last
            if is_around and (expected is None or rank(item) >= rank(expected)):
                expected = item
        assert nesting.around_line(line) == expected


@given(nested_definitions())
def test_the_innermost_type_around_each_definition_is_found(definitions: list[Definition]) -> None:
    nesting = Nesting(definitions)
    for inner in definitions:
        expected = None
        for outer in definitions:
            is_around = outer.first <= inner.first and inner.last <= outer.last
            if is_around and outer.role == "type" and outer != inner:
                expected = outer
        assert nesting.type_around(inner) == expected


def test_a_file_of_forty_thousand_nested_functions_is_walked_to_its_depth() -> None:
    definitions = [definition("f", "function", line, 80_000 - line) for line in range(1, 40_000)]
    assert Nesting(definitions).around_line(30_000) == definitions[29_999]
