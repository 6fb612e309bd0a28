"""The gateway, spoken to over HTTP, with a scripted model behind it."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_messages_api import (
    ApiError,
    DropConnection,
    Fault,
    Text,
    Thinking,
    ToolUse,
    Turn,
    Usage,
)
from wire import KEY, answering, costing, hold, session_in

from vibe_gate.domain import wire
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.summary import Cost
from vibe_gate.domain.wire import ModelCost, SessionCost
from vibe_gate.errors import GatewayError
from vibe_gate.gateway import Gateway, Upstream, find_upstream
from vibe_gate.gateway.cassette import join_path
from vibe_gate.gateway.ledger import Ledger
from vibe_gate.gateway.normal_request import digest_request, normal_request
from vibe_gate.gateway.token_usage import Usage as Tokens
from vibe_gate.gateway.upstream import describe_overload

LIVE = Wire("live")
ASK = {
    "model": "claude-sonnet-5",
    "max_tokens": 64_000,
    "stream": True,
    "messages": [{"role": "user", "content": "?"}],
}


def same_text(text: str) -> str:
    return text


def ask(url: str, body: object = ASK, path: str = "/v1/messages?beta=true", **headers: str):
    """(status, headers, body) of one request, as an agent would send it."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=100)
    sent = {
        "x-api-key": "dummy",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
    } | headers
    connection.request("POST", parts.path + path, json.dumps(body), sent)
    response = connection.getresponse()
    try:
        return response.status, dict(response.headers), response.read()
    finally:
        connection.close()


def message(raw: bytes) -> str:
    return json.loads(raw)["error"]["message"]


def opened(model, budget: float = 1.0, mode: Wire = LIVE, **options) -> Gateway:
    return Gateway(find_upstream(model.environ), mode, budget, same_text, **options)


# Where the model is.


API = "https://api.anthropic.com"
TOKEN, KEYED, SUBSCRIBED = (
    {"ANTHROPIC_AUTH_TOKEN": "t"},
    {"ANTHROPIC_API_KEY": "k"},
    {"CLAUDE_CODE_OAUTH_TOKEN": "o"},
)
LOCAL = {"ANTHROPIC_BASE_URL": "http://gpu:8000/v/"}
BETA = {"authorization": "Bearer o", "anthropic-beta": "oauth-2025-04-20"}


@pytest.mark.parametrize(
    ("variables", "source", "base_url", "credentials"),
    [
        (KEYED, "ANTHROPIC_API_KEY", API, {"x-api-key": "k"}),
        (SUBSCRIBED, "CLAUDE_CODE_OAUTH_TOKEN", API, BETA),
        (
            TOKEN | KEYED | SUBSCRIBED, "ANTHROPIC_AUTH_TOKEN and ANTHROPIC_API_KEY", API,
            {"authorization": "Bearer t", "x-api-key": "k"},
        ),
        (LOCAL | KEYED, "ANTHROPIC_API_KEY", "http://gpu:8000/v", {"x-api-key": "k"}),
        (
            LOCAL | {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: red\nnonsense"}, "ANTHROPIC_BASE_URL", "http://gpu:8000/v",
            {"x-team": "red"},
        ),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}, "Bedrock", "", {}),
        ({"CLAUDE_CODE_USE_VERTEX": "true", "CLOUD_ML_REGION": "europe-west1"}, "Vertex", "", {}),
    ],
)  # fmt: skip
def test_credentials_are_found_in_the_environment(variables, source, base_url, credentials):
    upstream = find_upstream(variables)
    assert upstream is not None
    assert (upstream.source, upstream.base_url, dict(upstream.credentials)) == (
        source,
        base_url,
        credentials,
    )


@pytest.mark.parametrize(
    "nothing", [{}, {"ANTHROPIC_API_KEY": " "}, {"CLAUDE_CODE_USE_BEDROCK": "0"}]
)
def test_without_credentials_there_is_no_upstream(nothing):
    assert find_upstream(nothing) is None


def test_an_address_that_is_none_is_an_error():
    with pytest.raises(GatewayError, match="ANTHROPIC_BASE_URL"):
        find_upstream({"ANTHROPIC_BASE_URL": "file:///etc/passwd"})


