"""`publish` and `consume` while a tenant is over its quota."""

import re
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask
from tests.cli.programs import cli


def test_waits_for_quotas_are_told_to_people_and_not_to_programs(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path), tenants__enabled="true") as broker:
        assert ask(broker.url, "POST", "/admin/tenants", {"name": "a"}).status == 201
        quotas = {"publish_rate_limit": 10, "consume_rate_limit": 10}
        assert ask(broker.url, "PUT", "/admin/tenants/a/quotas", quotas).status == 200

        def run(*words: str) -> list[str]:
            done = cli(broker.url, *words, "--tenant", "a")
            assert done.code == 0, done.err
            return [line for line in done.err.splitlines() if line.startswith("waiting")]

        many = ["publish", "t", "--template", "%n", "--count", "40"]
        ask(broker.url, "POST", "/topics", {"name": "t", "num_partitions": 1}, {"x-tenant": "a"})
        run(*many)  # takes all that is there, and what comes in three seconds: a busy machine takes one for a command
        (told,) = run(*many)
        over = "tenant 'a' is over its quota publish_rate_limit: 10 messages/s"
        assert re.fullmatch(rf"waiting \d(\.\d+)? s(econds?)?: {over}", told)
        assert run(*many, "-o", "json") == []
        (told,) = run("consume", "t", "--group", "g", "--limit", "13")
        assert told.endswith(" s: over the quota consume_rate_limit")
        (told,) = run("consume", "t", "--limit", "13")
        assert told.endswith(" s: over the quota consume_rate_limit")
        assert run("consume", "t", "--limit", "2", "-o", "jsonl") == []
