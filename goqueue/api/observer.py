"""What the HTTP server reports, as metrics and as lines of the access log."""

from goqueue.api.endpoint import Endpoint
from goqueue.api.http.message import Request, Response
from goqueue.api.router import Router
from goqueue.errors import GoQueueError
from goqueue.observe.logs import AccessLog, Answered
from goqueue.observe.metrics import EndpointCounts, Metrics

_NOWHERE = "none"
"""Of requests that no endpoint answers: their paths are clients' inventions, and no label may hold those."""


class HttpObserver:
    """Counts everything, and logs some of it."""

    def __init__(self, metrics: Metrics, router: Router, access_log: AccessLog | None) -> None:
        self._metrics = metrics
        self._router = router
        self._access_log = access_log
        self._counts: dict[Endpoint | None, EndpointCounts] = {}

    def connection_opened(self) -> None:
        self._metrics.connections += 1
        self._metrics.connections_open += 1

    def connection_closed(self) -> None:
        self._metrics.connections_open -= 1

    def refused(self, reason: str) -> None:
        self._metrics.refuse_connection(reason)

    def answered(self, request: Request, response: Response, seconds: float) -> None:
        try:
            row: Endpoint | None = self._router.find(request.method, request.path)[0]
        except GoQueueError:
            row = None
        template = row.path if row is not None else _NOWHERE
        counts = self._counts.get(row)
        if counts is None:
            counts = self._counts[row] = self._metrics.endpoint(row.method if row else "any", template)
        counts.observe(response.status, seconds)
        if self._access_log is not None:
            body = response.body
            size = len(body) if isinstance(body, bytes) else sum(map(len, body))
            self._access_log.log(
                Answered(
                    request.method,
                    template,
                    request.path,
                    response.status,
                    seconds,
                    len(request.body),
                    size,
                    request.peer,
                    request.id,
                )
            )
