"""Addresses, times, keys and refusals: the small things that both clients speak."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from goqueue import errors
from goqueue.client import api_request, times
from goqueue.client.address import Address, parse, quote
from goqueue.client.api_request import ApiRequest, ApiResponse
from goqueue.client.request_attempts import LONGEST_SECONDS, QUIET_SECONDS, Backoff, RequestAttempts, may_repeat
from goqueue.testing.clock import ManualClock

# --- addresses ---


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8080", Address("127.0.0.1", 8080)),
        ("broker:9", Address("broker", 9)),
        ("broker", Address("broker", 8080)),
        ("http://broker", Address("broker", 80)),
        ("https://broker.example", Address("broker.example", 443, secure=True)),
        ("http://[::1]:8080/base/", Address("::1", 8080, base="/base")),
    ],
)
def test_an_address_is_read(url: str, address: Address) -> None:
    assert parse(url) == address
    assert parse(str(address)) == address


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "http://x:99999", "http://x:0", "http://x y", "http://x?q", "x\n"]
)
def test_what_is_no_address_is_refused_by_name(url: str) -> None:
    with pytest.raises(errors.RequestInvalid) as refusal:
        parse(url)
    assert repr(url) in refusal.value.sentence


@pytest.mark.parametrize("host", ["a..b", ".a", "a" * 64, "ä" * 70, "ä..b"])
def test_a_name_that_no_host_can_have_is_refused_at_once(host: str) -> None:
    with pytest.raises(errors.RequestInvalid, match="no host has such a name"):
        parse(f"http://{host}:80")


@pytest.mark.parametrize("host", ["a", "a.", "a" * 63 + ".example", "bücher.example", "my_broker-1"])
def test_unusual_names_of_hosts_are_taken(host: str) -> None:
    assert parse(f"http://{host}:80").host == host


def test_without_an_address_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_SERVER", "http://other:1")
    assert parse(None) == Address("other", 1)
    monkeypatch.delenv("GOQUEUE_SERVER")
    assert str(parse(None)) == "http://127.0.0.1:8080"


@pytest.mark.parametrize(("name", "part"), [("orders.eu-1", "orders.eu-1"), ("a/b?c", "a%2Fb%3Fc"), ("ü", "%C3%BC")])
def test_a_name_is_one_part_of_a_path(name: str, part: str) -> None:
    assert quote(name) == part


# --- times ---


def test_moments_agree_in_every_form() -> None:
    moment = 1_700_000_000_123_456_000
    zone = timezone(timedelta(hours=2))
    for form in (moment, datetime.fromtimestamp(moment / 1e9, UTC), datetime.fromtimestamp(moment / 1e9, zone)):
        assert times.nanoseconds(form) == moment
    assert times.nanoseconds(times.to_text(moment + 789)) == moment + 789
    assert times.nanoseconds(times.to_datetime(moment)) == moment


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "yesterday", -1, 2**63])  # noqa: DTZ001
def test_a_time_that_could_mean_anything_is_refused(moment: times.Moment) -> None:
    with pytest.raises(errors.RequestInvalid):
        times.nanoseconds(moment)


def test_durations_are_text_or_seconds() -> None:
    assert (times.seconds("500ms", "wait"), times.seconds(2, "wait")) == (0.5, 2.0)
    for wrong in ("soon", -1, float("nan"), float("inf")):
        with pytest.raises(errors.RequestInvalid, match="wait"):
            times.seconds(wrong, "wait")


# --- refusals ---


def answer(body: bytes, status: int, **headers: bytes) -> ApiResponse:
    return ApiResponse(status, {name.replace("_", "-").encode(): value for name, value in headers.items()}, body)


def test_a_refusal_becomes_the_error_with_its_code() -> None:
    body = b'{"error":"no topic x","code":"topic_not_found","hint":"make it","details":{"name":"x"}}'
    error = api_request.error_of_response(answer(body, 404))
    assert type(error) is errors.TopicNotFound
    assert (error.sentence, error.hint, error.details) == ("no topic x", "make it", {"name": "x"})


def test_every_code_has_its_class() -> None:
    for code, kind in api_request.error_classes().items():
        assert type(api_request.error_of_record({"error": "x", "code": code})) is kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (418, errors.CallerError),
        (500, errors.OperatorError),
        (503, errors.TransientError),
        (502, errors.BrokerUnreachable),
    ],
)
def test_an_unknown_code_becomes_a_general_error(status: int, kind: type[errors.GoQueueError]) -> None:
    error = api_request.error_of_response(answer(b'{"error":"odd","code":"brand_new"}', status))
    assert type(error) is kind
    assert (error.sentence, error.details["code"], error.details["status"]) == ("odd", "brand_new", status)


UNREADABLE = [b"", b"<html>", b"[]", b'{"detail":"Not Found"}', b'{"error":7,"details":[],"hint":{}}', b"\xff"]


@pytest.mark.parametrize("body", UNREADABLE)
def test_a_refusal_without_a_code_is_none_of_a_broker(body: bytes) -> None:
    error = api_request.error_of_response(answer(body, 404))
    assert type(error) is errors.BrokerUnreachable
    assert "this address is not a GoQueue broker" in error.sentence
    assert "status 404" in error.sentence


@pytest.mark.parametrize("body", UNREADABLE)
def test_what_a_proxy_says_of_a_broker_that_is_away_passes(body: bytes) -> None:
    error = api_request.error_of_response(answer(body, 502))
    assert (type(error), error.sentence) == (errors.BrokerUnreachable, "the answer is 502")
    assert may_repeat(ApiRequest("GET", "/", lambda _: None), error)


def test_details_cannot_take_the_place_of_the_sentence() -> None:
    error = api_request.error_of_record(
        {"error": "x", "code": "topic_busy", "details": {"sentence": 1, "hint": 2, "self": 3, "a": 4}}
    )
    assert (error.sentence, error.details) == ("x", {"a": 4})


# --- trying again ---


def test_waits_grow_and_are_spread() -> None:
    backoff, error = Backoff(), errors.BrokerUnreachable("x")
    longest = [backoff.next(error, 1.0) for _ in range(30)]
    assert longest == sorted(longest)
    assert longest[-1] == LONGEST_SECONDS
    assert Backoff().next(error, 0.0) == 0.0


def test_the_broker_may_ask_for_more_time() -> None:
    assert Backoff().next(errors.BrokerOverloaded("x", retry_after=3), 0.0) == 3.0
    assert api_request.error_of_response(answer(b"{}", 429, retry_after=b"7")).details["retry_after"] == 7.0


def test_only_what_does_no_harm_is_repeated() -> None:
    safe: ApiRequest[None] = ApiRequest("GET", "/", lambda _: None)
    unsafe: ApiRequest[None] = ApiRequest("POST", "/", lambda _: None, idempotent=False)
    passing, unsure = errors.BrokerStopping("x"), errors.BrokerUnreachable("x", unsure=True)
    assert may_repeat(safe, unsure)
    assert may_repeat(unsafe, passing)
    assert not may_repeat(unsafe, unsure)
    assert not may_repeat(safe, errors.TopicNotFound("x"))
    assert not may_repeat(safe, errors.BrokerUnreachable("x", foreign=True))


def test_an_attempt_that_no_time_is_left_for_raises_what_went_wrong_before() -> None:
    safe: ApiRequest[None] = ApiRequest("GET", "/", lambda _: None)
    attempts = RequestAttempts(safe, 0.0)
    assert attempts.left() <= 0
    wrong = errors.BrokerUnreachable("x")
    with pytest.raises(errors.BrokerUnreachable):
        attempts.after(wrong)
    with pytest.raises(errors.BrokerUnreachable) as error:
        attempts.left()
    assert error.value is wrong


def attempts_and_clock(call: ApiRequest[None]) -> tuple[RequestAttempts, ManualClock]:
    clock = ManualClock()
    return RequestAttempts(call, 30.0, lambda: clock.monotonic_ns() / 1e9), clock


@pytest.mark.parametrize(
    "late", [errors.RequestTimedOut("x", unsure=True), errors.BrokerUnreachable("timed out", unsent=True)], ids=repr
)
def test_refusal_is_raised_when_a_later_attempt_gets_no_answer_in_time(late: errors.GoQueueError) -> None:
    attempts, clock = attempts_and_clock(ApiRequest("GET", "/", lambda _: None))
    refusal = errors.BrokerStopping("x")
    attempts.after(refusal)
    clock.advance(30)
    with pytest.raises(errors.BrokerStopping) as error:
        attempts.after(late)
    assert (error.value, refusal.details) == (refusal, {"unsure": True})


def test_timeout_is_raised_when_the_request_must_not_be_repeated() -> None:
    attempts, clock = attempts_and_clock(ApiRequest("POST", "/", lambda _: None, idempotent=False))
    attempts.after(errors.BrokerStopping("x"))
    clock.advance(30)
    with pytest.raises(errors.RequestTimedOut) as error:
        attempts.after(errors.RequestTimedOut("x", unsure=True))
    assert "may have been stored" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("last", "seconds"),
    [
        (errors.BrokerUnreachable("Connection refused", unsent=True, retry_after=30), 1),
        (errors.TopicNotFound("x"), 1),
        (errors.BrokerOverloaded("x"), 30),
        (errors.BrokerUnreachable("no broker", foreign=True), 30),
    ],
)
def test_last_error_is_raised_when_it_says_more_than_an_earlier_refusal(
    last: errors.GoQueueError, seconds: int
) -> None:
    attempts, clock = attempts_and_clock(ApiRequest("GET", "/", lambda _: None))
    attempts.after(errors.BrokerStopping("x"))
    clock.advance(seconds)
    with pytest.raises(type(last)) as error:
        attempts.after(last)
    assert error.value is last
    assert "unsure" not in last.details


def test_broker_that_is_away_is_reported_once_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    attempts, clock = attempts_and_clock(ApiRequest("GET", "/", lambda _: None))
    attempts.report(errors.BrokerUnreachable("no answer from the broker at http://a: Connection refused"), 1)
    clock.advance(QUIET_SECONDS)
    attempts.report(errors.BrokerOverloaded("x"), 1)
    assert caplog.messages == []
    for _ in range(2):
        attempts.report(errors.BrokerUnreachable("no answer from the broker at http://a: Connection refused"), 1)
    assert caplog.messages == ["no answer from the broker at http://a: Connection refused; trying again for 28 s"]


def test_refusal_is_what_is_told_where_no_time_is_left_for_an_answer_to_a_request_that_must_not_be_repeated() -> None:
    unsafe: ApiRequest[None] = ApiRequest("POST", "/", lambda _: None, idempotent=False)
    attempts, clock = attempts_and_clock(unsafe)
    attempts.after(errors.NotEnoughReplicas("too few replicas"))
    clock.advance(29.95)
    refusal = errors.NotEnoughReplicas("too few replicas, at the end")
    with pytest.raises(errors.NotEnoughReplicas) as told:
        attempts.after(refusal)
    assert told.value is refusal
    assert told.value.hint != unsafe.unsure_hint


def test_patience_extends_the_wait_for_an_answer_only() -> None:
    patient: ApiRequest[None] = ApiRequest("POST", "/", lambda _: None, patience=3600.0)
    away, broken = errors.BrokerUnreachable("x", unsent=True), errors.BrokerUnreachable("x", unsure=True)
    assert RequestAttempts(patient, 1.0).left() > 3600.0
    with pytest.raises(errors.BrokerUnreachable):
        RequestAttempts(patient, 0.0).after(away)
    attempts = RequestAttempts(patient, 30.0)
    attempts.after(broken)
    assert 3600.0 < attempts.left() <= 3630.0
    impatient: ApiRequest[None] = ApiRequest("GET", "/", lambda _: None)
    with pytest.raises(errors.BrokerUnreachable):
        RequestAttempts(impatient, 0.0).after(broken)
