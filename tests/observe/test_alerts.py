"""When findings become alerts, when these are resolved, and what webhooks get."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from goqueue.observe.alert_messages import test_notification as notification_of_a_test
from goqueue.observe.alert_messages import webhook_bodies
from goqueue.observe.alerts import AlertBook, AlertSettings, AlertState, firing_counts
from goqueue.observe.finding import Finding, Severity

SECOND = 10**9
SETTINGS = AlertSettings(after_ns=60 * SECOND, repeat_ns=3600 * SECOND)
FULL = Finding("/data", "the disk is filling", "free disk space", code="disk_filling", severity="warning")
STUCK = Finding("billing <b>", "nothing was finished", "look at it", code="group_stuck", severity="warning")


def severe(finding: Finding, severity: Severity) -> Finding:
    return replace(finding, severity=severity)


class Book(AlertBook):
    """A book that delivers at once what is due, and tells what that was."""

    def at(self, seconds: float, *findings: Finding) -> list[tuple[str, str]]:
        now_ns = round(seconds * SECOND)
        self.update(findings, now_ns)
        due = self.due(now_ns)
        self.delivered(due, now_ns)
        return [(one.status, one.alert.code) for one in due]


@pytest.fixture
def book() -> Book:
    return Book(SETTINGS)


def test_finding_that_lasts_is_sent_once_and_resolved_once(book: Book) -> None:
    assert book.at(0, FULL) == []
    assert book.at(59, FULL) == []
    assert book.at(60, FULL) == [("firing", "disk_filling")]
    assert book.at(75, FULL) == []
    assert book.at(90) == []
    assert book.at(134.9) == []
    assert book.at(135) == [("resolved", "disk_filling")]
    assert book.at(150) == []
    assert book.alerts() == []


def test_finding_that_is_gone_in_between_is_not_sent(book: Book) -> None:
    assert book.at(0, FULL) == book.at(50) == book.at(60, FULL) == book.at(119, FULL) == []
    assert book.at(120, FULL) == [("firing", "disk_filling")]


def test_alert_that_is_absent_for_a_moment_is_not_resolved(book: Book) -> None:
    book.at(0, FULL)
    book.at(60, FULL)
    assert book.at(75) == book.at(90, FULL) == book.at(140) == []
    assert book.at(150) == [("resolved", "disk_filling")]


def test_lasting_alert_is_repeated_and_a_worse_one_is_sent_at_once(book: Book) -> None:
    book.at(0, FULL)
    book.at(60, FULL)
    assert book.at(3659, FULL) == []
    assert book.at(3660, FULL) == [("firing", "disk_filling")]
    assert book.at(3675, severe(FULL, "critical")) == [("firing", "disk_filling")]
    assert book.at(3690, FULL) == []
    assert firing_counts(book) == {"critical": 0, "warning": 1}


def test_notes_and_the_count_of_further_findings_are_no_alerts(book: Book) -> None:
    more = Finding("3 more", "have the same problem", "", {"more": 3}, "warning", "group_stuck")
    for seconds in (0, 60):
        assert book.at(seconds, severe(FULL, "note"), more) == []
    critical = Book(AlertSettings(0, SECOND, "critical"))
    assert critical.at(0, FULL, severe(STUCK, "critical")) == [("firing", "group_stuck")]


def test_alert_that_was_not_delivered_stays_due_until_it_ends(book: Book) -> None:
    book.update([FULL], 0)
    for seconds in (60, 75):
        book.update([FULL], seconds * SECOND)
        assert [one.status for one in book.due(seconds * SECOND)] == ["firing"]
    book.update([], 90 * SECOND)
    assert book.due(90 * SECOND) == []


def test_alert_that_comes_back_while_its_end_is_sent_is_sent_again(book: Book) -> None:
    book.at(0, FULL)
    book.at(60, FULL)
    book.update([], 120 * SECOND)
    ended = book.due(120 * SECOND)
    book.update([FULL], 121 * SECOND)
    book.delivered(ended, 122 * SECOND)
    assert [one.status for one in book.due(122 * SECOND)] == ["firing"]


def test_silence_holds_back_alerts_but_not_the_end_of_one_that_was_sent(book: Book) -> None:
    book.at(0, FULL)
    book.at(60, FULL)
    book.add_silence("*", "*", until_ns=1000 * SECOND, now_ns=0)
    assert book.at(70, FULL, STUCK) == book.at(130, FULL, STUCK) == []
    assert book.at(190, STUCK) == [("resolved", "disk_filling")]
    assert book.at(999, STUCK) == []
    assert book.at(1000, STUCK) == [("firing", "group_stuck")]
    assert book.silences() == []


def test_silence_covers_codes_and_subjects_by_pattern(book: Book) -> None:
    book.add_silence("group_*", "bill*", until_ns=SECOND, now_ns=0)
    book.update([FULL, STUCK], 0)
    assert {one.code: book.silence_of(one, 0) is not None for one in book.alerts()} == {
        "disk_filling": False,
        "group_stuck": True,
    }


def test_state_survives_a_restart_as_json(book: Book) -> None:
    book.at(0, FULL)
    book.at(60, FULL)
    book.at(70, FULL, STUCK)
    kept = book.add_silence("group_stuck", "*", until_ns=9000 * SECOND, now_ns=0, created_by="key:x", reason="known")
    state = msgspec.convert(msgspec.to_builtins(book.state), AlertState)
    again = Book(SETTINGS, state)
    assert again.at(80, FULL) == []
    assert again.at(200) == [("resolved", "disk_filling")]
    assert again.silences() == [kept]
    assert again.add_silence("*", "*", until_ns=9000 * SECOND, now_ns=0).id == kept.id + 1


def bodies(kind: Any, book: AlertBook, secret: str = "") -> list[dict[str, Any]]:
    return webhook_bodies(kind, book.due(60 * SECOND), "queue:8080", secret)


def test_messages_have_the_form_that_each_receiver_expects(book: Book) -> None:
    book.update([FULL, severe(STUCK, "critical")], 0)
    book.update([FULL, severe(STUCK, "critical")], 60 * SECOND)
    (generic,) = bodies("json", book)
    assert generic["broker"] == "queue:8080"
    assert [one["key"] for one in generic["alerts"]] == ["group_stuck:billing <b>", "disk_filling:/data"]
    assert generic["alerts"][1] == {
        "status": "firing", "key": "disk_filling:/data", "code": "disk_filling", "subject": "/data",
        "severity": "warning", "sentence": "the disk is filling", "hint": "free disk space",
        "since": "1970-01-01T00:00:00.000000000Z", "resolved_at": None,
    }  # fmt: skip
    (slack,) = bodies("slack", book)
    assert slack["text"].startswith(":red_circle: *queue:8080* billing &lt;b&gt;: nothing was finished (`group_stuck`)")
    first, second = bodies("pagerduty", book, "R0UT1NG")
    assert first["payload"]["severity"] == "critical"
    assert (second["routing_key"], second["event_action"]) == ("R0UT1NG", "trigger")
    assert second["dedup_key"] == "queue:8080:disk_filling:/data"
    book.delivered(book.due(60 * SECOND), 60 * SECOND)
    book.update([], 200 * SECOND)
    ended = webhook_bodies("pagerduty", book.due(200 * SECOND), "queue:8080", "R0UT1NG")
    assert {one["event_action"] for one in ended} == {"resolve"}
    assert {one["dedup_key"] for one in ended} == {first["dedup_key"], second["dedup_key"]}


def test_test_message_says_who_asked_for_it() -> None:
    (body,) = webhook_bodies("json", [notification_of_a_test(0, "key:admin")], "queue", "")
    assert body["alerts"][0]["status"] == "test"
    assert "key:admin" in body["alerts"][0]["hint"]