def test_an_upstream_never_shows_its_secrets():
    upstream = find_upstream({"ANTHROPIC_API_KEY": "sk-secret", "HTTPS_PROXY": "http://u:secret@p"})
    cloud = find_upstream({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_SECRET_ACCESS_KEY": "secret"})
    local = find_upstream({"ANTHROPIC_BASE_URL": "http://me:secret@gpu:8000/v?key=secret"})
    assert "secret" not in repr(upstream) + str(upstream) + repr(cloud) + repr(local)


def test_tokens_that_the_prompt_cache_gave_are_counted_apart_too():
    ledger = Ledger(1.0)
    account = ledger.account("judge")
    leave = ledger.reserve(account, "claude-sonnet-5", Tokens(input=1), 100, 10)
    ledger.settle(leave, account, Tokens(input=10, cache_read=90, output=5))
    spent = ledger.spent()
    assert (spent.input_tokens, spent.cache_read_tokens, spent.output_tokens) == (100, 90, 5)
    assert account.cost.cache_read_tokens == 90


def test_a_cloud_is_passed_through_with_its_own_variables(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]")
    environ = {
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "AWS_PROFILE": "work",
        "HOME": str(tmp_path),
        "EDITOR": "vi",
    }
    with Gateway(find_upstream(environ), LIVE, 1.0, same_text) as gateway:
        assert gateway.url("judge") == ""
        assert gateway.cloud == {
            "CLAUDE_CODE_USE_BEDROCK": "1",
            "AWS_PROFILE": "work",
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / ".aws" / "credentials"),
        }
        gateway.settle("judge", "", SessionCost(10, 20, {"sonnet": ModelCost(1.5, "unknown")}))
        shares = {"by_node": {"judge": 1.5}, "by_model": {"sonnet": 1.5}}
        assert gateway.spent() == Cost(
            usd=1.5, basis="unknown", input_tokens=10, output_tokens=20, **shares
        )
        assert gateway.ledger.reached
    with pytest.raises(GatewayError, match="cannot be recorded"):
        Gateway(find_upstream(environ), Wire("record", tmp_path), 1.0, same_text)


def test_a_wire_that_cannot_work_is_an_error_at_once(tmp_path):
    for wire_, upstream in (
        (LIVE, None),
        (Wire("replay", tmp_path / "none"), None),
        (Wire("replay"), None),
    ):
        with pytest.raises(GatewayError):
            Gateway(upstream, wire_, 1.0, same_text)


# Who may ask what.


def test_the_real_credentials_replace_the_dummy(tmp_path):
    with answering(Turn("yes")) as model, opened(model) as gateway:
        status, _, _ = ask(gateway.url("judge"), authorization="Bearer dummy", cookie="x=1")
    assert status == 200
    headers = model.script.requests[0].headers
    assert (
        headers["x-api-key"] == KEY and "authorization" not in headers and "cookie" not in headers
    )
    assert headers["anthropic-version"] == "2023-06-01"
    assert model.script.requests[0].path.endswith("/v1/messages?beta=true")


def test_a_subscription_adds_its_beta_to_those_of_the_agent(tmp_path):
    with answering(Turn("yes")) as model:
        upstream = find_upstream(
            {"ANTHROPIC_BASE_URL": model.base_url, "CLAUDE_CODE_OAUTH_TOKEN": "oat"}
        )
        with Gateway(upstream, LIVE, 1.0, same_text) as gateway:
            ask(gateway.url("judge"), **{"anthropic-beta": "a,b"})
    headers = model.script.requests[0].headers
    assert (headers["anthropic-beta"], headers["authorization"]) == (
        "a,b,oauth-2025-04-20",
        "Bearer oat",
    )
    assert "x-api-key" not in headers


def test_only_who_knows_the_address_can_spend():
    with answering(Turn("yes"), repeat_last=True) as model, opened(model) as gateway:
        right = gateway.url("judge")
        origin = right.rpartition("/")[0]
        assert len(right.rpartition("/")[2]) >= 32
        for wrong in (origin, origin + "/guess", right[:-1]):
            assert ask(wrong)[0] == 404
        for path in (
            "/v1/complete",
            "/v1/files",
            "/v1/messages/batches",
            "/../v1/messages",
            "/v1/messages/",
        ):
            assert ask(right, path=path)[0] == 404
    assert model.api.log == []


def test_what_is_not_a_request_is_not_forwarded():
    with answering(Turn("yes")) as model, opened(model) as gateway:
        url = urlsplit(gateway.url("judge"))
        assert ask(url.geturl(), body=[1])[0] == 400
        with socket.create_connection((url.hostname, url.port)) as raw:
            raw.sendall(
                f"POST {url.path}/v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
            )
            assert b" 413 " in raw.recv(100)
    assert model.api.log == []


def test_tokens_are_counted_here():
    with answering() as model, opened(model) as gateway:
        url = gateway.url("judge")
        assert (
            json.loads(ask(url, path="/v1/messages/count_tokens?beta=true")[2])["input_tokens"] > 10
        )
    assert model.api.log == []


# What passes.


def test_an_answer_in_one_piece_is_metered_too():
    with answering(Turn("yes", usage=costing(1_000, 2_000))) as model, opened(model) as gateway:
        status, headers, raw = ask(gateway.url("judge"), ASK | {"stream": False})
        spent = gateway.spent()
    assert status == 200 and headers["content-type"] == "application/json"
    assert json.loads(raw)["content"] == [{"type": "text", "text": "yes"}]
    assert spent.usd == pytest.approx(0.014) and (spent.input_tokens, spent.output_tokens) == (
        2_000,
        1_000,
    )


NOW = {"retry-after": "0"}
BUSY = ApiError(529, headers=NOW)


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    [
        (BUSY, BUSY, BUSY, BUSY),
        (
            ApiError(500, headers=NOW),
            ApiError(429, headers=NOW),
            ApiError(400, headers={"x-should-retry": "true"}),
        ),
        (DropConnection(), Turn("x", fault=Fault("error", after_events=0))),
    ],
)
def test_an_overloaded_model_is_asked_again_and_the_agent_sees_only_the_answer(tmp_path, faults):
    waits = []
    with (
        answering(*faults, Turn("yes")) as model,
        opened(model, mode=Wire("record", tmp_path)) as gateway,
    ):
        gateway.on_wait = waits.append
        status, _, raw = ask(gateway.url("judge", timeout_s=60))
        assert (status, texts(raw)) == (200, "yes")
        assert len(model.script.requests) == len(faults) + 1
        assert [wait.partition(" ")[0] for wait in waits] == [f"{ASK['model']}:"], (
            "once, and it names the model"
        )
        assert gateway.spent().output_tokens == 20, "only the answer is paid for"
        spans = gateway.settle("judge", *gateway.sessions, SessionCost()).waits
        assert len(spans) == len(faults) and all(0 <= end - start < 3_000 for start, end in spans)
    assert len(list(tmp_path.iterdir())) == 1, "only the answer is recorded"


