"""The nodes of a cluster in the dashboard, with a real broker."""

from pathlib import Path

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.cluster.processes import SECRET, free_ports
from tests.tui.pilots import press, see, shown


async def test_node_of_a_real_cluster_is_shown_with_its_events(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    settings = {"node_id": "n1", "peers": f"n1=127.0.0.1:{free_ports(1)[0]}", "secret_file": str(secret)}
    with LocalBroker(str(tmp_path / "data"), **{f"cluster__{name}": text for name, text in settings.items()}) as broker:
        async with shown(broker.url, Location("nodes"), size=(120, 30)) as pilot:
            await see(pilot, "1 of 1 voters alive", "n1 became the controller", broker.url)
            await press(pilot, "enter")
            await see(pilot, "● alive, controller", "directory")


async def test_broker_alone_says_how_to_make_a_cluster(broker: LocalBroker) -> None:
    async with shown(broker.url, Location("nodes"), size=(120, 30)) as pilot:
        await see(pilot, "the broker runs alone")
