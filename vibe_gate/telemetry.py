"""Traces to where OpenTelemetry's programs read them: an OTLP endpoint, or a file of OTLP JSON.

The only importer of opentelemetry and of protobuf, which are an extra. What its own variables say of headers,
certificates, compression, time and resource counts here as in any program.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import requests
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from urllib3.exceptions import HTTPError, ReadTimeoutError

from vibe_gate.domain import paths
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.span import Trace, TraceSpan
from vibe_gate.errors import InfrastructureError, StorageError, UsageError
from vibe_gate.version import __version__

SPANS_AT_ONCE = 256
"""Spans of one request, and of one line at most."""

MAX_LINE = 1_000_000
"""Bytes of a line of a file: a collector's file receiver takes lines of 1 MiB, if it is not told otherwise."""

TIMEOUT_S = 10.0
"""Seconds that an endpoint has for each request, as OpenTelemetry's exporters give it without their variables."""

MAX_ANSWER = 1_000_000
"""Bytes of an answer that are read: one that took everything is empty, else it has a number and a sentence."""

TRACES = "/v1/traces"
"""The path of the signal, below the address of an endpoint."""

_NS = 1_000_000


def write(traces: Iterable[Trace], target: Path) -> tuple[int, int]:
    """Write a new file of OTLP JSON, a document a line; returns how many traces and spans.

    Equal traces give equal bytes. UsageError: `target` exists, or its folder does not. StorageError.
    """
    shown = paths.quote(str(target))
    if os.path.lexists(target):
        raise UsageError(f"{shown} exists already; name another file.")
    if not target.parent.is_dir():
        raise UsageError(f"{shown} cannot be written: there is no folder {paths.quote(str(target.parent))}.")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    resource, runs, spans = _resource(), 0, 0
    try:
        with temporary.open("x", encoding="utf-8") as file:
            for trace in traces:
                runs, spans = runs + 1, spans + len(trace.spans)
                for part in _parts(trace, resource):
                    file.writelines(f"{line}\n" for line in _lines(part))
        temporary.rename(target)
    except OSError as error:
        raise StorageError(f"{shown} was not written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return runs, spans


def send(traces: Iterable[Trace], url: str, environ: Mapping[str, str]) -> tuple[int, int]:
    """Send traces to the endpoint of `endpoint_of` as http/protobuf; returns how many traces and spans.

    InfrastructureError: it cannot be reached, is too slow, or did not take everything.
    """
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # what matters of it is told here
    seconds, session = _seconds(environ), _NotingSession()
    exporter = OTLPSpanExporter(url, timeout=seconds, session=session)
    resource, runs, spans = _resource(), 0, 0
    for trace in traces:
        for part in _parts(trace, resource):
            if why := _sent(exporter, session, part, seconds):
                before = f" {counted(runs, 'run')} had been sent before it." if runs else ""
                raise InfrastructureError(f"A run could not be sent to {shown_url(url)}: {why}.{before}")
        runs, spans = runs + 1, spans + len(trace.spans)
    exporter.shutdown()
    return runs, spans


def endpoint_of(url: str) -> str:
    """The endpoint for traces: `url`, and the path of the signal if it lacks that. UsageError."""
    address, why = _address(url)
    if address is None:
        raise UsageError(f"{why} for --otlp; write a file, or a URL like http://localhost:4318.")
    if address.username is not None or address.password is not None:
        raise UsageError("A URL with a password is not taken for --otlp; set OTEL_EXPORTER_OTLP_HEADERS instead.")
    path = address.path.rstrip("/")
    return address._replace(path=path if path.endswith(TRACES) else path + TRACES, fragment="").geturl()


def _address(url: str) -> tuple[SplitResult | None, str]:
    try:
        address = urlsplit(url)
        if address.scheme in ("http", "https") and address.hostname and address.port != 0:
            return address, ""
    except ValueError:
        pass
    # What cannot be taken apart may have a password or a key anywhere.
    shown = "What was given" if {"@", "?"} & set(url) else paths.quote(url)
    return None, f"{shown} is not an address over http"


def shown_url(url: str) -> str:
    """The address for people: without a query, which may be a key."""
    return safe(urlsplit(url)._replace(query="").geturl())


def _seconds(environ: Mapping[str, str]) -> float:
    for name in (OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT):
        if given := environ.get(name):
            try:
                return min(max(float(given), 0.01), 86_400.0)
            except ValueError:
                raise UsageError(f"{name} is not a number of seconds: {paths.quote(given)}.") from None
    return TIMEOUT_S


class _NotingSession(requests.Session):
    """Knows why the last request did not do what it was to do; the exporter says only that.

    Of an answer it reads at most `MAX_ANSWER` bytes, as they come: compressed, a few could fill the memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.headers["Accept-Encoding"] = "identity"
        self.auth = lambda request: request  # else ~/.netrc would give a password
        self.why = ""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - the base class' signature
        try:
            with super().request(*args, **kwargs | {"stream": True}) as response:
                body = response.raw.read(MAX_ANSWER, decode_content=False)
        except (OSError, HTTPError) as error:
            self.why = _reason(error)
            raise
        self.why = _refusal(response, body)
        return _without_body(response)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Follow no redirection: the base class would read the whole of its answer, too."""


def _without_body(response: requests.Response) -> requests.Response:
    """What the exporter goes by: the status, and after which time it may try again."""
    bare = requests.Response()
    bare.status_code, bare.reason, bare.headers = response.status_code, response.reason, response.headers
    bare.raw = BytesIO()
    return bare


def _reason(error: BaseException) -> str:
    """What the system said, in few words."""
    if isinstance(error, requests.Timeout | ReadTimeoutError):
        return "it gave no answer in time"
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    said = str(getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
    if not said[:2].isupper():  # "URL has an invalid label"
        said = said[:1].lower() + said[1:]
    return safe(said).rstrip(".")


def _refusal(response: requests.Response, body: bytes) -> str:
    """Why the answer is none; "" if everything was taken. The exporter takes a redirection for success."""
    if not 200 <= response.status_code < 300:
        return f"HTTP {response.status_code} {safe(response.reason or '')[:100]}".rstrip()
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:  # "OK" of a server that answers in text, or what was compressed all the same
        return ""
    return f"it rejected {counted(partial.rejected_spans, 'span')}" if partial.rejected_spans > 0 else ""


def _sent(exporter: OTLPSpanExporter, session: _NotingSession, part: Sequence[ReadableSpan], seconds: float) -> str:
    """Send some spans; why they were not taken, "" if they were."""
    results: list[SpanExportResult] = []
    session.why = ""
    # An answer that comes a byte at a time never lets the exporter's own time run out.
    thread = threading.Thread(target=lambda: results.append(exporter.export(part)), daemon=True)
    thread.start()
    thread.join(2 * seconds)
    if not results:
        return "it gave no answer in time"
    return session.why or ("" if results[0] is SpanExportResult.SUCCESS else "the request could not be made")


def _resource() -> Resource:
    """What the spans are of; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES may say more."""
    return Resource({"service.name": "vibe-gate", "service.version": __version__}).merge(
        OTELResourceDetector().detect()
    )


def _parts(trace: Trace, resource: Resource) -> Iterator[list[ReadableSpan]]:
    scope = InstrumentationScope("vibe_gate", __version__)
    for start in range(0, len(trace.spans), SPANS_AT_ONCE):
        yield [_readable(trace.id, span, resource, scope) for span in trace.spans[start : start + SPANS_AT_ONCE]]


def _readable(trace_id: str, span: TraceSpan, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    def context(span_id: str) -> SpanContext:
        return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))

    return ReadableSpan(
        span.name,
        context(span.id),
        context(span.parent) if span.parent else None,
        resource,
        span.attributes,
        [Event(event.name, event.attributes, event.at * _NS) for event in span.events],
        [Link(context(before)) for before in span.after],
        SpanKind.CLIENT if span.is_request else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.start * _NS,
        end_time=span.end * _NS,
        instrumentation_scope=scope,
    )


def _lines(spans: Sequence[ReadableSpan]) -> Iterator[str]:
    """The spans as documents, each short enough to be a line."""
    document = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    line = json.dumps(_with_hex_ids(document), ensure_ascii=False, separators=(",", ":"))
    if len(spans) == 1 or len(line.encode()) <= MAX_LINE:
        yield line
        return
    middle = len(spans) // 2
    yield from _lines(spans[:middle])
    yield from _lines(spans[middle:])


def _with_hex_ids(document: Any) -> Any:  # noqa: ANN401 - any JSON
    """OTLP in JSON has its ids in hex, where protobuf's own JSON has base64."""
    if isinstance(document, list):
        return [_with_hex_ids(value) for value in document]
    if not isinstance(document, dict):
        return document
    return {
        name: base64.b64decode(value).hex() if name in _IDS else _with_hex_ids(value)
        for name, value in document.items()
    }


_IDS = ("traceId", "spanId", "parentSpanId")