@pytest.mark.slow
def test_an_overload_in_mid_stream_is_asked_again_while_the_agent_has_no_whole_block():
    overloads = [
        Turn("half a", "word", fault=Fault("error", after_events=after)) for after in (3, 4)
    ]
    with answering(overloads[0], Turn("yes"), overloads[1]) as model, opened(model) as gateway:
        status, _, raw = ask(gateway.url("judge", timeout_s=60))
        assert (status, texts(raw), len(model.script.requests)) == (200, "yes", 2)
        assert gateway.spent().output_tokens == 25, (
            "what passed of the first answer is paid for, too"
        )
        status, _, raw = ask(gateway.url("judge", timeout_s=60))
    assert (status, texts(raw), len(model.script.requests)) == (
        200,
        "half a",
        3,
    ) and b"overloaded_error" in raw


@pytest.mark.parametrize(
    ("fault", "timeout_s", "requests", "sentence"),
    [
        (ApiError(529), 6.0, 2, "is overloaded (HTTP 529) and did not recover in time."),
        (
            ApiError(429, headers={"retry-after": "60"}),
            50.0,
            1,
            "limits the rate of this key (HTTP 429) and did not",
        ),
        (ApiError(503, "no GPU"), 1.0, 1, "failed (HTTP 503: no GPU) and did not recover in time."),
        (
            DropConnection(),
            1.0,
            1,
            "closed the connection without an answer and did not recover in time.",
        ),
    ],
)
def test_what_does_not_recover_is_refused_within_the_time_of_the_session(
    fault, timeout_s, requests, sentence
):
    with answering(fault, repeat_last=True) as model, opened(model) as gateway:
        status, headers, raw = ask(gateway.url("judge", timeout_s=timeout_s))
        assert (status, headers["x-should-retry"], gateway.spent()) == (
            wire.REFUSED_STATUS,
            "false",
            Cost(),
        )
        assert message(raw).startswith(f"{wire.UNAVAILABLE} 127.0.0.1 {sentence}")
        assert 1 <= len(model.script.requests) <= requests


def test_other_errors_of_the_model_pass_as_they_are_and_ask_for_no_retry():
    limit = ApiError(429, "until Monday", headers={"x-should-retry": "false"})
    with answering(ApiError(400, "no such model"), limit) as model, opened(model) as gateway:
        for failure in ((400, "no such model"), (429, "until Monday")):
            status, headers, raw = ask(gateway.url("judge"))
            assert (status, message(raw), headers["x-should-retry"]) == (*failure, "false")


@pytest.mark.parametrize("status", [404, 405, 501, 505])
def test_an_address_that_is_no_models_api_is_asked_once(status):
    with (
        answering(ApiError(status, "Unsupported method"), repeat_last=True) as model,
        opened(model) as gateway,
    ):
        answer, headers, _ = ask(gateway.url("judge", timeout_s=60))
        assert (answer, headers["x-should-retry"], len(model.script.requests)) == (
            status,
            "false",
            1,
        )


@pytest.mark.parametrize(
    ("status", "headers", "passes"),
    [
        *((status, {}, True) for status in (408, 409, 429, 500, 502, 503, 504, 520, 529)),
        *((status, {}, False) for status in (200, 400, 404, 405, 501, 505)),
        (501, {"x-should-retry": "true"}, True),
        (503, {"x-should-retry": "false"}, False),
    ],
)
def test_only_what_may_pass_is_tried_again(status, headers, passes):
    assert (describe_overload("host", status, headers) is not None) is passes


