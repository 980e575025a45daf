"""Dead letters, resets and redrives as values: what is shown, and what is read of what was typed."""

import pytest

from goqueue.client.admin_requests import Offsets, TopicInfo
from goqueue.console.dead_letters import RedriveTotals, origin_of
from goqueue_admin.dashboard.screens.redrive import RedriveForm, parse_redrive_options
from goqueue_admin.dashboard.screens.reset import ResetDestination, parse_partitions, parse_target
from goqueue_admin.dashboard.views import dead_letters, message
from tests.tui import group_fakes
from tests.tui.fakes import NOW_NS

_SECOND_NS = 1_000_000_000


# --- counting ---


def test_letters_are_counted_again_when_there_are_others_but_not_each_time() -> None:
    recount = dead_letters.RecountSchedule()
    assert recount.is_due("a", 5, NOW_NS)
    recount.note("a", 5, NOW_NS)
    assert not recount.is_due("a", 6, NOW_NS + 9 * _SECOND_NS)
    assert recount.is_due("a", 6, NOW_NS + 10 * _SECOND_NS)


def test_letters_are_counted_again_now_and_then_because_some_may_have_been_sent_back() -> None:
    recount = dead_letters.RecountSchedule()
    recount.note("a", 5, NOW_NS)
    assert not recount.is_due("a", 5, NOW_NS + 59 * _SECOND_NS)
    assert recount.is_due("a", 5, NOW_NS + 60 * _SECOND_NS)


def test_what_was_changed_from_here_is_counted_at_once() -> None:
    recount = dead_letters.RecountSchedule()
    recount.note("a", 5, NOW_NS)
    recount.expire()
    assert recount.is_due("a", 5, NOW_NS)
    recount.note("a", 5, NOW_NS)  # the answer from before
    assert recount.is_due("a", 5, NOW_NS)
    recount.note("a", 5, NOW_NS + 1)
    assert not recount.is_due("a", 5, NOW_NS + 1)


def test_an_answer_with_large_letters_has_few_of_them() -> None:
    assert dead_letters.page_size(1_000, 100_000) == dead_letters.AT_ONCE_MAX
    assert dead_letters.page_size(10, 10 * 2**20) == 4
    assert dead_letters.page_size(1, 2**30) == 1
    assert dead_letters.page_size(0, 0) == dead_letters.AT_ONCE_MAX


def test_the_newest_are_looked_for_at_the_end_of_each_partition() -> None:
    info = TopicInfo("a.dlq", 3, partition_offsets={"0": Offsets(0, 500), "1": Offsets(5, 9), "2": Offsets(0, 0)})
    start = dead_letters.newest_offsets(info, 90)
    assert dict(start.items()) == {0: 470, 1: 5, 2: 0}
    assert hash(start) == hash(dead_letters.newest_offsets(info, 90))


# --- what is shown ---


def test_a_topic_that_was_not_counted_yet_is_there() -> None:
    lines = dead_letters.topic_rows(group_fakes.GroupClient().all_topics, lambda _: {})
    assert [(line.name, line.letters) for line in lines or ()] == [("orders.dlq", None), ("payments.dlq", None)]


def test_reasons_have_their_share_and_the_newest_of_them() -> None:
    counts = {"errors": {"a": 3, "": 1}}
    newest = [
        {"error": "a", "timestamp": "2026-01-01T00:00:01Z", "group": "billing"},
        {"error": "a", "timestamp": "2026-01-01T00:00:05Z", "group": "till"},
    ]
    first, second = dead_letters.error_rows(counts, newest) or []
    assert (first.part, first.newest, first.group) == (0.75, "2026-01-01T00:00:05Z", "till")
    assert (second.error, second.newest) == ("", None)
    shown = {column.title: column.cell(second, None).text for column in dead_letters.error_columns()}
    assert shown["ERROR"] == "(no error given)"


def test_a_letter_tells_how_it_failed_and_its_own_headers_alone() -> None:
    facts = [(name, text) for name, text, _ in dead_letters.facts(group_fakes.letter(4))]
    assert ("error", "cents is null") in facts
    assert ("attempts", "4 in 3m12s, first at 2025-12-31 22:58:01") in facts
    assert ("origin", "payments/1@9004") in facts
    assert [fact for fact in facts if fact[0].startswith("header")] == [("header source", "app")]


