"""Dialects: the way in which requests and answers of an endpoint are written, our own or that of another system."""

from goqueue.api.http.error_responses import error_response
from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.errors import GoQueueError
from goqueue.wire.headers import JSON


class Dialect:
    """GoQueue's own way. Others derive from it."""

    media_types: tuple[str, ...] = (JSON,)
    """Those of bodies that are JSON. The first is that of answers too."""
    error_component = "Error"
    """The name of the description of refusals in the OpenAPI document."""

    def answer_type(self, request: HttpRequest) -> str:  # noqa: ARG002 - others look at what is accepted
        """Return the media type of the answer."""
        return JSON

    def query_text(self, kind: type | None, query: str) -> str:  # noqa: ARG002 - others leave out what is unknown
        """Return the query as it is decoded to its type, None if there is none."""
        return query

    def refusal(self, error: GoQueueError, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return error_response(error)


OWN = Dialect()