@pytest.mark.slow
def test_an_agent_that_goes_away_ends_the_wait():
    away = threading.Event()

    def leaving(_request):
        away.set()
        return ApiError(529, headers={"retry-after": "1"})

    with answering(leaving, Turn("yes")) as model, opened(model) as gateway:
        parts = urlsplit(gateway.url("judge", timeout_s=60))
        connection = http.client.HTTPConnection(parts.hostname, parts.port)
        connection.request("POST", parts.path + "/v1/messages", json.dumps(ASK))
        assert away.wait(60)
        connection.close()
        assert ask(gateway.url("judge"))[0] == 200
        time.sleep(1.5)
    assert len(model.script.requests) == 2


def test_a_model_that_is_not_there_is_said_in_a_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with Gateway(find_upstream({"ANTHROPIC_BASE_URL": address}), LIVE, 1.0, same_text) as gateway:
        status, _, raw = ask(gateway.url("judge"))
        assert (status, gateway.spent()) == (wire.REFUSED_STATUS, Cost())
    assert message(raw) == f"{wire.UNREACHABLE} the model's API at 127.0.0.1 cannot be reached."


class _Proxy(BaseHTTPRequestHandler):
    """An HTTP proxy that answers by itself."""

    requests: ClassVar[list[tuple[str, str | None]]] = []

    def log_message(self, *args):
        pass

    def do_POST(self):
        self.requests.append((self.path, self.headers.get("x-api-key")))
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def listening(context: ssl.SSLContext | None = None):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Proxy)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_model_behind_a_proxy_is_reached_through_it():
    with listening() as port:
        variables = {
            "ANTHROPIC_BASE_URL": "http://model.example",
            "ANTHROPIC_API_KEY": "k",
            "http_proxy": f"http://127.0.0.1:{port}",
        }
        with Gateway(find_upstream(variables), LIVE, 1.0, same_text) as gateway:
            assert ask(gateway.url("judge"), ASK | {"stream": False})[0] == 200
            assert gateway.spent().input_tokens == 1
    assert _Proxy.requests.pop() == ("http://model.example/v1/messages?beta=true", "k")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed here")