def test_a_letter_of_which_little_is_known_is_shown_all_the_same() -> None:
    bare = {"partition": 0, "offset": 3, "timestamp": "2026-01-01T00:00:00Z", "value": None, "key": None}
    assert {name: text for name, text, _ in dead_letters.facts(bare)}["error"] == "(no error given)"
    assert message.value_preview(bare) == "∅"
    assert message.render_value(message.value_bytes(bare)).kind == "tombstone"
    assert origin_of(bare) is None


def test_letters_are_filtered_by_key_and_reason_too() -> None:
    assert dead_letters.dead_letter_key(group_fakes.letter(4)) == "1@4 order-000004 cents is null"
    assert dead_letters.position_text(group_fakes.letter(4)) == "1@4"


def test_a_value_of_bytes_is_shown_as_bytes() -> None:
    letter = {**group_fakes.letter(0), "value": "AAH//g==", "encoding": "base64"}
    assert message.value_bytes(letter) == b"\x00\x01\xff\xfe"
    assert message.value_preview(letter) == "\x00\x01\\xff\\xfe"
    assert message.render_value(message.value_bytes(letter)).kind == "bytes"


def test_a_long_value_of_bytes_has_a_beginning() -> None:
    letter = {**group_fakes.letter(0), "value": "QUFB" * 1_000, "encoding": "base64"}
    assert message.value_preview(letter) == "A" * 300


# --- what is typed ---


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ResetDestination("earliest", {}, ("--to", "earliest"))),
        ("latest", ResetDestination("latest", {}, ("--to", "latest"))),
        ("@1200", ResetDestination("offset", {"offset": 1200}, ("--to", "1200"))),
        ("1200", ResetDestination("offset", {"offset": 1200}, ("--to", "1200"))),
        ("shift -100", ResetDestination("shift", {"shift": -100}, ("--shift", "-100"))),
        ("-1h", ResetDestination("time", {"time": NOW_NS - 3600 * _SECOND_NS}, ("--to", "-1h"))),
        (
            "2025-12-31T12:00:00Z",
            ResetDestination(
                "time", {"time": NOW_NS - 12 * 3600 * _SECOND_NS}, ("--to", "2025-12-31T12:00:00.000000000Z")
            ),
        ),
    ],
)
def test_a_target_is_read(text: str, target: ResetDestination) -> None:
    assert parse_target(text, NOW_NS) == target


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "say where to"),
        ("-100", "`shift -100` counts messages, `-100s` seconds"),
        ("shift 0", "moves nothing"),
        ("9999999999999999999", "larger than any offset"),
        ("yesterday", "is not a time"),
        ("shift abc", "is not a time.*; or write one of: earliest .* shift -100"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_target(text, NOW_NS)


def test_partitions_are_read_in_any_order() -> None:
    assert parse_partitions("") is None
    assert parse_partitions("2, 0 2") == [0, 2]
    with pytest.raises(ValueError, match="write it as in 0,2"):
        parse_partitions("0-2")


def test_redrive_options_have_only_typed_fields() -> None:
    values = {"error": "null", "group": "", "key": "", "limit": "1,000", "rate": "50/s", "target": ""}
    assert parse_redrive_options(values) == RedriveForm({"error": "null"}, 1_000, 50.0)
    assert parse_redrive_options({}) == RedriveForm({}, None, None)


@pytest.mark.parametrize(
    ("field", "text"), [("limit", "0"), ("limit", "many"), ("rate", "0.01"), ("rate", "fast"), ("rate", "nan")]
)
def test_invalid_redrive_option_is_refused(field: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"the {field} is"):
        parse_redrive_options({field: text})


# --- how far it is ---


def _answer(moved: int, *codes: str, complete: bool = False) -> dict[str, object]:
    results = [{"error": {"code": code, "error": "no"}} for code in codes]
    return {"moved": moved, "scanned": moved, "complete": complete, "results": results}


def test_a_redrive_ends_when_as_many_went_as_were_wanted() -> None:
    outcome = RedriveTotals(limit=250)
    assert outcome.next_count(200, None) == 200
    outcome.add(_answer(200))
    assert (outcome.next_count(200, None), outcome.next_count(200, 20.5), outcome.is_over) == (50, 20, False)
    outcome.add(_answer(50))
    assert (outcome.is_done, outcome.is_over) == (True, True)


def test_a_letter_that_cannot_go_does_not_keep_the_others() -> None:
    outcome = RedriveTotals(limit=None)
    outcome.add(_answer(3, "message_too_large"))
    assert (outcome.is_done, outcome.is_over) == (False, False)
    outcome.add(_answer(0, "disk_full"))
    assert (outcome.is_done, outcome.is_over) == (False, True)
    assert outcome.failures.total() == 2
