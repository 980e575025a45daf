"""Alerts that a real broker sends to a real webhook, and silences."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.errors import ConfigInvalid
from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually
from tests.api.webhooks import Receiver, receiver
from tests.brokers import ask, create

QUICK = {"alerts__after": "0s", "alerts__interval": "100ms"}


@pytest.fixture
def webhook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def sending(tmp_path: Path, webhook: Receiver, secret: str = "", **settings: str) -> LocalBroker:
    file = tmp_path / "webhook"
    file.write_text(f"{webhook.address}\n{secret}\n")
    return LocalBroker(str(tmp_path / "data"), alerts__webhook_file=str(file), **QUICK, **settings)


def make_trouble(broker: LocalBroker) -> None:
    """Let a thousand dead letters wait, which is a warning."""
    create(broker.url, "orders.dlq")
    with Client(broker.url) as client, client.producer() as producer:
        for _ in range(1000):
            producer.send("orders.dlq", "x")


def end_trouble(broker: LocalBroker) -> None:
    ask(broker.url, "DELETE", "/topics/orders.dlq")


def told(body: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["status"], one["code"], one["subject"]) for one in body["alerts"]]


def listed(broker: LocalBroker) -> dict[str, Any]:
    found: dict[str, Any] = ask(broker.url, "GET", "/admin/alerts").json
    return found


FIRING, RESOLVED = ([(status, "dead_letters_waiting", "orders.dlq")] for status in ("firing", "resolved"))


def test_finding_is_sent_and_resolved_and_neither_twice_over_a_restart(tmp_path: Path, webhook: Receiver) -> None:
    with sending(tmp_path, webhook, secret="t0ken") as broker:  # noqa: S106 - of this test alone
        make_trouble(broker)
        assert told(webhook.next()) == FIRING
        assert webhook.headers[0]["authorization"] == "Bearer t0ken"
        assert listed(broker)["alerts"][0]["status"] == "firing"
        eventually(lambda: listed(broker)["alerts"][0]["sent_at"] is not None)
    with sending(tmp_path, webhook) as broker:
        assert listed(broker)["alerts"][0]["sent_at"] is not None
        end_trouble(broker)
        assert told(webhook.next()) == RESOLVED
    assert webhook.bodies.empty()


def test_failed_delivery_is_repeated_and_shows_without_the_address(
    tmp_path: Path, webhook: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    webhook.status = 503
    with caplog.at_level(logging.DEBUG), sending(tmp_path, webhook) as broker:
        make_trouble(broker)
        assert told(webhook.next()) == told(webhook.next()) == FIRING
        shown = listed(broker)
        assert shown["delivery"]["problem"] == "the webhook answered with status 503"
        webhook.status = 200
        eventually(lambda: listed(broker)["delivery"]["failures"] == 0)
        metrics = ask(broker.url, "GET", "/metrics").body.decode()
        assert 'goqueue_alerts_firing{severity="warning"} 1.0' in metrics
        assert 'goqueue_alert_deliveries_total{outcome="delivered"} 1.0' in metrics
    assert "alerts could not be sent and are tried again: the webhook answered with status 503" in caplog.text
    assert "s3cret" not in f"{shown}{metrics}{caplog.text}"


def test_webhook_that_hangs_delays_neither_requests_nor_the_stop(tmp_path: Path, webhook: Receiver) -> None:
    webhook.released.clear()
    broker = sending(tmp_path, webhook).start()
    make_trouble(broker)
    webhook.next()
    assert ask(broker.url, "GET", "/topics").status == 200
    broker.stop()
    assert not webhook.released.is_set()


def test_silence_lasts_over_a_restart_and_ends_when_it_is_told_to(tmp_path: Path, webhook: Receiver) -> None:
    with sending(tmp_path, webhook) as broker:
        body = {"code": "dead_letters_*", "duration": "1h", "reason": "known"}
        made = ask(broker.url, "POST", "/admin/alerts/silences", body)
        assert made.status == 201
        make_trouble(broker)
    with sending(tmp_path, webhook) as broker:
        eventually(lambda: bool(listed(broker)["alerts"]))
        (alert,) = listed(broker)["alerts"]
        assert alert["status"] == "firing"
        assert alert["silenced_until"] == made.json["until"]
        assert webhook.bodies.empty()
        assert ask(broker.url, "DELETE", f"/admin/alerts/silences/{made.json['id']}").json["ended"]
        assert told(webhook.next()) == FIRING
        again = ask(broker.url, "DELETE", f"/admin/alerts/silences/{made.json['id']}")
        assert again.code == "silence_not_found"


def test_test_message_is_delivered_or_says_why_not(
    tmp_path: Path, webhook: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    with sending(tmp_path, webhook, secret="k3y", alerts__format="pagerduty") as broker:  # noqa: S106
        assert ask(broker.url, "POST", "/admin/alerts/test").json == {"delivered": True, "problem": None}
        assert webhook.next()["routing_key"] == "k3y"
        (tmp_path / "webhook").write_text("http://127.0.0.1:1/s3cret\nk3y\n")
        failed = ask(broker.url, "POST", "/admin/alerts/test").json
        assert failed == {"delivered": False, "problem": "the webhook could not be reached: connection refused"}
        (tmp_path / "webhook").write_text("http://nowhere.invalid/s3cret\nk3y\n")
        failed = ask(broker.url, "POST", "/admin/alerts/test").json
        assert failed == {"delivered": False, "problem": "the webhook could not be reached: unknown host"}
    assert "the test alert could not be sent: the webhook could not be reached: connection refused" in caplog.text
    assert "tried again" not in caplog.text


def test_broker_without_a_webhook_says_so(broker: LocalBroker) -> None:
    assert listed(broker) == {
        "enabled": False, "format": None, "alerts": [], "silences": [],
        "delivery": {"last_at": None, "failures": 0, "problem": None},
    }  # fmt: skip
    refused = ask(broker.url, "POST", "/admin/alerts/test")
    assert (refused.status, refused.code) == (409, "alerts_off")
    assert "alerts.webhook_file" in refused.json["hint"]
    wrong = ask(broker.url, "POST", "/admin/alerts/silences", {"code": "disk_filing", "duration": "1h"})
    assert wrong.code == "request_invalid"
    assert "did you mean disk_filling?" in wrong.json["hint"]


@pytest.mark.parametrize("content", ["", "hooks.example/s3cret", "https://x/s3cret\na\nb", "https:///s3cret"])
def test_broker_with_a_wrong_webhook_file_does_not_start(tmp_path: Path, content: str) -> None:
    file = tmp_path / "webhook"
    file.write_text(content)
    with pytest.raises(ConfigInvalid, match=r"alerts\.webhook_file") as refused:
        LocalBroker(str(tmp_path / "data"), alerts__webhook_file=str(file)).start()
    assert "s3cret" not in f"{refused.value}{refused.value.details}"