def test_a_certificate_must_be_trusted(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command_text = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 2 -subj /CN=localhost"
    subprocess.run(
        [*command_text.split(), "-addext", "subjectAltName=DNS:localhost"],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with listening(context) as port:
        variables = {"ANTHROPIC_BASE_URL": f"https://localhost:{port}", "ANTHROPIC_API_KEY": "k"}
        with Gateway(find_upstream(variables), LIVE, 1.0, same_text) as gateway:
            status, _, raw = ask(gateway.url("judge"))
            assert status == wire.REFUSED_STATUS
            assert (
                message(raw) == f"{wire.UNREACHABLE} the certificate of localhost is not trusted."
            )
        assert _Proxy.requests == []
        with Gateway(
            find_upstream(variables | {"SSL_CERT_FILE": str(certificate)}), LIVE, 1.0, same_text
        ) as gateway:
            assert ask(gateway.url("judge"))[0] == 200
    assert _Proxy.requests.pop()[1] == "k"


def test_a_redirect_does_not_carry_the_key_away():
    with (
        answering(ApiError(307, headers={"location": "http://127.0.0.1:9/"})) as model,
        opened(model) as gateway,
    ):
        assert ask(gateway.url("judge"))[0] == 307
    assert len(model.api.log) == 1


# What it costs.


def test_tokens_of_every_kind_have_their_price():
    usage = Usage(
        1_000_000, 100_000, cache_creation_input_tokens=1_000_000, cache_read_input_tokens=1_000_000
    )
    with answering(Turn("yes", usage=usage)) as model, opened(model, budget=100) as gateway:
        ask(gateway.url("judge-a"))
        spent = gateway.spent()
    assert spent.usd == pytest.approx(2 + 1 + 2.5 + 0.2)
    assert (spent.basis, spent.input_tokens, spent.output_tokens) == ("known", 3_000_000, 100_000)
    assert spent.by_node == {"judge-a": spent.usd} and spent.by_model == {
        "claude-sonnet-5": spent.usd
    }


def test_the_answer_may_be_as_long_as_the_budget_pays_for():
    with answering(Turn("yes"), repeat_last=True) as model, opened(model, budget=0.1) as gateway:
        ask(gateway.url("judge"))
        ask(gateway.url("judge"), ASK | {"max_tokens": 500})
    clamped, small = (request.body["max_tokens"] for request in model.script.requests)
    assert 9_800 < clamped < 10_000
    assert small == 500


def test_a_request_that_the_budget_does_not_pay_for_never_leaves():
    with (
        answering(Turn("yes", usage=costing(9_500)), repeat_last=True) as model,
        opened(model, budget=0.1) as gateway,
    ):
        url = gateway.url("judge")
        assert ask(url)[0] == 200
        status, _, raw = ask(url)
        assert (status, wire.BUDGET_REACHED in message(raw)) == (wire.REFUSED_STATUS, True)
        assert gateway.ledger.reached
    assert len(model.script.requests) == 1


def test_thinking_needs_room_besides_the_answer():
    thinking = ASK | {"thinking": {"type": "enabled", "budget_tokens": 9_500}}
    with answering(Turn("yes"), repeat_last=True) as model, opened(model, budget=0.1) as gateway:
        assert ask(gateway.url("judge"), thinking)[0] == wire.REFUSED_STATUS
        assert (
            ask(
                gateway.url("judge"),
                thinking | {"thinking": {"type": "enabled", "budget_tokens": 5_000}},
            )[0]
            == 200
        )
    assert model.script.requests[0].body["max_tokens"] > 5_000 + 1_024


def test_sessions_at_the_same_time_do_not_overspend_together():
    def greedy(request):
        return Turn(
            "yes",
            usage=costing(min(16_000, request.body["max_tokens"])),
            seconds_before_headers=0.2,
        )

    with answering(greedy, repeat_last=True) as model, opened(model, budget=0.5) as gateway:
        urls = [gateway.url(f"judge-{number}") for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            statuses = [status for status, _, _ in pool.map(ask, urls)]
        spent = gateway.spent()
    assert 0.4 < spent.usd <= 0.5 and gateway.ledger.reached
    assert statuses.count(200) == len(model.script.requests)
    assert statuses.count(200) + statuses.count(wire.REFUSED_STATUS) == 8


def test_a_cut_answer_counts_with_what_was_metered():
    text = Turn(
        "x" * 3_000,
        usage=costing(9, 4_000),
        characters_per_delta=100,
        fault=Fault("drop", after_events=20),
    )
    with answering(text) as model, opened(model) as gateway:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            ask(gateway.url("judge"))
        deadline = time.monotonic() + 60
        while not gateway.spent().usd and time.monotonic() < deadline:
            time.sleep(0.01)
        spent = gateway.spent()
    assert spent.input_tokens == 4_000
    assert 400 < spent.output_tokens < 800


def test_after_a_last_word_nothing_more_is_asked():
    with (
        answering(Turn("no", stop_reason="refusal"), repeat_last=True) as model,
        opened(model) as gateway,
    ):
        url = gateway.url("judge")
        assert ask(url)[0] == 200
        status, _, raw = ask(url)
        assert (status, wire.CONVERSATION_ENDED in message(raw)) == (403, True)
        assert ask(gateway.url("judge"))[0] == 200
    assert len(model.script.requests) == 2


@pytest.mark.slow
@given(
    budget=st.floats(0.001, 2),
    ceiling=st.none() | st.floats(0.001, 2),
    requests=st.lists(
        st.tuples(st.integers(0, 50_000), st.integers(1, 64_000), st.floats(0, 1)), max_size=20
    ),
)
def test_whatever_is_asked_within_its_leave_stays_within_the_budget(budget, ceiling, requests):
    ledger = Ledger(budget)
    accounts = ledger.account("fix", ceiling), ledger.account("judge")
    for number, (tokens, requested_tokens, share) in enumerate(requests):
        account = accounts[number % 2]
        leave = ledger.reserve(
            account, "claude-sonnet-5", Tokens(cache_write=tokens), requested_tokens, 1_024
        )
        if leave is not None:
            assert leave.max_tokens <= requested_tokens
            ledger.settle(
                leave, account, Tokens(cache_write=tokens, output=int(leave.max_tokens * share))
            )
    assert ledger.spent().usd <= budget + 1e-9 and accounts[0].remaining_usd >= -1e-9


# Closing.


@pytest.mark.parametrize("first", [[], ["a whole block"]])
def test_an_answer_ends_with_the_agent_that_asked_for_it(first):
    with (
        answering(Turn(*first, "x" * 100_000, characters_per_delta=1)) as model,
        opened(model) as gateway,
    ):
        parts = urlsplit(gateway.url("judge"))
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        connection.request("POST", parts.path + "/v1/messages", json.dumps(ASK))
        if first:
            assert b"message_start" in connection.getresponse().read1(), "it passes as it comes"
        while not model.script.requests:
            time.sleep(0.01)
        connection.sock.close()
        connection.close()
        deadline = time.monotonic() + 60
        while not model.script.client_disconnects and time.monotonic() < deadline:
            time.sleep(0.01)
    assert model.script.client_disconnects == 1, (
        "the model goes on talking to nobody, and is paid for it"
    )
    assert gateway.spent().usd


def test_closing_wakes_who_waits_for_budget():
    with answering(Turn("yes", seconds_before_headers=1)) as model, ThreadPoolExecutor(2) as pool:
        with opened(model, budget=0.02) as gateway:
            submits = [pool.submit(ask, gateway.url("judge")) for _ in range(2)]
            time.sleep(0.3)
        assert {future.result()[0] for future in submits} == {200, wire.REFUSED_STATUS}


# Cassettes.


def record(model, cassette: Path, body: object, redact=same_text, **places: str) -> bytes:
    literals = {literal: f"{{{{{name}}}}}" for name, literal in places.items()}
    with Gateway(
        find_upstream(model.environ), Wire("record", cassette), 1.0, redact, placeholders=literals
    ) as gateway:
        return ask(gateway.url("judge"), body)[2]


def replayed(cassette: Path, body: object, **places: str):
    literals = {literal: f"{{{{{name}}}}}" for name, literal in places.items()}
    with Gateway(None, Wire("replay", cassette), 1.0, same_text, placeholders=literals) as gateway:
        status, _, raw = ask(gateway.url("judge"), body)
        return status, raw, gateway


def texts(raw: bytes) -> str:
    events = [
        json.loads(line[5:]) for line in raw.decode().splitlines() if line.startswith("data:")
    ]
    return "".join(event.get("delta", {}).get("text", "") for event in events)


def test_what_was_recorded_is_replayed_without_upstream_and_for_nothing_though_its_cost_is_known(
    tmp_path,
):
    with answering(Turn("one two three", characters_per_delta=2)) as model:
        live = record(model, tmp_path / "c", ASK)
    status, raw, gateway = replayed(tmp_path / "c", ASK)
    assert (status, texts(raw)) == (200, texts(live))
    assert gateway.spent() == Cost() and gateway.unmatched == []
    was = gateway.settle("judge", *gateway.sessions, SessionCost())
    assert (was.usd, was.input_tokens, was.output_tokens, was.replayed) == pytest.approx(
        (0.0004, 100, 20, True)
    )


def test_answers_in_one_piece_and_errors_are_replayed_too(tmp_path):
    once = ASK | {"stream": False}
    with (
        answering(ApiError(400), Turn("yes")) as model,
        opened(model, mode=Wire("record", tmp_path)) as gateway,
    ):
        ask(gateway.url("judge"), once)
        ask(gateway.url("judge"), once)
    paid = gateway.spent()
    with Gateway(None, Wire("replay", tmp_path), 1.0, same_text) as gateway:
        assert ask(gateway.url("judge"), once)[0] == 400
        assert json.loads(ask(gateway.url("judge"), once)[2])["content"] == [
            {"type": "text", "text": "yes"}
        ]
    assert (
        sum(session.cost.usd for session in gateway.sessions.values()) == pytest.approx(paid.usd)
        and paid.usd
    )


def test_identical_requests_are_answered_in_recorded_order_and_not_more_often(tmp_path):
    with (
        answering(Turn("first"), Turn("second")) as model,
        opened(model, mode=Wire("record", tmp_path)) as gateway,
    ):
        ask(gateway.url("judge"))
        ask(gateway.url("judge"))
    with Gateway(None, Wire("replay", tmp_path), 1.0, same_text) as gateway:
        assert [texts(ask(gateway.url("judge"))[2]) for _ in range(2)] == ["first", "second"]
        assert ask(gateway.url("judge"))[0] == wire.REFUSED_STATUS
        assert gateway.unmatched == ["judge: recorded 2 times, asked once more"]


def test_a_request_without_an_answer_shows_the_difference(tmp_path):
    with answering(Turn("yes")) as model:
        record(model, tmp_path, ASK | {"system": "Judge this.\nBe strict."})
    status, raw, gateway = replayed(tmp_path, ASK | {"system": "Judge this.\nBe kind."})
    assert (status, wire.UNMATCHED in message(raw)) == (wire.REFUSED_STATUS, True)
    assert len(gateway.unmatched) == 1
    assert "-Be strict." in gateway.unmatched[0] and "+Be kind." in gateway.unmatched[0]


def test_an_empty_cassette_says_so(tmp_path):
    assert replayed(tmp_path, ASK)[2].unmatched == ["judge: the cassette is empty"]


def test_literals_that_change_are_put_back(tmp_path):
    turn = Turn("in /tmp/one/a", ToolUse("Read", {"file_path": "/tmp/one/a"}))
    with answering(turn) as model:
        body = ASK | {"messages": [{"role": "user", "content": "n-1 read /tmp/one/a"}]}
        record(model, tmp_path / "c", body, nonce="n-1", tree="/tmp/one")
    assert "/tmp/one" not in "".join(path.read_text() for path in (tmp_path / "c").iterdir())
    second_reply = ASK | {"messages": [{"role": "user", "content": 'n-2 read /tmp/t"wo/a'}]}
    status, raw, _ = replayed(tmp_path / "c", second_reply, nonce="n-2", tree='/tmp/t"wo')
    assert status == 200 and texts(raw) == 'in /tmp/t"wo/a'
    events = [
        json.loads(line[5:]) for line in raw.decode().splitlines() if line.startswith("data:")
    ]
    input_text = "".join(event.get("delta", {}).get("partial_json", "") for event in events)
    assert json.loads(input_text) == {"file_path": '/tmp/t"wo/a'}


def test_no_secret_is_in_a_cassette(tmp_path):
    secret = "hunter2-hunter2"
    turn = Turn(
        Thinking(f"so it is {secret}"), Text(f"it is {secret}"), ToolUse("Grep", {"pattern": secret}),
        characters_per_delta=3,
    )  # fmt: skip
    with answering(turn) as model:
        body = ASK | {
            "system": secret,
            "messages": [{"role": "user", "content": f"password = {secret}"}],
        }
        record(model, tmp_path, body, redact=lambda text: text.replace(secret, "[REDACTED]"))
    other = json.loads(json.dumps(body).replace(secret, "[REDACTED]"))
    assert replayed(tmp_path, other)[2].unmatched == [
        "judge: it differs from the recorded one in what was redacted"
    ]
    cassette_text = "".join(path.read_text() for path in tmp_path.iterdir())
    assert (
        secret not in cassette_text
        and KEY not in cassette_text
        and "x-api-key" not in cassette_text
    )
    assert cassette_text.count("[REDACTED]") == 5
    assert replayed(tmp_path, body)[0] == 200


def test_recording_again_changes_no_byte(tmp_path):
    for name in ("one", "two"):
        with answering(Turn("yes", ToolUse("Read", {"file_path": "a"}))) as model:
            record(model, tmp_path / name, ASK)
    entry, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert entry == two and len(entry) == 1


def test_a_cut_answer_is_not_recorded(tmp_path):
    with (
        answering(Turn("yes", fault=Fault("drop"))) as model,
        pytest.raises((http.client.HTTPException, OSError)),
    ):
        record(model, tmp_path / "c", ASK)
    assert not (tmp_path / "c").exists() or not list((tmp_path / "c").iterdir())


def test_a_cassette_that_cannot_be_written_is_an_error_at_the_end(tmp_path):
    (tmp_path / "c").write_text("a file")
    with answering(Turn("yes")) as model, pytest.raises(GatewayError, match="cannot be written"):
        record(model, tmp_path / "c", ASK)


WHOLE = '{"schema": 1, "digest": "x", "number": 1, "request": {}, "response": {"status": %s}}'


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema": 2}',
        '{"schema": 1, "digest": "x", "response": 3}',
        pytest.param(WHOLE % "100", id="an answer that lets wait for another"),
    ],
)
def test_a_cassette_that_is_broken_names_its_file(tmp_path, text):
    (tmp_path / "\x1b[2Jbad\n.json").write_text(text)
    with pytest.raises(GatewayError, match=r"/\\x1b\[2Jbad\\n\.json is not of schema 1"):
        Gateway(None, Wire("replay", tmp_path), 1.0, same_text)


@pytest.mark.slow
def test_replay_loads_no_network_library(tmp_path, environ):
    script = "import sys; from pathlib import Path\n"
    script += (
        "from vibe_gate.domain.model_wire import Wire; from vibe_gate.gateway import Gateway\n"
    )
    script += (
        f"with Gateway(None, Wire('replay', Path({str(tmp_path)!r})), 1.0, str) as g: g.url('x')\n"
    )
    script += "sys.exit('requests' in sys.modules or 'urllib3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], env=environ).returncode == 0


# The normal form.


def request_with(**changes):
    base = {
        "model": "m",
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=abc;"},
            {
                "type": "text",
                "text": "You are a Claude agent, built on Anthropic's Claude Agent SDK.",
            },
            {"type": "text", "text": "Judge.", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [
            {"role": "user", "content": "Look."},
            {
                "role": "system",
                "content": "<system-reminder>\nToday is Monday.\n</system-reminder>",
            },
        ],
        "tools": [{"name": "Read", "description": "one"}, {"name": "Glob", "description": "two"}],
        "max_tokens": 5,
        "metadata": {"user_id": "1"},
        "thinking": {"type": "adaptive"},
    }
    return base | changes


def test_what_changes_from_run_to_run_is_left_out():
    other = request_with(
        system="Judge.",
        messages=[{"role": "user", "content": [{"type": "text", "text": "Look."}]}],
        tools=[{"name": "Glob"}, {"name": "Read", "description": "another version"}],
        metadata={"user_id": "2"},
        max_tokens=9,
    )
    assert digest_request(normal_request(request_with(), {})) == digest_request(
        normal_request(other, {})
    )


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"system": "Judge kindly."},
        {"tools": [{"name": "Read"}]},
        {"tools": [{"name": "Read"}, {"name": "Glob"}, {"name": "StructuredOutput", "input_schema": {}}]},
        {"messages": [{"role": "user", "content": "Look. <system-reminder>x</system-reminder>"}]},
    ],
)  # fmt: skip
def test_what_means_something_is_kept(change):
    assert digest_request(normal_request(request_with(), {})) != digest_request(
        normal_request(request_with(**change), {})
    )


