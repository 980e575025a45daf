"""`goqueue-admin quota` and `usage` against a broker: two teams with quotas and a bill."""

import json
from pathlib import Path
from typing import Any

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from tests.admin.programs import admin
from tests.brokers import ask


def test_quotas_are_set_tested_shown_and_reset_and_usage_is_reported(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path), tenants__enabled="true", quotas__max_topics="9") as broker:

        def run(*words: str, code: int = 0) -> Any:
            done = admin(broker.url, *words)
            assert done.code == code, done.err
            return done

        run("tenant", "create", "A", "--id", "a", "--quota", "max_connections=50", "--quota", "max_topics=default")
        run("tenant", "create", "b")
        assert run("tenant", "list", "-o", "name").out.splitlines() == ["a", "b"], "ids, which commands take"
        assert "write a size" in run("tenant", "create", "c", "--quota", "max_storage_bytes=big", code=2).err
        for name in ("a", "b"):
            assert ask(broker.url, "POST", "/topics", {"name": f"{name}.t"}).status == 201
        planned = run("quota", "set", "a", "publish_rate_limit=2", "max_storage_bytes=10GiB", "--dry-run").out
        assert planned.split("\n")[1].split() == ["publish_rate_limit", "unlimited", "2/s", "would", "change"]
        set_text = run(
            "quota", "set", "a", "publish_rate_limit=2/s", "max-storage-bytes=10GiB", "--soft", "max_topics=1"
        )
        assert [line.split()[-1] for line in set_text.out.splitlines()[1:]] == ["changed"] * 3
        assert "did you mean max_topics?" in run("quota", "set", "a", "max_topic=1", code=2).err
        assert "max_storage_bytes" in run("quota", "set", "a", "max_storage_bytes=big", code=2).err
        assert "at least 0" in run("quota", "set", "a", "max_topics=-1", code=2).err
        assert "max_topics is given twice" in run("quota", "set", "a", "max_topics=3", "max-topics=4", code=2).err
        lines = [line.split() for line in run("quota", "get", "a").out.splitlines()]
        rows = {line[0]: line for line in lines}
        assert rows["publish_rate_limit"][:3] == ["publish_rate_limit", "2/s", "tenant"]
        assert rows["max_topics"][1:4] == ["9", "default", "1"]
        assert rows["max_storage_bytes"][1] == "10GiB"

        message = {"messages": [{"value": "x"}] * 4}
        assert ask(broker.url, "POST", "/topics/t/messages", message, {"x-tenant": "a"}).status == 200
        assert ask(broker.url, "POST", "/topics/t/messages", message, {"x-tenant": "a"}).status == 429
        found = {row["quota"]: row for row in json.loads(run("quota", "get", "a", "-o", "json").out)}
        assert (found["publish_rate_limit"]["violations"], found["max_topics"]["used"]) == (1, 1)
        (tested,) = json.loads(run("quota", "test", "max_topics=0", "--tenant", "a", "-o", "json").out)
        assert (tested["tenant"], tested["hours"], tested["peak"]) == ("a", 1, 1)
        assert "no tenant was over" in run("quota", "test", "max_topics=5").err
        bill = run("usage", "--by", "month", "-o", "csv").out.splitlines()
        assert bill[0].startswith("tenant_id,period,published_messages,published_bytes")
        assert [line.split(",")[0] for line in bill[1:]] == ["a", "b"]
        (row,) = json.loads(run("usage", "a", "--by", "hour", "-o", "json").out)
        assert (row["published_messages"], row["violations"]) == (4, {"publish_rate_limit": 1})
        planned = run("quota", "set", "a", "--soft", "max_topics=5", "--dry-run").out
        assert planned.splitlines()[-1].split() == ["soft", "max_topics", "1", "5", "would", "change"]
        planned = run("quota", "reset", "a", "--dry-run").out
        assert planned.splitlines()[-1].split()[2:] == ["1", "unlimited", "would", "change"]
        assert run("quota", "get", "a", "-o", "name").out.splitlines()[0] == "publish_rate_limit"
        assert run("quota", "test", "max_topics=0", "-o", "name").out.splitlines() == ["a", "b"]
        assert run("usage", "--by", "month", "-o", "name").out.splitlines() == ["a", "b"]
        reset = run("quota", "reset", "a", "--yes").out
        assert reset.splitlines()[-1].split()[:2] == ["soft", "max_topics"]
        assert json.loads(run("quota", "get", "a", "-o", "json").out)[0]["limit"] is None
        with Client(broker.url) as client:
            assert client.tenant_quotas("a").overrides == {}
