"""`goqueue-admin alert`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.testing.broker import LocalBroker
from tests.admin.programs import admin
from tests.api.keys import eventually
from tests.api.test_alerts import listed, make_trouble, sending
from tests.api.webhooks import Receiver, receiver


@pytest.fixture
def webhook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def test_alert_is_listed_tested_and_silenced(tmp_path: Path, webhook: Receiver) -> None:
    with sending(tmp_path, webhook) as broker:
        make_trouble(broker)
        eventually(lambda: [one["sent_at"] is not None for one in listed(broker)["alerts"]] == [True])
        shown_alerts = admin(broker.url, "alert", "list")
        (line,) = shown_alerts.out.splitlines()[1:]
        assert line.split()[:4] == ["firing", "warning", "dead_letters_waiting", "orders.dlq"]
        assert admin(broker.url, "alert", "test").code == 0
        silenced = admin(broker.url, "alert", "silence", "dead_letters_waiting", "--subject", "orders.dlq")
        assert silenced.code == 0
        (row,) = json.loads(admin(broker.url, "alert", "list", "--silences", "-o", "json").out)
        assert (row["code"], row["subject"]) == ("dead_letters_waiting", "orders.dlq")
        assert admin(broker.url, "alert", "unsilence", str(row["id"])).code == 0
        made = admin(broker.url, "alert", "silence", "group_*", "--for", "2h", "--reason", "holidays", "-o", "json")
        assert json.loads(made.out)[0]["reason"] == "holidays"
        webhook.status = 404
        failed = admin(broker.url, "alert", "test")
        assert failed.code == 1
        assert "the webhook answered with status 404" in failed.out


def test_commands_say_that_a_broker_has_no_webhook(broker: LocalBroker) -> None:
    assert "`alerts.webhook_file` names no file" in admin(broker.url, "alert", "list").err
    refused = admin(broker.url, "alert", "test")
    assert refused.code == 5
    assert "alerts.webhook_file" in refused.err
    gone = admin(broker.url, "alert", "unsilence", "7")
    assert gone.code == 5
    assert "there is no silence 7" in gone.err
    assert "goqueue-admin alert list --silences" in gone.err