def test_results_stand_in_the_order_of_their_calls():
    def conversation(order, listing):
        calls = [{"type": "tool_use", "id": order[0], "name": "Read", "input": {"file_path": "a"}},
                 {"type": "tool_use", "id": order[1], "name": "Glob", "input": {"pattern": "*"}}]  # fmt: skip
        outputs = {order[0]: "text", order[1]: listing}
        results = [
            {"type": "tool_result", "tool_use_id": name, "content": outputs[name]}
            for name in sorted(order)
        ]
        return request_with(
            messages=[{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        )

    normalized = normal_request(conversation(("toolu_1", "toolu_2"), "a\nb"), {})
    two = normal_request(conversation(("toolu_9", "toolu_8"), "b\na"), {})
    assert normalized == two


def test_deltas_of_a_block_are_joined():
    def delta(index, kind, field, text):
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: text}}

    events = [delta(0, "text_delta", "text", "a"), {"type": "ping"}, delta(0, "text_delta", "text", "b"),
              delta(1, "text_delta", "text", "c"), delta(1, "signature_delta", "signature", "s")]  # fmt: skip
    assert join_path(events) == [
        delta(0, "text_delta", "text", "ab"),
        delta(1, "text_delta", "text", "c"),
    ]


# With the real CLI.


@pytest.mark.slow
def test_a_session_recorded_is_the_same_session_replayed(tmp_path, environ):
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in "abcde":
        (tree / f"{name}.py").write_text(f"{name} = 1\n")
    calls = [ToolUse("Read", {"file_path": f"{name}.py"}) for name in "abcde"] + [
        ToolUse("Glob", {"pattern": "*.py"})
    ]

    def once(upstream: Upstream | None, mode: str):
        places = {str(tmp_path): "{{folder}}"}
        with Gateway(
            upstream, Wire(mode, tmp_path / "c"), 1.0, same_text, placeholders=places
        ) as gateway:
            prompt = f"Judge what is in {tree}."
            return hold(session_in(tmp_path, gateway.url("judge"), environ, prompt=prompt))[
                0
            ], gateway

    with answering(
        Turn(Thinking("Let me see."), *calls), Turn(ToolUse("Grep", {"pattern": "1"})), {"ok": True}
    ) as model:
        first, _ = once(find_upstream(model.environ), "record")
    for name in "edcba":
        (tree / f"{name}.py").touch()
    second, gateway = once(None, "replay")
    assert (
        (first.status, first.answer) == (second.status, second.answer) == ("answered", {"ok": True})
    )
    assert gateway.unmatched == [] and len(list((tmp_path / "c").iterdir())) == 3


