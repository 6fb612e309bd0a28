"""`bundles export --otlp` as a user runs it: a collector of ours that listens on loopback, and
files.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from bundle_words import KEY, START, Clock, OneSecretRedactor, record_a_review, summary_of
from command import run_unforked
from program import git
from report.written_runs import ATTACK, write

from vibe_gate.store.store import open_store

pytest.importorskip("opentelemetry.exporter", reason="opentelemetry is not installed here")

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.semconv._incubating.attributes import (
    error_attributes,
    gen_ai_attributes,
    vcs_attributes,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle-1"


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent; answers as it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[str, dict[str, str], service.ExportTraceServiceRequest]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for _, _, request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        request = service.ExportTraceServiceRequest.FromString(body)
        self.server.received.append(
            (self.path, {k.lower(): v for k, v in self.headers.items()}, request)
        )
        self.send_response(self.server.status)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()


def record_checks(repo: Path) -> str:
    """A sealed run of checks alone; its id."""
    run = open_store(repo, OneSecretRedactor(), Clock()).begin(
        KEY, START, {"workflow": "review", "prompt": "p"}
    )
    run.event("node.added", "checks", kind="checks")
    run.event("node.status", "checks", status="RUNNING")
    run.event("node.status", "checks", status="DONE")
    run.seal(summary_of(run))
    return run.run_id


def attributes_of(span: Any) -> dict[str, Any]:
    """Attributes by name."""
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in span.attributes
    }


def find_span(spans: list[Span], name: str) -> Span:
    (match,) = (span for span in spans if span.name == name)
    return match


def test_a_run_arrives_as_a_tree_of_spans_with_times_tokens_cost_and_outcome_and_without_contents(
    bundles, repo, collector
):
    run_id = write(repo).name
    export = bundles(
        repo, "export", "--otlp", collector.url, OTEL_EXPORTER_OTLP_HEADERS="x-api-key=k%201"
    )
    assert (export.code, export.err) == (0, "")
    assert export.out == f"{collector.url}/v1/traces: 1 run, {len(collector.spans)} spans.\n"
    ((path, headers, request),) = collector.received
    assert (path, headers["x-api-key"], headers["content-type"]) == (
        "/v1/traces",
        "k 1",
        "application/x-protobuf",
    )
    assert attributes_of(request.resource_spans[0].resource)["service.name"] == "vibe-gate"
    spans = collector.spans
    trace = hashlib.sha256(run_id.encode()).digest()[:16]
    assert {span.trace_id for span in spans} == {trace}
    run, judge, turn = (
        find_span(spans, name)
        for name in ("invoke_workflow review", "judge judge-quality", "agent fix")
    )
    assert (run.parent_span_id, judge.parent_span_id, turn.parent_span_id) == (
        b"",
        run.span_id,
        run.span_id,
    )
    assert [link.span_id for link in turn.links] == [judge.span_id]
    assert (
        attributes_of(judge)["vibe_gate.outcome"] == "fail"
        and judge.status.code == Status.STATUS_CODE_UNSET
    )
    verdict = {"vibe_gate.outcome": "fail", "vibe_gate.exit_code": 1, "vcs.ref.head.revision": KEY}
    verdict |= dict.fromkeys(("gen_ai.workflow.name", "gen_ai.agent.name"), "review")
    assert verdict.items() <= attributes_of(run).items()
    assert (
        attributes_of(run)["vibe_gate.cost.usd"] > 0 and run.status.code == Status.STATUS_CODE_UNSET
    )
    criteria = [attributes_of(event) for event in run.events]
    assert ("quality/types", "fail") in [
        (criterion["gen_ai.evaluation.name"], criterion["gen_ai.evaluation.score.label"])
        for criterion in criteria
    ]
    agent_span = find_span(spans, "invoke_agent judge-quality")
    assert (
        agent_span.parent_span_id == judge.span_id
        and agent_span.start_time_unix_nano < agent_span.end_time_unix_nano
    )
    expected = {
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 60,
        "vibe_gate.cost.usd": 0.0125,
    }
    expected |= {"gen_ai.usage.cache_read.input_tokens": 400}  # its total does not tell
    expected |= {"gen_ai.request.model": "claude-sonnet-5", "gen_ai.provider.name": "anthropic"}
    assert expected.items() <= attributes_of(agent_span).items()
    request_of_judge = next(span for span in spans if span.parent_span_id == agent_span.span_id)
    assert (request_of_judge.name, request_of_judge.kind) == (
        "chat claude-sonnet-5",
        Span.SPAN_KIND_CLIENT,
    )
    assert attributes_of(request_of_judge)["gen_ai.response.id"] == "m1"
    calls = [span for span in spans if span.name.startswith("execute_tool")]
    assert [attributes_of(call)["vibe_gate.tool.state"] for call in calls] == [
        *["completed"] * 3,
        "failed",
        "denied",
    ]
    assert (
        calls[3].status.code == Status.STATUS_CODE_ERROR
        and attributes_of(calls[3])["error.type"] == "failed"
    )
    everything = str(request)
    assert not any(
        word in everything
        for word in ("module_", "Repair what", "no such file", "A number is no text")
    )
    conventions = "".join(
        map(inspect.getsource, (gen_ai_attributes, vcs_attributes, error_attributes))
    )
    used = {attribute.key for span in (*spans, *run.events) for attribute in span.attributes}
    assert [
        name
        for name in used
        if not name.startswith("vibe_gate.") and f'"{name}"' not in conventions
    ] == []


def test_the_same_runs_give_the_same_ids_and_a_file_of_the_same_bytes(
    bundles, repo, collector, tmp_path
):
    write(repo)
    first = record_checks(repo)
    old = repo / ".vibe-artifacts" / KEY / "20260102T030405678Z-fde914e0"
    shutil.copytree(GOLDEN, old)  # of the first version of the format
    export = bundles(repo, "export", "--all", "--otlp", "../a.json", "--json")
    assert (export.code, export.err) == (0, "")
    assert (export.json["file"], export.json["runs"]) == ("../a.json", 3)
    assert bundles(repo, "export", "--all", "--otlp", "../b.json").code == 0
    lines = (tmp_path / "a.json").read_bytes()
    assert lines == (tmp_path / "b.json").read_bytes() and lines.count(b"\n") == 3
    in_file = [
        span
        for line in lines.splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert bundles(repo, "export", "--all", "--otlp", f"{collector.url}/v1/traces").code == 0
    sent = [
        (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
        for span in collector.spans
    ]
    assert sent == [
        (span["traceId"], span["spanId"], span.get("parentSpanId", "")) for span in in_file
    ]
    assert len({row[:2] for row in sent}) == len(sent)  # no two spans have the same ids
    of_first = [
        span
        for span in in_file
        if span["traceId"] == hashlib.sha256(first.encode()).hexdigest()[:32]
    ]
    assert [span["name"] for span in of_first] == ["invoke_workflow review", "checks"]
    died = [span for span in in_file if span.get("status", {}).get("code") == 2]
    assert {span["status"]["message"] for span in died} >= {"died", "failed"}


def test_what_a_gate_runs_is_below_it_and_what_comes_after_it_is_linked(bundles, repo, tmp_path):
    run = open_store(repo, OneSecretRedactor(), Clock()).begin(KEY, START, {"workflow": "fix"})
    for node, kind, before in (
        ("review", "gate", ""),
        ("checks", "checks", "review"),
        ("judge", "judge", "checks"),
    ):
        run.event("node.added", node, kind=kind)
        if before:
            run.event("edge.added", **{"from": before, "to": node})
        run.event("node.status", node, status="RUNNING")
        if node == "checks":
            run.event("node.status", node, status="DONE")
    for node in ("judge", "review"):
        run.event("node.status", node, status="DONE", outcome="fail")
    run.event("edge.added", **{"from": "review", "to": "fix"})  # an edge may come before its node
    run.event("node.added", "fix", kind="stage", agent="fixer")
    run.event("node.status", "fix", status="ERROR")
    run.seal(summary_of(run))
    assert bundles(repo, "export", "--otlp", "../a.json").code == 0
    (scope,) = json.loads((tmp_path / "a.json").read_text())["resourceSpans"][0]["scopeSpans"]
    names = {span["spanId"]: span["name"] for span in scope["spans"]}
    tree = {span["name"]: names.get(span.get("parentSpanId")) for span in scope["spans"]}
    assert tree == {
        "invoke_workflow review": None, "gate review": "invoke_workflow review", "checks": "gate review",
        "judge": "gate review", "stage fix": "invoke_workflow review",
    }  # fmt: skip
    linked = {
        span["name"]: [names[link["spanId"]] for link in span.get("links", [])]
        for span in scope["spans"]
    }
    assert (linked["checks"], linked["judge"], linked["stage fix"]) == (
        [],
        ["checks"],
        ["gate review"],
    )
    assert scope["spans"][-1]["status"] == {"message": "ERROR", "code": 2}


def test_contents_are_there_if_they_are_asked_for_and_a_span_has_so_much_of_them(
    bundles, repo, tmp_path
):
    write(repo, attack=ATTACK)
    assert bundles(repo, "export", "--otlp", "../a.json", "--contents").code == 0
    text = (tmp_path / "a.json").read_text()
    for name in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments"):
        assert name in text
    assert "Repair what the judge found." in text and "module_0.py" in text


@pytest.mark.slow
def test_hostile_names_hide_nothing_and_numbers_fit(bundles, repo, tmp_path):
    write(repo, attack=ATTACK, calls=300)
    export = bundles(repo, "export", "--otlp", "../a.json")
    assert (export.code, export.err) == (0, "")
    lines = (tmp_path / "a.json").read_text().splitlines()
    assert len(lines) > 1 and all(json.loads(line) for line in lines)
    names = [part for line in lines for part in line.split('"stringValue":')[1:]]
    assert (
        "\\\\u202e" in "".join(names)
        and "\u202e" not in "".join(names)
        and "\\u001b" not in "".join(names)
    )
    run = open_store(repo, OneSecretRedactor(), Clock()).begin(KEY, START, {"workflow": "w" * 9000})
    run.event("edge.added", **{"from": "a", "to": "a"})
    run.event("node.added", "", kind="")
    run.event("turn.started", "a", turn="turn-001")
    run.close()
    turn = run.directory / "nodes" / "a" / "turn-001"
    turn.mkdir(parents=True)
    message_fields = r'"message_id":"\ud800","model":"\ud800","tool":"\ud800","content":"\ud800","role":"assistant"'
    usage = '{"seq":1,"ts":99999999999999999999,"type":"usage","tokens":{"input":99999999999999999999,"output":-1},'
    usage += '"waits":[[4,99999999999999999999]]}'
    (turn / "events.ndjson").write_text(
        f'{{"seq":0,"ts":-5,"type":"message",{message_fields}}}\n{usage}\n'
    )
    hook = r'"hook":"PreToolUse","tool_use_id":"\ud800","tool_name":"\ud800","parent_tool_use_id":"\ud800"'
    (turn / "hooks.ndjson").write_text(f'{{"seq":0,"ts":-5,{hook}}}\n')
    export = bundles(repo, "export", run.run_id, "--otlp", "../b.json", "--contents")
    assert (export.code, export.err) == (0, "")
    assert (
        '{"key":"vibe_gate.waited_ms","value":{"intValue":"9223372036854775807"}}'
        in (tmp_path / "b.json").read_text()
    )


REFUSALS = [
    (401, "401"),
    (302, "HTTP 302 names another address"),
]


def test_an_endpoint_that_does_not_take_it_is_a_sentence_and_exit_3(bundles, repo, collector):
    record_checks(repo)
    for collector.status, reason in REFUSALS:
        export = bundles(repo, "export", "--otlp", f"{collector.url}/base?key=hidden")
        assert (export.code, export.out) == (3, "")
        assert export.err.startswith(
            f"vibe-gate: A run could not be sent to {collector.url}/base/v1/traces: "
        )
        assert (reason in export.err, "hidden" in export.err) == (True, False), export.err
    with Collector() as closed:
        url = closed.url
    export = bundles(
        repo, "export", "--otlp", f"{url}?key=hidden", OTEL_EXPORTER_OTLP_TRACES_TIMEOUT="0.1"
    )
    assert (export.code, "could not be sent" in export.err, "hidden" in export.err) == (
        3,
        True,
        False,
    )


USAGE = [
    ("http://u:secret@127.0.0.1:1", "set OTEL_EXPORTER_OTLP_HEADERS"),
    ("grpc://127.0.0.1:4317", "is not an address over http"),
    ("localhost:4318", "is not an address over http"),
    ("https://u:secret@127.0.0.1:99999/", "What was given is not an address over http"),
    ("u:secret@127.0.0.1:4318", "What was given is not an address over http"),
    ("http://127.0.0.1:0/?key=secret", "What was given is not an address over http"),
    ("//127.0.0.1", "is not an address over http"),
    ("there.json", "exists already"),
    ("no/such.json", "folder no does not exist; create it first"),
    ("there.json/x", "there.json is not a folder"),
    (f"{'a' * 300}.json", "cannot be written: File name too long"),
    ("", "needs a FILE or a URL"),
]


def test_what_cannot_be_meant_is_exit_2(bundles, repo):
    record_checks(repo)
    (repo / "there.json").touch()
    for target, sentence in USAGE:
        export = bundles(repo, "export", "--otlp", target)
        assert (export.code, sentence in export.err, "secret" in export.err) == (2, True, False), (
            export.err
        )
    assert bundles(repo, "export", "--otlp", "a.json", "-o", "b.tar.xz").code == 2
    assert bundles(repo, "export", "--contents").code == 2
    run = open_store(repo, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    assert "is still running" in bundles(repo, "export", run.run_id, "--otlp", "a.json").err
    run.close()
    assert bundles(repo, "export", run.run_id, "--otlp", "a.json").code == 0  # what it came to
    assert '"incomplete"' in (repo / "a.json").read_text()


def test_a_damaged_or_foreign_run_is_exit_5_and_leaves_no_file(bundles, repo, collector):
    run = open_store(repo, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    record_a_review(run)
    run.seal(summary_of(run))
    git(repo, "add", "-f", str(run.directory / "run.json"))
    assert bundles(repo, "export", run.run_id, "--otlp", "a.json").code == 5
    git(repo, "rm", "-q", "--cached", str(run.directory / "run.json"))
    log = run.directory / "nodes/judge-quality/turn-001/events.ndjson"
    log.write_bytes(log.read_bytes().replace(b"1200", b"1201"))
    for target in ("a.json", collector.url):
        export = bundles(repo, "export", "--otlp", target)
        assert (export.code, "changed after sealing" in export.err) == (5, True), export.err
    assert not [*repo.glob("a.json*"), *repo.glob("*.part")] and not collector.received


@pytest.mark.slow
def test_without_the_extra_a_sentence_names_it(repo, environ, tmp_path):
    """A process of its own: what is imported in this one is there."""
    record_checks(repo)
    (tmp_path / "without" / "opentelemetry").mkdir(parents=True)
    (tmp_path / "without" / "opentelemetry" / "__init__.py").touch()
    path = f"{tmp_path / 'without'}:{Path(__file__).parents[2]}"
    export = run_unforked(
        "bundles", "export", "--otlp", "a.json", cwd=repo, environ={**environ, "PYTHONPATH": path}
    )
    assert export.code == 2 and "pip install 'vibe-gate[otlp]'" in export.err
