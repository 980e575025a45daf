"""Numbers, messages and the broker itself, as screens tell them."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies

from goqueue.client.insight import GroupDetails
from goqueue.clock import NANOSECONDS
from goqueue.console.terminal import visible
from goqueue_admin.dashboard import pages
from goqueue_admin.dashboard.clipboard import commands
from goqueue_admin.dashboard.commands import line
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Link
from goqueue_admin.dashboard.screens.page import make
from goqueue_admin.dashboard.views import message as messages
from goqueue_admin.dashboard.views import numbers, overview, status, tail, times
from tests.tui.fakes import DOCTOR, HISTORY, NOW_NS, STATS, message


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0, "0"), (7, "7"), (0.25, "0.25"), (9.5, "9.5"), (987.4, "987"), (999.7, "1.0k")),
        *((12_345, "12.3k"), (999_999, "1.0M"), (1_234_567, "1.2M"), (98_765_432_100, "98.8G"), (-1500, "-1.5k")),
    ],
)
def test_a_number_is_three_digits_and_a_letter(number: float, text: str) -> None:
    assert numbers.short(number) == text


@pytest.mark.parametrize(
    ("part", "tone"), [(0.0, ""), (0.69, ""), (0.7, "warn"), (0.89, "warn"), (0.9, "bad"), (1, "bad")]
)
def test_what_is_limited_has_a_tone_from_70_and_from_90_percent(part: float, tone: str) -> None:
    assert numbers.share_tone(part) == tone


def test_durations_that_have_no_end_are_told() -> None:
    assert [numbers.seconds(one) for one in (None, 0, 90)] == ["∞", "0s", "1m30s"]
    assert [numbers.milliseconds(one) for one in (0.62, 12.34, 2500)] == ["0.62ms", "12.3ms", "2.5s"]


# --- the ring of messages ---


def lines(*offsets: int) -> list[tail.Seen]:
    return [tail.seen(message(offset, b"%d" % offset)) for offset in offsets]


def test_a_ring_keeps_the_newest_lines_and_their_numbers() -> None:
    ring = tail.Ring(3)
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
    pace = tail.Pace()
    for tenth in range(1, 31):
        pace.add(100 if tenth > 15 else 7)
        pace.mark(tenth * NANOSECONDS // 10)
    assert pace.per_second == pytest.approx(1000)
    assert tail.Pace().per_second == 0


def test_what_is_passed_over_is_counted() -> None:
    received, shown = tail.Pace(), tail.Pace()
    for second in range(1, 4):
        received.add(98_000)
        shown.add(1_200)
        received.mark(second * NANOSECONDS)
        shown.mark(second * NANOSECONDS)
    assert tail.told(received, shown, None) == "shown 1,200/s of 98,000/s, dropped 290k"
    assert tail.told(shown, shown, None) == "3,600 shown, 1,200/s"
    assert tail.told(shown, shown, 90_000) == "3,600 of 90,000 fit"


def test_a_line_shows_bytes_control_characters_and_nothing_at_all() -> None:
    assert tail.text(b"two\nlines \x1b[31m") == "two\\nlines \\x1b[31m"
    assert tail.text(b"\xff\x00\x01\x02\x03") == "0xff00010203"
    assert tail.text("grün".encode()[:3]) == "gr"
    assert tail.text(None) == "-"
    tombstone = tail.Seen(0, 1, NOW_NS, b"k", None, 0)
    assert tail.cells(tombstone) == ("00:00:00.000", "0", "1", "k", "(tombstone)", True)
    assert tail.cells(tombstone._replace(value=b"")).value == "(0B)"


# --- one message ---


def plain(value: messages.Value) -> list[str]:
    return ["".join(span.text for span in line) for line in value.lines]


@given(
    strategies.recursive(
        strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(),
        lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
    ).filter(lambda value: isinstance(value, dict | list))
)
def test_json_has_the_lines_that_python_would_give_it(value: Any) -> None:
    expected = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    lines = [visible(line) for line in expected[: messages.LINES_MAX]]
    assert plain(messages.value(json.dumps(value).encode())) == lines


def test_numbers_and_repeated_names_of_json_stay_as_they_were_sent() -> None:
    value = messages.value(b'{"total": 10.00, "n": 1e2, "n": 12345678901234567890.10, "none": [ ]}')
    assert plain(value) == [
        "{", '  "total": 10.00,', '  "n": 1e2,', '  "n": 12345678901234567890.10,', '  "none": []', "}",
    ]  # fmt: skip


def test_json_is_set_apart_and_coloured() -> None:
    value = messages.value(json.dumps({"id": 17, "ok": True, "name": "Grün"}).encode())
    assert value.kind == "json"
    assert plain(value) == ["{", '  "id": 17,', '  "ok": true,', '  "name": "Grün"', "}"]
    assert [span.tone for span in value.lines[1] if span.tone != "muted"] == ["title", "accent"]


@pytest.mark.parametrize("text", ["[1, 2", "{nothing", "42", "words", '"alone"'])
def test_what_is_no_object_of_json_is_text(text: str) -> None:
    assert (messages.value(text.encode()).kind, plain(messages.value(text.encode()))) == ("text", [text])


def test_bytes_are_shown_in_hex() -> None:
    value = messages.value(b"\x00\xffAB" * 5)
    assert value.kind == "bytes"
    assert plain(value)[0] == "00000000  00 ff 41 42 00 ff 41 42 00 ff 41 42 00 ff 41 42  ··AB··AB··AB··AB"
    assert plain(value)[1].startswith("00000010  00 ff 41 42   ")


def test_a_value_that_is_very_long_is_cut_and_says_so() -> None:
    assert messages.value(b"x\n" * 10_000).is_cut
    assert len(messages.value(b"\xff" * 1_000_000).lines) == messages.LINES_MAX
    assert not messages.value(b"short").is_cut
    assert messages.value(("[" * 100_000).encode()).kind == "text"
    assert messages.value(None).kind == "tombstone"


def test_the_headers_of_a_message_are_facts() -> None:
    facts = dict(messages.facts(message(1, b"x", b"key", {"source": b"shop\n", "raw": b"\xff\xfe\xfd\xfc"})))
    assert facts["header source"] == "shop\\n"
    assert facts["header raw"] == "0xfffefdfc"
    assert facts["key"] == "key"


# --- what people type ---


@pytest.mark.parametrize(
    ("text", "ago"),
    [("-10m", 600), ("23:59", 60), ("23:59:30", 30), ("00:00", 0), ("00:01", 86_340), ("2025-12-31", 86_400)],
)
def test_a_moment_is_typed_in_several_ways(text: str, ago: int) -> None:
    assert times.parse_moment(text, NOW_NS) == NOW_NS - ago * NANOSECONDS


@pytest.mark.parametrize("text", ["yesterday", "25:99", "-5x", "2026-13-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        times.parse_moment(text, NOW_NS)


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
    assert times.filters(text) == filters


def test_a_place_is_typed_and_has_something_above_it() -> None:
    place = pages.parse("tail orders 2")
    assert place == Place("messages", ("orders", "2"))
    assert [str(one) for one in pages.trail(place)] == ["overview", "topics", "topic orders", "messages orders 2"]
    assert pages.parse("topic") is None
    assert pages.usage("topic") == "write it as :topic TOPIC"
    assert pages.parse("topics orders") is None
    assert pages.parse("") is None


def test_every_screen_can_be_made_and_has_its_own_key_and_name() -> None:
    for row in pages.PAGES:
        assert make(Place(row.name, tuple(row.about))).place.page == row.name
    keys = [row.key for row in pages.PAGES if row.key]
    names = [name for row in pages.PAGES for name in (row.name, *row.aliases)]
    assert len(set(keys)) == len(keys)
    assert len(set(names)) == len(names)


def test_a_command_is_quoted_as_a_shell_needs_it() -> None:
    assert line("goqueue-cli", "consume", "a b", server="http://x:1") == "goqueue-cli consume 'a b' --server http://x:1"


def test_the_clipboard_is_given_to_what_the_platform_has() -> None:
    assert commands({}, "linux") == []
    assert commands({"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}, "linux")[0] == ["wl-copy"]
    assert commands({}, "darwin") == [["pbcopy"]]


# --- the broker ---


def test_the_health_is_that_of_the_doctor_as_long_as_the_broker_is_there() -> None:
    assert status.health(Link("here", 0), DOCTOR) == ("▲", "2 alerts", "warn")
    assert status.health(Link("here", 0), {"status": "ok"}).word == "ok"
    assert status.health(Link("here", 0), {}).word == "here"
    assert status.health(Link("away", 0), {"status": "ok"}).word == "away"
    assert status.health(Link("asking", 0), {}).word == "asking"


def test_a_broker_that_is_away_is_told_with_the_time_that_is_left() -> None:
    link = Link("away", NOW_NS, NOW_NS + 3 * NANOSECONDS)
    assert status.trouble(link, "http://x", NOW_NS) == "broker is away since 00:00:00, trying again in 3 s"
    assert status.trouble(link, "http://x", NOW_NS + 3 * NANOSECONDS).endswith("trying again")
    assert status.trouble(Link("asking", 0), "http://x", 0) == "asking http://x"


def test_the_head_shows_rates_and_how_they_came_to_be() -> None:
    found = status.meters(STATS, HISTORY)
    assert [one.title for one in found] == ["in", "out", "p99", "written", "settled", "requests"]
    assert found[0].text == "14.2k/s"
    assert status.meters({}, {}) == []


def test_figures_have_a_tone_where_they_are_limited() -> None:
    disk = next(one for one in overview.figures(STATS) if one.noun == "disk")
    assert (disk.text, disk.tone) == ("████▌  74%", "warn")
    assert overview.figures({}) == []


def test_findings_begin_with_the_worst() -> None:
    found: Any = overview.findings(DOCTOR)
    assert [one["severity"] for one in found] == ["critical", "warning", "note"]
    assert overview.findings({}) is None


def test_that_nothing_is_wrong_is_said_once_it_is_known() -> None:
    assert overview.verdict({}, None) == []
    assert overview.verdict(DOCTOR, [group("a", 70)]) == []
    assert overview.verdict({"checks": [1, 2], "findings": []}, [group("a", 2)]) == [
        ("● all is well", "2 checks passed", "good"),
        ("● 1 group", "keeps up", "good"),
    ]


def test_groups_that_are_late_begin_with_the_worst() -> None:
    found = overview.late([group("a", 2), group("b", 70), group("c", 700), group("d", 3_000, lag=0)])
    assert [one.group_id for one in found] == ["c", "b"]


def group(name: str, seconds: float, lag: int = 10) -> GroupDetails:
    return GroupDetails(
        group_id=name, state="stable", generation=1, rebalance_state="complete", total_lag=lag, lag_seconds=seconds
    )
