"""The files of `configs/cluster/`: three processes on three addresses of this machine."""

from pathlib import Path

from goqueue.client import Client
from goqueue.commands.cert import make_dev_certificates
from goqueue.config.sources import load
from tests.cluster.processes import NAMES, SECRET, ServedCluster, free_ports
from tests.processes import Served
from tests.test_house import ROOT

FILES = ROOT / "configs/cluster"


def test_files_differ_in_what_belongs_to_a_node_only() -> None:
    texts = {name: (FILES / f"{name}.yaml").read_text() for name in NAMES}
    peers = load(str(FILES / "n1.yaml")).cluster.peers
    for number, (name, text) in enumerate(texts.items(), 1):
        config = load(str(FILES / f"{name}.yaml"))
        assert (config.cluster.node_id, config.cluster.peers) == (name, peers)
        assert config.cluster.advertise == f"https://10.0.0.{number}:8080"
        own = f": {name}\n", f"/{name}.", f"Node {name} ", f"//10.0.0.{number}:", f"host: 10.0.0.{number}\n"
        same = text
        for found in own:
            same = same.replace(found, found.replace(name, "n1").replace(f"0.{number}", "0.1"))
        assert same == texts["n1"]


def test_three_nodes_of_the_files_elect_a_controller(tmp_path: Path) -> None:
    ports = free_ports(2)
    make_dev_certificates(tmp_path / "tls", [f"127.0.0.{number}" for number in (2, 3, 4)], nodes=NAMES)
    (tmp_path / "tls/nodes-ca.pem").write_bytes((tmp_path / "tls" / "ca.pem").read_bytes())
    (tmp_path / "cluster-secret").write_text(SECRET)
    brokers: dict[str, Served] = {}
    try:
        for name in NAMES:
            text = (FILES / f"{name}.yaml").read_text()
            for other in (1, 2, 3):
                text = text.replace(f"10.0.0.{other}", f"127.0.0.{other + 1}")
            text = text.replace("8080", str(ports[0])).replace("7090", str(ports[1]))
            text = text.replace("/etc/goqueue", str(tmp_path)).replace("/var/lib/goqueue", str(tmp_path / name))
            (tmp_path / f"{name}.yaml").write_text(text)
            key = "--admin-key-file", str(tmp_path / f"{name}.key")
            brokers[name] = Served("--config", str(tmp_path / f"{name}.yaml"), *key).launch()
        for broker in brokers.values():
            broker.await_start()
        keys = {name: (tmp_path / f"{name}.key").read_text().strip() for name in NAMES}

        def controllers() -> set[str | None]:
            found: set[str | None] = set()
            for name, broker in brokers.items():
                with Client(broker.url, api_key=keys[name], ca_file=str(tmp_path / "tls" / "ca.pem")) as client:
                    found.add(client.cluster_state().controller_id)
            return found

        ServedCluster(tmp_path).wait(lambda: len(found := controllers()) == 1 and None not in found)
    finally:
        for broker in brokers.values():
            broker.kill()
