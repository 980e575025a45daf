"""The rows of traces."""

from goqueue import errors
from goqueue.api import traces
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import NO_PARTITION, NO_TOPIC

TRACE_ENDPOINTS = (
    Endpoint(
        "GET", "/topics/{topic}/partitions/{partition}/messages/{offset}/trace", traces.message_trace,
        "Trace a message: what happened to it and its copies", errors=(*NO_PARTITION, errors.TraceNotFound),
    ),
    Endpoint("GET", "/traces", traces.browse, "List traces, the newest first", may_be_large=True),
    Endpoint(
        "GET", "/traces/search", traces.search, "Search traces, the newest first", may_be_large=True,
        errors=NO_TOPIC,
    ),
    Endpoint("GET", "/traces/stats", traces.stats, "Statistics of traces"),
    Endpoint(
        "GET", "/traces/{trace}", traces.trace, "Show a trace by its id", errors=(errors.TraceNotFound,),
    ),
)  # fmt: skip
