"""A small asynchronous HTTP client. It never sends anything twice: its users decide what a lost answer means."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        """The code of an error; "" if it has none."""
        with suppress(msgspec.MsgspecError, AttributeError):
            return str(self.json.get("code", ""))
        return ""


class Unanswered(Exception):
    """The request may have been carried out or not."""


class NotConnected(Unanswered):
    """The request was not sent."""


class HttpClient:
    """Requests one after the other, to any address; one connection to each is kept until the end of its block."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(
        self,
        url: str,
        method: str,
        path: str,
        body: bytes = b"",
        headers: tuple[tuple[str, str], ...] = (),
        *,
        seconds: float,
    ) -> Answer:
        """Send one request. Raises Unanswered."""
        place = urlsplit(url)
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await self._connection(url, place.hostname or "", place.port or 80)
                fields = (("host", place.netloc), ("content-length", str(len(body))), *headers)
                lines = "".join(f"{name}: {text}\r\n" for name, text in fields)
                writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
                return await self._answer(url, reader)
        except BaseException as error:
            self._drop(url)
            if isinstance(error, (OSError, TimeoutError, asyncio.IncompleteReadError)):
                raise Unanswered(f"{type(error).__name__}: {error}") from None
            raise

    async def _connection(self, url: str, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = self._open.get(url)
        if found is None or found[0].at_eof() or found[1].is_closing():
            self._drop(url)
            try:
                found = self._open[url] = await asyncio.open_connection(host, port, limit=1 << 24)
            except OSError as error:
                raise NotConnected(str(error)) from None
        return found

    async def _answer(self, url: str, reader: asyncio.StreamReader) -> Answer:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        fields = {name.strip().lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        if fields.get("connection", "").lower() == "close":
            self._drop(url)
        return Answer(int(first.split(" ", 2)[1]), body)

    def _drop(self, url: str) -> None:
        found = self._open.pop(url, None)
        if found is not None:
            found[1].transport.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for url in [*self._open]:
            self._drop(url)
