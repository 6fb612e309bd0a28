"""What is found in the environment of a process."""

from __future__ import annotations

from vibe_gate.domain.environment import read_environment


def test_nothing_is_found_in_an_empty_environment() -> None:
    environment = read_environment({})
    assert (environment.in_ci, environment.agents, environment.author_addresses) == (False, {}, ())
    assert environment.model == ""


def test_each_fact_is_read_of_its_variables() -> None:
    variables = {
        "CI": "1",
        "CLAUDECODE": "1",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_EMAIL": "",
        "ANTHROPIC_MODEL": "some-model",
    }
    environment = read_environment(variables)
    assert environment.in_ci
    assert list(environment.agents) == ["CLAUDECODE"]
    assert environment.author_addresses == ("ada@example.org",)
    assert environment.model == "some-model"
    assert environment.variables == variables


def test_no_value_stands_in_what_is_printed_of_it() -> None:
    assert "secret" not in repr(read_environment({"ANTHROPIC_API_KEY": "secret"}))
