"""Where partitions are led, as far as clients know: any node may be asked, and 421 names the leader."""

from random import Random

from tests.chaos.http_client import Answer


class Routes:
    """The leaders of the partitions of one topic. A partition may be any name of what has a leader, such as a group."""

    def __init__(self, addresses: dict[str, str], chance: Random) -> None:
        self.addresses = addresses
        self._urls = [*addresses.values()]
        self._leaders: dict[int | str, str] = {}
        self._chance = chance

    def leader(self, partition: int | str) -> str:
        return self._leaders.get(partition) or self.any()

    def any(self) -> str:
        return self._chance.choice(self._urls)

    def learn(self, partition: int | str, answer: Answer) -> None:
        """Take the leader from a refusal."""
        details = answer.json.get("details") or {}
        self._leaders[partition] = details.get("leader_address") or details.get("coordinator_address") or ""

    def forget(self, partition: int | str, url: str) -> None:
        """It did not answer, or does not lead."""
        if self._leaders.get(partition) == url:
            del self._leaders[partition]

    def keep(self, partition: int | str, url: str) -> None:
        self._leaders[partition] = url
