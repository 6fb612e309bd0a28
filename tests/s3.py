"""S3 on loopback: moto's server, behind a proxy that counts requests and can fail them in every
way.
"""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from moto.server import ThreadedMotoServer

BUCKET = "reviews"
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>"
Fault = Callable[[str, str], str]
"""Of a method and a path: "" to let it through, "drop" before it is done, "lose" its answer after,
"deny", "hang".
"""


class S3:
    """A bucket. `seen` are the requests that came, `fault` decides about each."""

    def __init__(self, port: int) -> None:
        self.seen: list[tuple[str, str]] = []
        self.fault: Fault = lambda method, path: ""
        self.stopping = threading.Event()
        self._upstream = port
        handler = type("Handler", (_Handler,), {"s3": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.environ = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret-of-anybody",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def count(self, pattern: str) -> int:
        """How many requests match `METHOD PATH`."""
        return sum(bool(re.search(pattern, f"{method} {path}")) for method, path in self.seen)

    def pass_on(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, Any, bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self._upstream, timeout=30)
        upstream.request(method, path, body, headers)
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        return answer.status, answer.getheaders(), data


class _Handler(BaseHTTPRequestHandler):
    s3: S3
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        self.s3.seen.append((self.command, self.path))
        fault = self.s3.fault(self.command, path)
        if fault == "hang":
            self.s3.stopping.wait(30)
        if fault in ("drop", "hang"):
            self.close_connection = True
            return
        if fault == "deny":
            self._answer(403, [("Content-Type", "application/xml")], DENIED)
            return
        status, headers, data = self.s3.pass_on(self.command, self.path, dict(self.headers), body)
        if fault == "lose":
            self.close_connection = True
            return
        self._answer(status, headers, data)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def moto() -> Iterator[int]:
    """moto's server; its port. Imports take seconds, so modules share one."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    try:
        yield server.get_host_and_port()[1]
    finally:
        server.stop()


@contextmanager
def bucket(port: int) -> Iterator[S3]:
    """A new, empty bucket behind a proxy of its own."""
    s3 = S3(port)
    s3.pass_on("POST", "/moto-api/reset", {}, b"")
    s3.pass_on("PUT", f"/{BUCKET}", {}, b"")
    thread = threading.Thread(target=s3.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield s3
    finally:
        s3.stopping.set()
        s3.server.shutdown()
        s3.server.server_close()
        thread.join()
