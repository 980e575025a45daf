"""An object store that is not ours, as a process of its own, and faults on the way to it."""

import http.client
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Self

import boto3

from goqueue.config import BackupConfig
from tests.processes import ROOT

PAGE = 7
"""Names in a page of a listing."""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "not-shown-anywhere"}

_numbers = count(1)


class MotoServer:
    """`with MotoServer() as store`: listens on a port of this machine until the end."""

    def __enter__(self) -> Self:
        words = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0")
        self._process = subprocess.Popen(
            words,
            cwd=ROOT,
            env={"MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "Running on http://127.0.0.1:" in line:
                self.port = int(line.rsplit(":", 1)[1])
                break
        threading.Thread(target=self._process.stderr.read, daemon=True).start()  # it logs each request
        self.url = f"http://127.0.0.1:{self.port}"
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def bucket(self) -> str:
        """Make a bucket that no other test has."""
        name = f"backups-{next(_numbers)}"
        self.client.create_bucket(Bucket=name)
        return name

    def names(self, bucket: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def content(self, bucket: str, name: str) -> bytes:
        found: bytes = self.client.get_object(Bucket=bucket, Key=name)["Body"].read()
        return found


def settings(url: str, **more: Any) -> BackupConfig:
    return BackupConfig(endpoint=url, allow_http=True, region="us-east-1", **more)


Fault = Callable[[str, str], str | int | None]
"""Takes the method and the path of a request; returns a status to answer instead, `cut` to end in the middle, `lost` to
do it and not answer, or `unconditional` to do it without its condition."""


class FaultyWay:
    """A proxy before a server: every request is first shown to a fault."""

    def __init__(self, port: int) -> None:
        self.fault: Fault = lambda _method, _path: None
        self.requests: list[tuple[str, str]] = []
        way = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None: ...

            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                way.requests.append((self.command, self.path))
                fault = way.fault(self.command, self.path)
                if isinstance(fault, int):
                    self._answer(fault, {}, b"<Error><Code>%s</Code></Error>" % _CODES[fault])
                    return
                there = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                sent = dict(self.headers)
                if fault == "unconditional":
                    sent = {name: text for name, text in sent.items() if not name.lower().startswith("if-")}
                there.request(self.command, self.path, body, sent)
                answer = there.getresponse()
                content = answer.read()
                there.close()
                if fault == "lost":
                    self.close_connection = True
                    return
                self._answer(answer.status, dict(answer.getheaders()), content, is_cut=fault == "cut")

            def _answer(self, status: int, headers: dict[str, str], content: bytes, *, is_cut: bool = False) -> None:
                self.send_response_only(status)
                for name, text in headers.items():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, text)
                length = headers.get("Content-Length", str(len(content))) if self.command == "HEAD" else len(content)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if is_cut else content)
                self.close_connection = self.close_connection or is_cut

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815 - as the server calls them

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


_CODES = {403: b"SignatureDoesNotMatch", 404: b"NoSuchKey", 500: b"InternalError", 503: b"SlowDown"}


def first(times: int, fault: str | int, *, method: str = "", path: str = "") -> Fault:
    """Return a fault of the first few requests of a kind."""
    left = iter(range(times))

    def one(asked: str, asked_path: str) -> str | int | None:
        fits = method in ("", asked) and path in asked_path
        return fault if fits and next(left, None) is not None else None

    return one


def either(*faults: Fault) -> Fault:
    """Return the fault of the first one that has any."""

    def one(method: str, path: str) -> str | int | None:
        return next((found for found in (fault(method, path) for fault in faults) if found is not None), None)

    return one
