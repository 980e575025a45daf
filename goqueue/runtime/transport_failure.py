"""Says in plain words why an HTTP request got no answer, without the address, which may be a secret."""

import os
import socket
import ssl

from goqueue.quantities import format_duration


def describe_transport_failure(error: BaseException, seconds: float) -> str:
    """Return why a request failed. `seconds` is the limit of each of its steps."""
    import httpx  # noqa: PLC0415 - 50 ms that only a broker with a collector or a webhook needs

    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {format_duration(seconds)}"
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {format_duration(seconds)}"
    cause = _os_error(error)
    if isinstance(cause, socket.gaierror):
        return "unknown host"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted, or is for another host"
    if isinstance(cause, ssl.SSLError):
        return "it does not speak TLS as expected"
    if cause is not None and cause.errno:
        return os.strerror(cause.errno).lower()
    if isinstance(error, httpx.RemoteProtocolError):
        return "it closed the connection, or does not speak HTTP"
    return type(error).__name__


def _os_error(error: BaseException | None) -> OSError | None:
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error