@pytest.mark.slow
def test_a_working_agent_is_replayed_in_another_clone_whatever_its_commands_say(tmp_path, environ):
    def work(clone: str, upstream: Upstream | None, mode: str):
        tree = tmp_path / clone
        tree.mkdir()
        (tree / "a.py").write_text("x = 1\n")
        places = {str(tree): "{{workspace}}"}
        with Gateway(
            upstream, Wire(mode, tmp_path / "c"), 1.0, same_text, placeholders=places
        ) as gateway:
            tools = ("Read", "Write", "Edit", "Bash", "TaskCreate", "TaskUpdate")
            url = gateway.url("fix", working=True)
            session = session_in(
                tmp_path, url, environ, folder=tree, schema=None, working=True, tools=tools
            )
            return hold(session)[0], (tree / "a.py").read_text(), gateway

    edit = ToolUse(
        "Edit", {"file_path": f"{tmp_path}/one/a.py", "old_string": "1", "new_string": "2"}
    )
    steps = (
        Turn(ToolUse("Read", {"file_path": "a.py"}), ToolUse("Bash", {"command": "date +%N; pwd"})),
        Turn(edit, ToolUse("TaskCreate", {"subject": "One", "description": ""})),
        Turn(ToolUse("Bash", {"command": "date +%N; exit 3"})),
        Turn(ToolUse("Write", {"file_path": "b.py", "content": "x"}), stop_reason="max_tokens"),
        Turn("Done."),
    )
    with answering(*steps, repeat_last=True) as model:
        first = work("one", find_upstream(model.environ), "record")
    second = work("two", None, "replay")
    assert second[2].unmatched == []
    assert (
        (first[0].status, first[0].text) == (second[0].status, second[0].text) == ("done", "Done.")
    )
    assert first[1] == second[1] == "x = 2\n"
    assert list(second[2].notes) == ["fix: what call 2 gave differs from the recording"]


@pytest.mark.slow
def test_a_cassette_of_format_1_is_still_replayed(tmp_path, environ):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("x = 1\n")
    cassette = Path(__file__).parents[1] / "cassettes" / "format-1"
    with Gateway(
        None, Wire("replay", cassette), 1.0, same_text, placeholders={str(tmp_path): "{{folder}}"}
    ) as gateway:
        ending, notes = hold(session_in(tmp_path, gateway.url("judge"), environ))
    assert gateway.unmatched == []
    assert (ending.status, ending.answer) == ("answered", {"ok": True})
    calls = [
        item["tool"] for item in notes.events if item.get("role") == "assistant" and "tool" in item
    ]
    assert calls == ["Read", "StructuredOutput"]
