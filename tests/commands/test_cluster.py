"""`goqueue cluster dev` as a real process: what it starts, what it says, and what it leaves."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goqueue.client import Client
from tests.forked import Program
from tests.processes import END_OF_BANNER, banner_of, in_foreground


@contextmanager
def dev(directory: Path, *words: str) -> Iterator[Program]:
    with in_foreground(directory, "cluster", "dev", "--port", "0", *words) as process:
        yield process


def introduction(process: Program) -> dict[str, tuple[str, int]]:
    """Read what it says until it waits; return address and process of each node."""
    said = banner_of(process)
    assert said[-1:] == [END_OF_BANNER], said
    found = re.findall(r"^  (n\d)  (http://\S+)  process (\d+)$", "\n".join(said), re.MULTILINE)
    return {name: (address, int(number)) for name, address, number in found}


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_nodes_elect_a_controller_until_it_is_stopped_and_then_nothing_is_left(tmp_path: Path) -> None:
    with dev(tmp_path) as process:
        nodes = introduction(process)
        with Client(nodes["n1"][0]) as client:
            state = client.cluster_state()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()

    assert list(nodes) == ["n1", "n2", "n3"]
    assert state.controller_id in nodes
    assert said.splitlines() == ["stopped cleanly"] * 3 + ["the cluster has ended, and its data is deleted"]
    assert process.returncode == 0
    assert not any(is_running(number) for _, number in nodes.values())
    assert list(tmp_path.iterdir()) == []


def test_directory_is_kept_and_a_killed_node_is_named(tmp_path: Path) -> None:
    with dev(tmp_path, "--nodes", "1", "--dir", str(tmp_path / "kept")) as process:
        nodes = introduction(process)
        os.kill(nodes["n1"][1], signal.SIGKILL)
        _, said = process.communicate()

    assert "node n1 was killed by SIGKILL" in said
    assert f"goqueue serve --config {tmp_path}/kept/n1.yaml" in said
    assert (tmp_path / "kept/n1/cluster").exists()


def test_directory_of_a_running_cluster_is_refused(tmp_path: Path) -> None:
    words = ("--nodes", "1", "--dir", str(tmp_path / "kept"))
    with dev(tmp_path, *words) as process:
        introduction(process)
        with dev(tmp_path, *words) as second:
            _, said = second.communicate()

    assert second.returncode == 2
    assert f"another `goqueue cluster dev` runs the nodes in {tmp_path}/kept" in said
    assert "port" not in said


def test_node_that_cannot_start_is_named_with_its_configuration(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "n1.yaml").write_text(f"data_dir: {tmp_path}/n1\nserver:\n  port: {taken.getsockname()[1]}\n")
        with dev(tmp_path, "--nodes", "1", "--dir", str(tmp_path)) as process:
            _, said = process.communicate()

    assert "node n1 did not start:\nerror: cannot listen on '127.0.0.1'" in said
    assert said.endswith(f"\nits settings are in {tmp_path}/n1.yaml\n")
    assert "--port" not in said


def test_two_nodes_are_refused(tmp_path: Path) -> None:
    with dev(tmp_path, "--nodes", "2") as process:
        _, said = process.communicate()

    assert process.returncode == 2
    assert "--nodes is 2: 1, 3 or 5 nodes can elect a controller by majority" in said
