"""The trace context of OpenTelemetry in messages: sent with them, and current while a handler runs.

Nothing of OpenTelemetry is imported here. A program that has not imported it has no current span, so it is looked up
among the loaded modules; where it is not installed, not even that is done.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from goqueue.wire.trace_context import TRACEPARENT, TraceContext, trace_headers

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, TraceState

    from goqueue.client.leased_message import Delivered
    from goqueue.client.message_encoding import Headers

_TRACE = "opentelemetry.trace"

SpanHook = Callable[["Delivered", "SpanContext | None"], AbstractContextManager[object]]
_process_span: SpanHook | None = None
"""Makes the span of a handler's call; set by `goqueue.client.otel`."""


@cache
def is_available() -> bool:
    """Return whether OpenTelemetry is installed."""
    return find_spec("opentelemetry") is not None and find_spec(_TRACE) is not None


def set_process_span(hook: SpanHook | None) -> None:
    global _process_span  # noqa: PLW0603 - one for the whole program, as OpenTelemetry's own provider
    _process_span = hook


def add_current_trace(headers: "Headers | None") -> "Headers | None":
    """Return headers with the current span, if there is one and they have no `traceparent` yet."""
    trace: Any = sys.modules.get(_TRACE) if is_available() else None
    get_span = getattr(trace, "get_current_span", None)  # absent while another thread imports it
    if get_span is None:
        return headers
    context = get_span().get_span_context()
    if not context.is_valid:
        return headers
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())
    if any(name.lower() == TRACEPARENT for name, _ in pairs):
        return headers
    trace_id, span_id = context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big")
    state = context.trace_state.to_header() if context.trace_state else ""
    return [*pairs, *trace_headers(TraceContext(trace_id, span_id, int(context.trace_flags), state))]


def span_context(found: TraceContext | None) -> "SpanContext | None":
    """Return the context of a message for OpenTelemetry, which must be loaded."""
    if found is None:
        return None
    trace: Any = sys.modules[_TRACE]
    context: SpanContext = trace.SpanContext(
        int.from_bytes(found.trace_id, "big"),
        int.from_bytes(found.span_id, "big"),
        is_remote=True,
        trace_flags=trace.TraceFlags(found.flags),
        trace_state=_trace_state(trace, found.state) if found.state else None,
    )
    return context


def _trace_state(trace: Any, text: str) -> "TraceState":
    """Return a state that is passed on as it came, though OpenTelemetry may not know the form of its keys."""
    state: TraceState = trace.TraceState.from_header([text])
    if state.to_header() != text:
        state = _kept_state(trace)()
        state.to_header = lambda: text  # type: ignore[method-assign]
    return state


@cache
def _kept_state(trace: Any) -> "type[TraceState]":
    """Return the class of states that count as present, though they show no members."""
    return type("KeptTraceState", (trace.TraceState,), {"__bool__": lambda _: True})


def processing(message: "Delivered") -> AbstractContextManager[object]:
    """Make the context of a message current: spans that its handler begins, and messages it sends, belong to it."""
    trace: Any = sys.modules.get(_TRACE)
    return nullcontext() if getattr(trace, "set_span_in_context", None) is None else _processing(trace, message)


@contextmanager
def _processing(trace: Any, message: "Delivered") -> Iterator[None]:
    from opentelemetry import context as current  # noqa: PLC0415 - loaded already, by `opentelemetry.trace`

    sender = span_context(message.trace_context)
    token = None
    if sender is not None:
        token = current.attach(trace.set_span_in_context(trace.NonRecordingSpan(sender)))
    try:
        with nullcontext() if _process_span is None else _process_span(message, sender):
            yield
    finally:
        if token is not None:
            current.detach(token)
