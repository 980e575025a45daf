"""Bodies of requests on the way to their types: small ones on the loop, large ones on a thread, one at a time.

What must stay true: no body keeps the loop for longer than some ten milliseconds, and none costs more memory than
four times its bytes and what `REQUEST_VALUES_MAX` values need. So what is large is looked at before it is decoded.
"""

import asyncio
from typing import Any

from goqueue.api.check import Doubtful, decode_body, decode_quickly, explain
from goqueue.api.endpoint import Endpoint
from goqueue.api.problems import ROOT, Report
from goqueue.api.structure import Structure, TooDeep, TooManyValues, scan
from goqueue.errors import RequestTooLarge
from goqueue.limits import DECODED_AT_ONCE, EXPLAINED_AT_ONCE, JSON_DEPTH_MAX, REQUEST_VALUES_MAX


class BodyDecoder:
    """Decodes the bodies of all requests."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        """Of large bodies: several at once would not be done sooner, and keep the loop waiting for the GIL."""

    def decode(self, row: Endpoint, body: bytearray) -> Any:
        """The body as a value of the endpoint's type, or a coroutine that makes it, where that takes long.

        Raises RequestInvalid with all problems, and so does the coroutine.
        """
        assert row.body is not None, "the endpoint takes a body"
        if len(body) > DECODED_AT_ONCE:
            return self._on_thread(row.decode_large or _decode_large, row.body, body)
        try:
            return decode_quickly(row.body, body)
        except Doubtful as doubt:
            if len(body) <= EXPLAINED_AT_ONCE:
                return explain(row.body, body, doubt)
            return self._on_thread(explain, row.body, body, doubt)

    async def _on_thread(self, job: Any, *given: Any) -> Any:
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(None, job, *given)


def too_large(row: Endpoint, body: bytearray) -> RequestTooLarge:
    """The refusal of what is larger than anything that this endpoint has a use for."""
    return RequestTooLarge(
        f"the body has {len(body):,} bytes, {row.method} {row.path} takes at most {row.body_bytes:,}",
        hint="send several smaller requests",
    )


def _decode_large(kind: type, body: bytearray) -> Any:
    scan_body(body, REQUEST_VALUES_MAX)
    return decode_body(kind, body)


def scan_body(body: bytes | bytearray, values_max: int) -> Structure:
    """The structure of a body, or RequestInvalid where it has too much of it."""
    report, hint = Report("the body"), None
    try:
        return scan(body, values_max)
    except TooManyValues:
        problem, hint = f"has more than {values_max:,} names and values", "send several smaller requests"
    except TooDeep:
        problem = f"is nested deeper than {JSON_DEPTH_MAX} levels"
    report.add(ROOT, problem, hint)
    raise report.refusal()
