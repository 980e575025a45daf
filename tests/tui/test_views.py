"""Numbers, messages and the broker itself, as screens tell them."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, strategies

from goqueue.client.admin_requests import GroupDetails
from goqueue.clock import NANOSECONDS
from goqueue.console.terminal import escape_unprintable
from goqueue_admin.dashboard.app import clipboard_commands
from goqueue_admin.dashboard.broker.service import ConnectionStatus
from goqueue_admin.dashboard.screens import overview, routes
from goqueue_admin.dashboard.screens.base import DashboardApp, make_screen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views import message as messages
from goqueue_admin.dashboard.widgets import frame, message_tail
from tests.tui.fakes import DOCTOR, HISTORY, NOW_NS, STATS, message


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0, "0"), (7, "7"), (0.25, "0.25"), (9.5, "9.5"), (987.4, "987"), (999.7, "1.0k")),
        *((12_345, "12.3k"), (999_999, "1.0M"), (1_234_567, "1.2M"), (98_765_432_100, "98.8G"), (-1500, "-1.5k")),
    ],
)
def test_a_number_is_three_digits_and_a_letter(number: float, text: str) -> None:
    assert formats.short(number) == text


@pytest.mark.parametrize(
    ("part", "tone"), [(0.0, ""), (0.69, ""), (0.7, "warn"), (0.89, "warn"), (0.9, "bad"), (1, "bad")]
)
def test_what_is_limited_has_a_tone_from_70_and_from_90_percent(part: float, tone: str) -> None:
    assert formats.share_tone(part) == tone


def test_durations_that_have_no_end_are_told() -> None:
    assert [formats.seconds(one) for one in (None, 0, 90)] == ["∞", "0s", "1m30s"]
    assert [formats.milliseconds(one) for one in (0.62, 12.34, 2500)] == ["0.62ms", "12.3ms", "2.5s"]


# --- the ring of messages ---


def lines(*offsets: int) -> list[message_tail.TailMessage]:
    return [message_tail.tail_message(message(offset, b"%d" % offset)) for offset in offsets]


def test_a_ring_keeps_the_newest_lines_and_their_numbers() -> None:
    ring = message_tail.MessageRing(3)
    ring.add(lines(0, 1))
    assert (ring.first, ring.end, len(ring)) == (0, 2, 2)
    ring.add(lines(2, 3, 4, 5, 6))
    assert (ring.first, ring.end, len(ring)) == (4, 7, 3)
    assert [ring[number].value for number in range(4, 7)] == [b"4", b"5", b"6"]
    for number in (3, 7):
        with pytest.raises(IndexError):
            ring[number]
    ring.clear()
    ring.add(lines(9))
    assert (len(ring), ring[0].value) == (1, b"9")


def test_a_pace_is_that_of_the_last_second() -> None:
    pace = message_tail.RateCounter()
    for tenth in range(1, 31):
        pace.add(100 if tenth > 15 else 7)
        pace.mark(tenth * NANOSECONDS // 10)
    assert pace.per_second == pytest.approx(1000)
    assert message_tail.RateCounter().per_second == 0


def test_what_is_passed_over_is_counted() -> None:
    received, shown = message_tail.RateCounter(), message_tail.RateCounter()
    for second in range(1, 4):
        received.add(98_000)
        shown.add(1_200)
        received.mark(second * NANOSECONDS)
        shown.mark(second * NANOSECONDS)
    assert message_tail.rate_summary(received, shown, None) == "shown 1,200/s of 98,000/s, dropped 290k"
    assert message_tail.rate_summary(shown, shown, None) == "3,600 shown, 1,200/s"
    assert message_tail.rate_summary(shown, shown, 90_000) == "3,600 of 90,000 fit"


def test_a_line_shows_bytes_control_characters_and_nothing_at_all() -> None:
    assert messages.one_line_text(b"two\nlines \x1b[31m") == "two\\nlines \\x1b[31m"
    assert messages.one_line_text(b"\xff\x00\x01\x02\x03") == "0xff00010203"
    assert messages.one_line_text("grün".encode()[:3]) == "gr"
    assert messages.one_line_text(None) == "-"
    tombstone = message_tail.TailMessage(0, 1, NOW_NS, b"k", None, 0)
    assert message_tail.message_cells(tombstone) == ("00:00:00.000", "0", "1", "k", "(tombstone)", True)
    assert message_tail.message_cells(tombstone._replace(value=b"")).value == "(0B)"


# --- one message ---


def plain(value: messages.RenderedValue) -> list[str]:
    return ["".join(span.text for span in line) for line in value.lines]


@given(
    strategies.recursive(
        strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(),
        lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
    ).filter(lambda value: isinstance(value, dict | list))
)
def test_json_has_the_lines_that_python_would_give_it(value: Any) -> None:
    expected = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    lines = [escape_unprintable(line) for line in expected[: messages.LINES_MAX]]
    assert plain(messages.render_value(json.dumps(value).encode())) == lines


def test_numbers_and_repeated_names_of_json_stay_as_they_were_sent() -> None:
    value = messages.render_value(b'{"total": 10.00, "n": 1e2, "n": 12345678901234567890.10, "none": [ ]}')
    assert plain(value) == [
        "{", '  "total": 10.00,', '  "n": 1e2,', '  "n": 12345678901234567890.10,', '  "none": []', "}",
    ]  # fmt: skip


def test_json_is_set_apart_and_coloured() -> None:
    value = messages.render_value(json.dumps({"id": 17, "ok": True, "name": "Grün"}).encode())
    assert value.kind == "json"
    assert plain(value) == ["{", '  "id": 17,', '  "ok": true,', '  "name": "Grün"', "}"]
    assert [span.tone for span in value.lines[1] if span.tone != "muted"] == ["title", "accent"]


@pytest.mark.parametrize("text", ["[1, 2", "{nothing", "42", "words", '"alone"'])
def test_what_is_no_object_of_json_is_text(text: str) -> None:
    assert (messages.render_value(text.encode()).kind, plain(messages.render_value(text.encode()))) == ("text", [text])


def test_bytes_are_shown_in_hex() -> None:
    value = messages.render_value(b"\x00\xffAB" * 5)
    assert value.kind == "bytes"
    assert plain(value)[0] == "00000000  00 ff 41 42 00 ff 41 42 00 ff 41 42 00 ff 41 42  ··AB··AB··AB··AB"
    assert plain(value)[1].startswith("00000010  00 ff 41 42   ")


def test_a_value_that_is_very_long_is_cut_and_says_so() -> None:
    assert messages.render_value(b"x\n" * 10_000).is_cut
    assert len(messages.render_value(b"\xff" * 1_000_000).lines) == messages.LINES_MAX
    assert not messages.render_value(b"short").is_cut
    assert messages.render_value(("[" * 100_000).encode()).kind == "text"
    assert messages.render_value(None).kind == "tombstone"


def test_the_headers_of_a_message_are_facts() -> None:
    facts = dict(messages.message_facts(message(1, b"x", b"key", {"source": b"shop\n", "raw": b"\xff\xfe\xfd\xfc"})))
    assert facts["header source"] == "shop\\n"
    assert facts["header raw"] == "0xfffefdfc"
    assert facts["key"] == "key"


# --- what people type ---


@pytest.mark.parametrize(
    ("text", "ago"),
    [("-10m", 600), ("23:59", 60), ("23:59:30", 30), ("00:00", 0), ("00:01", 86_340), ("2025-12-31", 86_400)],
)
def test_a_moment_is_typed_in_several_ways(text: str, ago: int) -> None:
    assert formats.parse_moment(text, NOW_NS) == NOW_NS - ago * NANOSECONDS


@pytest.mark.parametrize("text", ["yesterday", "25:99", "-5x", "2026-13-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        formats.parse_moment(text, NOW_NS)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("", []),
        ("timeout", ["value~timeout"]),
        ("two words", ["value~two words"]),
        ("json.total>40", ["json.total>40"]),
        ("json.total>40 key=a", ["json.total>40", "key=a"]),
        ("header.source", ["header.source"]),
        ("value~two words", ["value~two words"]),
        ("http://x=1", ["value~http://x=1"]),
    ],
)
def test_plain_text_is_looked_for_in_the_value(text: str, filters: list[str]) -> None:
    assert formats.parse_filters(text) == filters


def test_a_place_is_typed_and_has_something_above_it() -> None:
    place = routes.parse_location("tail orders 2")
    assert place == Location("messages", ("orders", "2"))
    assert [str(one) for one in routes.trail(place)] == ["overview", "topics", "topic orders", "messages orders 2"]
    assert routes.parse_location("topic") is None
    assert routes.location_usage("topic") == "write it as :topic TOPIC"
    assert routes.parse_location("topics orders") == Location("topic", ("orders",))
    assert routes.parse_location("groups") == Location("groups")
    assert routes.parse_location("overview orders") is None
    assert routes.parse_location("") is None


def test_every_screen_can_be_made_and_has_its_own_key_and_name() -> None:
    for row in routes.ROUTES:
        assert make_screen(Location(row.name, tuple(row.about))).place.page == row.name
    keys = [row.key for row in routes.ROUTES if row.key]
    names = [name for row in routes.ROUTES for name in (row.name, *row.aliases)]
    assert len(set(keys)) == len(keys)
    assert len(set(names)) == len(names)


def test_shell_command_is_quoted() -> None:
    app = SimpleNamespace(service=SimpleNamespace(address="http://x:1"))
    command = DashboardApp.shell_command(cast(DashboardApp, app), "goqueue-cli", "consume", "a b")
    assert command == "goqueue-cli consume 'a b' --server http://x:1"


def test_the_clipboard_is_given_to_what_the_platform_has() -> None:
    assert clipboard_commands({}, "linux") == []
    assert clipboard_commands({"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}, "linux")[0] == ["wl-copy"]
    assert clipboard_commands({}, "darwin") == [["pbcopy"]]


# --- the broker ---


def test_the_health_is_that_of_the_doctor_as_long_as_the_broker_is_there() -> None:
    assert frame.health_badge(ConnectionStatus("here", 0), DOCTOR) == ("▲", "2 alerts", "warn")
    assert frame.health_badge(ConnectionStatus("here", 0), {"status": "ok"}).word == "ok"
    groups = {"falling_behind": 2, "unattended": 1, "lagging": 3, "keeping_up": 4}
    troubled = frame.health_badge(ConnectionStatus("here", 0), {"status": "ok", "groups": groups})
    assert troubled == ("▲", "2 groups falling behind, 1 unattended", "warn")
    lagging = frame.health_badge(ConnectionStatus("here", 0), {"status": "ok", "groups": {"lagging": 3}})
    assert lagging == ("●", "ok", "good")
    assert frame.health_badge(ConnectionStatus("here", 0), {}).word == "here"
    assert frame.health_badge(ConnectionStatus("away", 0), {"status": "ok"}).word == "away"
    assert frame.health_badge(ConnectionStatus("asking", 0), {}).word == "asking"


def test_a_broker_that_is_away_is_told_with_the_time_that_is_left() -> None:
    link = ConnectionStatus("away", NOW_NS, NOW_NS + 3 * NANOSECONDS)
    assert frame.connection_trouble(link, "http://x", NOW_NS) == "broker is away since 00:00:00, trying again in 3 s"
    assert frame.connection_trouble(link, "http://x", NOW_NS + 3 * NANOSECONDS).endswith("trying again")
    assert frame.connection_trouble(ConnectionStatus("asking", 0), "http://x", 0) == "asking http://x"


def test_the_head_shows_rates_and_how_they_came_to_be() -> None:
    found = frame.header_rates(STATS, HISTORY)
    assert [one.title for one in found] == ["in", "out", "p99", "written", "settled", "requests"]
    assert found[0].text == "14.2k/s"
    assert frame.header_rates({}, {}) == []


def test_latency_is_absent_while_nothing_is_published() -> None:
    found = frame.header_rates(STATS, {"series": {"publish_p99_ms": [4.0, 0.0]}})
    assert next(one.text for one in found if one.title == "p99") == "-"


def test_figures_have_a_tone_where_they_are_limited() -> None:
    disk = next(one for one in overview.overview_numbers(STATS) if one.noun == "disk")
    assert (disk.text, disk.tone) == ("████▍  73%", "warn")
    assert overview.overview_numbers({}) == []


def test_disk_is_shown_with_what_is_used_and_available() -> None:
    shown = [(one.noun, one.text) for one in overview.overview_numbers(STATS)]
    disk: Any = STATS["disk"]
    assert ("used", formats.size(disk["used_bytes"])) in shown
    assert ("available", formats.size(disk["free_bytes"])) in shown


def test_numbers_of_one_node_of_a_cluster_say_so() -> None:
    alone = [one.noun for one in overview.overview_numbers(STATS)]
    of_node = [one.noun for one in overview.overview_numbers({**STATS, "node_id": "n1"})]
    assert {"in topics", "groups"} <= {*alone}
    assert {"in topics here", "groups here"} <= {*of_node}
    assert frame.broker_summary({"node_id": "n1"}, {}) == ["node n1"]


def test_findings_begin_with_the_worst() -> None:
    found: Any = overview.sorted_findings(DOCTOR)
    assert [one["severity"] for one in found] == ["critical", "warning", "note"]
    assert overview.sorted_findings({}) is None


def test_that_nothing_is_wrong_is_said_once_it_is_known() -> None:
    assert overview.verdict_numbers({}) == []
    assert overview.verdict_numbers(DOCTOR) == []
    assert overview.verdict_numbers({"checks": [1, 2], "findings": [], "groups": {"keeping_up": 2}}) == [
        ("● all is well", "2 checks passed", "good"),
        ("2 groups", "keeping up", "good"),
    ]


def test_groups_in_trouble_are_counted_with_the_worst_first() -> None:
    doctor = {"findings": [{}], "groups": {"falling_behind": 2, "unattended": 1, "lagging": 1, "keeping_up": 4}}
    assert overview.verdict_numbers(doctor) == [
        ("2 groups", "falling behind", "bad"),
        ("1 group", "unattended", "warn"),
        ("1 group", "lagging", ""),
        ("4 groups", "keeping up", "good"),
    ]


def test_groups_that_are_late_begin_with_the_worst() -> None:
    found = overview.late_groups([group("a", 2), group("b", 70, "behind"), group("c", 700, "stuck"), group("d", 3_000)])
    assert [one.group_id for one in found] == ["c", "b"]


def group(name: str, seconds: float, condition: str = "keeping_up") -> GroupDetails:
    return GroupDetails(
        group_id=name, state="stable", condition=condition, generation=1, total_lag=10, lag_seconds=seconds
    )
