"""Progress of a query as that of a group, where operators look for it. Spark's checkpoint is what counts."""

from contextlib import suppress

from goqueue.client import Client
from goqueue.errors import GoQueueError, GroupNotFound
from goqueue.spark.stream.positions import Positions

_TIMEOUT_SECONDS = 3.0  # a query does not wait longer for what is only told


class GroupProgress:
    """Tells a broker how far a query is. That it cannot be told ends no query."""

    def __init__(self, url: str, token: str | None, group: str) -> None:
        self._url = url
        self._token = token
        self._group = group
        self._told: Positions = {}

    def report(self, positions: Positions) -> None:
        with suppress(GoQueueError), Client(self._url, _TIMEOUT_SECONDS, api_key=self._token) as client:
            if self._has_members(client):
                return  # their progress is not this query's
            for (topic, number), offset in positions.items():
                if self._told.get((topic, number)) != offset:
                    client.reset_offsets(self._group, topic, "offset", partitions=[number], offset=offset)
                    self._told[topic, number] = offset

    def _has_members(self, client: Client) -> bool:
        try:
            return bool(client.group(self._group).get("members"))
        except GroupNotFound:
            return False
