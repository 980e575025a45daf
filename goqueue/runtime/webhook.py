"""Sends the bodies of alerts to a webhook, on a thread, within a limit of time.

What must stay true: the address and the secret beside it are read from a file and appear in no error, no log line and
no answer; a webhook that hangs costs one thread, and a delivery waits for it at most `ALERT_SEND_SECONDS`.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.request import getproxies, proxy_bypass

import msgspec

from goqueue import __version__
from goqueue.errors import ConfigInvalid
from goqueue.limits import ALERT_SEND_SECONDS, ALERT_STEP_SECONDS, KIB
from goqueue.observe.alert_messages import WebhookFormat
from goqueue.quantities import format_duration
from goqueue.runtime.transport_failure import describe_transport_failure

_FILE_BYTES_MAX = 64 * KIB
_LINES_MAX = 2
_OK = 300
Bodies = Callable[[str], Sequence[dict[str, Any]]]
"""Makes the bodies, from the secret that PagerDuty's have."""


class WebhookError(Exception):
    """A delivery failed; the text is fit for logs and clients."""


class WebhookTarget(NamedTuple):
    """The address of a webhook, and the secret of the second line of its file."""

    address: str
    secret: str

    def __repr__(self) -> str:
        return "<WebhookTarget>"


def read_target(path: str, kind: WebhookFormat) -> WebhookTarget:
    """Read the file of the setting `alerts.webhook_file`; raise ConfigInvalid without its content."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file.read(_FILE_BYTES_MAX).splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _invalid(f"cannot be read: {reason}") from None
    if not lines or len(lines) > _LINES_MAX:
        raise _invalid("must have one line with the address, and perhaps one with a secret")
    secret = lines[1] if lines[1:] else ""
    if kind == "pagerduty" and not secret:
        raise _invalid("needs PagerDuty's routing key in its second line")
    scheme, _, rest = lines[0].partition("://")
    if scheme not in ("http", "https") or not rest.partition("/")[0] or not lines[0].isprintable():
        raise _invalid("must begin with an address such as https://hooks.example/...")
    if not secret.isascii() or not secret.isprintable():
        raise _invalid("has a secret with characters that a header cannot have")
    return WebhookTarget(lines[0], secret)


def _invalid(problem: str) -> ConfigInvalid:
    return ConfigInvalid(f"the file of alerts.webhook_file {problem}", problems=())


class Webhook:
    """One webhook. The file is read before each delivery, so that it can be replaced."""

    def __init__(self, path: str, kind: WebhookFormat) -> None:
        self.kind = kind
        self._path = path
        self._thread: threading.Thread | None = None
        read_target(path, kind)

    async def deliver(self, bodies: Bodies) -> None:
        """Send all bodies; raise WebhookError if one is not accepted."""
        if self._thread is not None and self._thread.is_alive():
            raise WebhookError("the previous request to the webhook still waits for an answer")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()

        def run() -> None:
            problem = self._send(bodies)
            try:
                loop.call_soon_threadsafe(_resolve, answer, problem)
            except RuntimeError:  # the broker has stopped meanwhile
                return

        self._thread = threading.Thread(target=run, name="goqueue-webhook", daemon=True)
        self._thread.start()
        try:
            async with asyncio.timeout(ALERT_SEND_SECONDS):  # wait_for swallows a cancellation if the answer is there
                problem = await answer
        except TimeoutError:
            raise WebhookError(f"the webhook did not answer within {format_duration(ALERT_SEND_SECONDS)}") from None
        if problem is not None:
            raise WebhookError(problem)

    def _send(self, bodies: Bodies) -> str | None:
        """Return why it failed, or None."""
        try:
            target = read_target(self._path, self.kind)
        except ConfigInvalid as error:
            return error.sentence
        try:
            return _post(target, bodies(target.secret), uses_bearer=self.kind != "pagerduty")
        except Exception as error:  # whatever a library raises may name the address
            return f"the webhook could not be reached: {describe_transport_failure(error, ALERT_STEP_SECONDS)}"


def _resolve(answer: "asyncio.Future[str | None]", problem: str | None) -> None:
    if not answer.done():
        answer.set_result(problem)


def _post(target: WebhookTarget, bodies: Sequence[dict[str, Any]], *, uses_bearer: bool) -> str | None:
    """Send requests over the transport: the client of httpx would log their address."""
    import httpx  # noqa: PLC0415 - brokers without a webhook do not need it

    address = httpx.URL(target.address)
    headers = {"content-type": "application/json", "user-agent": f"goqueue/{__version__}"}
    if uses_bearer and target.secret:
        headers["authorization"] = f"Bearer {target.secret}"
    steps = httpx.Timeout(ALERT_STEP_SECONDS).as_dict()
    proxy = None if proxy_bypass(address.host) else getproxies().get(address.scheme)
    with httpx.HTTPTransport(proxy=proxy) as transport:
        for body in bodies:
            content = msgspec.json.encode(body)
            request = httpx.Request("POST", address, headers=headers, content=content, extensions={"timeout": steps})
            response = transport.handle_request(request)
            response.close()
            if response.status_code >= _OK:
                return f"the webhook answered with status {response.status_code}"
    return None
