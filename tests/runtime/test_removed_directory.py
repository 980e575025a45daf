"""Files that are removed or moved below a running broker: it acknowledges nothing that would be lost."""

import shutil
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually
from tests.brokers import Answer, ask, create, publish, read


def attempt(url: str, topic: str) -> Answer:
    return ask(url, "POST", f"/topics/{topic}/messages", {"messages": [{"value": "lost"}]})


def test_publish_to_removed_files_is_refused_and_other_topics_go_on(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        for topic in ("orders", "refunds"):
            create(broker.url, topic)
            publish(broker.url, topic, "kept")
        shutil.rmtree(tmp_path / "data" / "logs" / "orders")
        refused = attempt(broker.url, "orders")
        assert (refused.status, refused.code) == (503, "log_fenced")
        assert "was removed while it was written" in refused.json["error"]
        assert publish(broker.url, "refunds", "more")[0]["offset"] == 1
        assert "restore a backup" in refused.json["hint"]
        shutil.rmtree(tmp_path / "data")
        assert attempt(broker.url, "refunds").code == "log_fenced"
        assert [one["value"] for one in read(broker.url, "refunds")] == ["kept", "more"]
        assert ask(broker.url, "POST", "/topics", {"name": "later"}).status == 503


def test_broker_stores_nothing_once_its_directory_was_moved_or_replaced(tmp_path: Path) -> None:
    data, moved = tmp_path / "data", tmp_path / "moved"
    with LocalBroker(str(data)) as broker:
        create(broker.url, "orders")
        publish(broker.url, "orders", "kept")
        data.rename(moved)
        shutil.copytree(moved, data)
        eventually(lambda: attempt(broker.url, "orders").status == 503)
        refused = attempt(broker.url, "orders")
        assert f"the data directory {data} was removed, moved or replaced" in refused.json["error"]
        found = {one["code"] for one in ask(broker.url, "GET", "/doctor").json["findings"]}
        assert found == {"data_directory_gone"}, "all else follows from it"
        (data / "history").unlink(missing_ok=True)
    assert not {"clean", "history"} & {one.name for one in data.iterdir()}, "it is another directory"
