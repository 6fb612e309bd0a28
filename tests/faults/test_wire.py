"""What goes wrong between an agent and its model: the real CLI, through the gateway."""

from __future__ import annotations

import pytest
from scripted_messages_api import ApiError, Fault, ToolUse, Turn
from wire import answering, costing, hold, session_in

from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.summary import Cost
from vibe_gate.domain.wire import TurnResult
from vibe_gate.gateway import Gateway, find_upstream

pytestmark = pytest.mark.slow

OK = {"ok": True}
HELLO = "hello " * 50


def judge_once(model, place, environ, budget: float = 1.0, **changes) -> tuple[TurnResult, Cost]:
    """One session through a live gateway."""
    with Gateway(find_upstream(model.environ), Wire("live"), budget, str) as gateway:
        ending, _ = hold(
            session_in(place, gateway.url("judge"), environ, **{"timeout_s": 60, **changes})
        )
        return ending, gateway.spent()


@pytest.mark.parametrize(
    ("status", "requests", "advice"),
    [
        (401, 1, "check it with `vibe-gate doctor`"),
        (404, 2, "does not know this model"),  # the CLI asks once more without a stream
    ],
)
def test_an_error_of_the_api_is_named_with_what_to_do(tmp_path, environ, status, requests, advice):
    with answering(ApiError(status, "scripted"), repeat_last=True) as model:
        ending, spent = judge_once(model, tmp_path, environ)
    assert ending.status == "api_error" and ending.answer is None
    assert ending.detail.startswith(f"HTTP {status}: ") and advice in ending.detail
    assert spent == Cost()
    assert len(model.script.requests) == requests


@pytest.mark.parametrize("fault", [Fault("drop"), Fault("garbage")])
def test_a_stream_that_breaks_is_an_error_of_the_wire(tmp_path, environ, fault):
    with answering(Turn(HELLO, usage=costing(50), fault=fault), repeat_last=True) as model:
        ending, spent = judge_once(model, tmp_path, environ)
    assert ending.status == "api_error" and ending.answer is None
    assert ending.detail
    assert spent.input_tokens >= 100


def test_silence_ends_at_the_sessions_own_clock(tmp_path, environ):
    with answering(Turn(HELLO, fault=Fault("hang")), repeat_last=True) as model:
        ending, _ = judge_once(model, tmp_path, environ, timeout_s=2)
    assert (ending.status, ending.detail) == ("timeout", "The session was not finished after 2 s.")


def test_a_budget_reached_on_the_way_ends_the_session_there(tmp_path, environ):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("x = 1\n")
    read = Turn(ToolUse("Read", {"file_path": "a.py"}), usage=costing(5_000, 3_300))
    with answering(read, repeat_last=True) as model:
        ending, spent = judge_once(model, tmp_path, environ, budget=0.07)
    assert (ending.status, ending.detail) == ("budget", "The budget of this run is reached.")
    assert len(model.api.log) == 1
    assert spent.usd <= 0.07


def test_an_answer_cut_by_the_budget_is_a_matter_of_budget(tmp_path, environ):
    def half(request):
        return Turn("half", stop_reason="max_tokens", usage=costing(request.body["max_tokens"]))

    with answering(half, repeat_last=True) as model:
        ending, _ = judge_once(model, tmp_path, environ, budget=0.2)
    assert (ending.status, ending.detail) == ("budget", "The budget of this run is reached.")
    assert len(model.api.log) == 1


def test_a_request_that_was_never_recorded_ends_the_session_without_another_try(tmp_path, environ):
    cassette = tmp_path / "cassette"
    with (
        answering(OK) as model,
        Gateway(find_upstream(model.environ), Wire("record", cassette), 1.0, str) as gateway,
    ):
        hold(session_in(tmp_path, gateway.url("judge"), environ))
    with Gateway(None, Wire("replay", cassette), 1.0, str) as gateway:
        ending, _ = hold(session_in(tmp_path, gateway.url("judge"), environ, prompt="Is it good?"))
        assert ending.status == "api_error"
        assert ending.detail == "The cassette holds no answer to this request; record it again."
        assert len(gateway.unmatched) == 1
        assert "Is it ok?" in gateway.unmatched[0] and "Is it good?" in gateway.unmatched[0]
