"""API keys of a cluster of real brokers: made at one node, known to all."""

from pathlib import Path
from typing import Any

from tests.brokers import Answer, ask
from tests.cluster.processes import NAMES, ServedCluster
from tests.processes import Served


class SecuredCluster(ServedCluster):
    """Each node has made a first key of its own before it knew of the others."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.keys: dict[str, str] = {}

    def launch(self, name: str, **options: Any) -> Served:
        self._words = ("--auth", "--admin-key-file", str(self.directory / f"{name}-key"))
        return super().launch(name, **options)

    def read_keys(self) -> None:
        self.keys = {name: (self.directory / f"{name}-key").read_text().strip() for name in NAMES}

    def call(self, name: str, method: str, path: str, body: Any = None, *, key: str = "") -> Answer:
        return ask(self.brokers[name].url, method, path, body, {"authorization": f"Bearer {key or self.keys['n1']}"})

    def change(self, method: str, path: str, body: Any = None) -> Any:
        """Have a node make a change, or pass it on to the one that does."""
        answers: list[Answer] = []

        def done() -> bool:
            for name in self.brokers:
                answer = self.call(name, method, path, body)
                if answer.status in (200, 201):
                    answers.append(answer)
                    return True
                assert answer.code in ("leader_unavailable", "leadership_lost"), answer.body
            return False

        self.wait(done)
        return answers[-1].json

    def know(self, key: str) -> bool:
        """Return whether all nodes accept a key."""
        return all(self.call(name, "GET", "/topics", key=key).status == 200 for name in self.brokers)


def test_keys_are_those_of_the_cluster_at_every_node(tmp_path: Path) -> None:
    nodes = SecuredCluster(tmp_path)
    try:
        nodes.start(*NAMES)
        nodes.read_keys()
        nodes.wait(lambda: nodes.know(nodes.keys["n1"]))
        assert nodes.call("n1", "GET", "/topics", key=nodes.keys["n2"]).status == 401
        nodes.wait(lambda: nodes.call("n2", "GET", "/topics", key=nodes.keys["n2"]).status == 401)

        made = nodes.change("POST", "/admin/keys", {"name": "till", "roles": ["admin"]})
        nodes.wait(lambda: nodes.know(made["key"]))

        leader = nodes.call("n1", "GET", "/cluster/partition/__security/0/info").json["leader"]
        nodes.kill(leader)
        second = nodes.change("POST", "/admin/keys", {"name": "second", "roles": ["admin"]})
        nodes.start(leader)
        nodes.wait(lambda: nodes.know(second["key"]) and nodes.know(made["key"]))

        nodes.change("DELETE", "/admin/keys/till")
        nodes.wait(lambda: all(nodes.call(one, "GET", "/topics", key=made["key"]).status == 401 for one in NAMES))
    finally:
        nodes.end()
