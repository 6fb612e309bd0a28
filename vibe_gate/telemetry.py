"""Traces to where OpenTelemetry's programs read them: an OTLP endpoint, or a file of OTLP JSON.

The only importer of opentelemetry and of protobuf, which are an extra. Its own variables say what
headers, certificates, compression, time limit and resource are, as in any program.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO
from urllib.parse import SplitResult, urlsplit

import requests
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from vibe_gate.domain import paths
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.span import Trace, TraceSpan
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.version import __version__

SPANS_PER_REQUEST = 256
"""Spans of one request, and of one line of a file: receivers bound both."""

TRACES = "/v1/traces"
"""The path of the signal, below the address of an endpoint."""

_NS_PER_MS = 1_000_000
_IDS = ("traceId", "spanId", "parentSpanId")


def write_traces(traces: Iterable[Trace], file: BinaryIO) -> tuple[int, int]:
    """Write OTLP JSON, a document a line; returns how many traces and spans.

    Equal traces give equal bytes. OSError.
    """
    resource = _resource()
    trace_count = span_count = 0
    for trace in traces:
        for batch in _batches(trace, resource):
            file.write(f"{_json_line(batch)}\n".encode())
        trace_count += 1
        span_count += len(trace.spans)
    return trace_count, span_count


def send_traces(traces: Iterable[Trace], url: str) -> tuple[int, int]:
    """Send traces to the endpoint of `traces_endpoint` as http/protobuf; returns how many traces
    and spans.

    InfrastructureError: a request failed.
    """
    log = _LastMessage()
    logging.getLogger("opentelemetry.exporter").addHandler(log)
    session = requests.Session()
    session.hooks["response"].append(_refuse_redirect)
    exporter = OTLPSpanExporter(url, session=session)
    resource = _resource()
    trace_count = span_count = 0
    for trace in traces:
        for batch in _batches(trace, resource):
            if exporter.export(batch) is not SpanExportResult.SUCCESS:
                raise _export_error(url, log.message, trace_count)
        trace_count += 1
        span_count += len(trace.spans)
    exporter.shutdown()
    return trace_count, span_count


def traces_endpoint(url: str) -> str:
    """The endpoint for traces: `url`, and the path of the signal if it lacks that. UsageError."""
    address = _parse_address(url)
    if address is None:
        name = paths.quote(url)
        if "@" in url or "?" in url:  # it may have a password or a key anywhere
            name = "What was given"
        raise UsageError(
            f"{name} is not an address over http for --otlp; write a file, or a URL like http://localhost:4318."
        )
    if address.username is not None or address.password is not None:
        raise UsageError(
            "A URL with a password is not taken for --otlp; set OTEL_EXPORTER_OTLP_HEADERS instead."
        )
    path = address.path.rstrip("/")
    if not path.endswith(TRACES):
        path += TRACES
    return address._replace(path=path, fragment="").geturl()


def url_without_query(url: str) -> str:
    """The address for people: its query may be a key."""
    return safe(urlsplit(url)._replace(query="").geturl())


class _LastMessage(logging.Handler):
    """The last message of the exporter, which tells a reason to its log alone."""

    message = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.message = record.getMessage()


def _refuse_redirect(response: requests.Response, **_: object) -> None:
    """Raise at a redirection: the exporter does not follow it, and takes it for success."""
    if response.is_redirect:
        raise requests.TooManyRedirects(f"HTTP {response.status_code} names another address")


def _export_error(url: str, message: str, sent_traces: int) -> InfrastructureError:
    query = urlsplit(url).query
    if query:
        message = message.replace(query, "***")
    reason = safe(message).rstrip(".")
    sentence = f"A run could not be sent to {url_without_query(url)}: {reason}."
    if sent_traces:
        sentence += f" {counted(sent_traces, 'run')} had been sent before it."
    return InfrastructureError(sentence)


def _parse_address(url: str) -> SplitResult | None:
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError:
        return None
    if address.scheme not in ("http", "https") or not address.hostname or port == 0:
        return None
    return address


def _resource() -> Resource:
    """What the spans are of; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES may say more."""
    resource = Resource({"service.name": "vibe-gate", "service.version": __version__})
    return resource.merge(OTELResourceDetector().detect())


def _batches(trace: Trace, resource: Resource) -> Iterator[list[ReadableSpan]]:
    for start in range(0, len(trace.spans), SPANS_PER_REQUEST):
        batch = trace.spans[start : start + SPANS_PER_REQUEST]
        yield [_readable_span(trace.id, span, resource) for span in batch]


def _readable_span(trace_id: str, span: TraceSpan, resource: Resource) -> ReadableSpan:
    status = Status(StatusCode.UNSET)
    if span.error:
        status = Status(StatusCode.ERROR, span.error)
    events = []
    for event in span.events:
        events.append(Event(event.name, event.attributes, event.at * _NS_PER_MS))
    return ReadableSpan(
        span.name,
        _span_context(trace_id, span.id),
        _span_context(trace_id, span.parent) if span.parent else None,
        resource,
        span.attributes,
        events,
        [Link(_span_context(trace_id, span_id)) for span_id in span.after],
        SpanKind.CLIENT if span.is_request else SpanKind.INTERNAL,
        status=status,
        start_time=span.start * _NS_PER_MS,
        end_time=span.end * _NS_PER_MS,
        instrumentation_scope=InstrumentationScope("vibe_gate", __version__),
    )


def _span_context(trace_id: str, span_id: str) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)


def _json_line(spans: list[ReadableSpan]) -> str:
    document = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    return json.dumps(_with_hex_ids(document), ensure_ascii=False, separators=(",", ":"))


def _with_hex_ids(document: Any) -> Any:  # noqa: ANN401 - any JSON
    """OTLP in JSON has its ids in hex, where protobuf's own JSON has base64."""
    if isinstance(document, list):
        return [_with_hex_ids(value) for value in document]
    if not isinstance(document, dict):
        return document
    converted = {}
    for name, value in document.items():
        if name in _IDS:
            converted[name] = base64.b64decode(value).hex()
        else:
            converted[name] = _with_hex_ids(value)
    return converted
