"""The client's methods for dead letters."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from goqueue.client.address import quote
from goqueue.client.admin_requests import JsonObject, filter_texts, given
from goqueue.client.answers import DeadLetterErrors, DeadLetters, Redrive
from goqueue.client.api_request import ApiRequest, json_request, operation, with_query
from goqueue.client.times import Moment, to_text

if TYPE_CHECKING:
    from typing import Unpack

    from goqueue.client.message_encoding import Key


class RedriveArguments(TypedDict, total=False):
    """All options of `redrive`."""

    error: str | None
    group: str | None
    key: "Key"
    header: Mapping[str, str] | None
    filters: Iterable[str] | str
    from_time: Moment | None
    to_time: Moment | None
    limit: int | None
    rate: float | None
    target: str | None
    start: Mapping[Any, int] | None
    dry_run: bool
    operation: int | None


class DeadLetterAdmin:
    """Dead letters of topics."""

    @operation
    def redrive(self, /, topic: str, **options: "Unpack[RedriveArguments]") -> ApiRequest[Redrive]:
        """Return dead letters to their topics. Each is moved exactly once, however often this is called.

        `error`, `group`, `key`, `header`, `filters`, `from_time` and `to_time` select them; `limit`, `rate`, `target`,
        `start` (`next` of the previous answer), its `operation` and `dry_run` are options.
        """
        body = _timed(options)
        if isinstance(body.get("key"), (bytes, bytearray, memoryview)):
            body |= _key(bytes(body["key"]))
        if "filters" in body:
            body["filter"] = filter_texts(body.pop("filters"))
        hint = "call it again: what was moved already is not moved a second time, and the rest goes on"
        path = f"/topics/{quote(topic)}/redrive"  # not idempotent: each request moves as many as `limit` says
        return json_request("POST", path, Redrive, body, idempotent=False, unsure_hint=hint)

    @operation
    def dead_letters(  # noqa: PLR0913 - as above
        self,
        topic: str,
        limit: int = 100,
        error: str | None = None,
        group: str | None = None,
        start: Mapping[Any, int] | None = None,
        filters: Iterable[str] | str = (),
        *,
        from_time: Moment | None = None,
        to_time: Moment | None = None,
    ) -> ApiRequest[DeadLetters]:
        """Return dead letters of a topic that were not redriven: `messages`, and why they failed.

        `error` is a part of the reason, `group` the group that failed, `filters` are as for a reader, `from_time` and
        `to_time` limit when they failed, and `start` is `next` of the previous answer, until that is `complete`.
        """
        options = _timed({"error": error, "group": group, "from_time": from_time, "to_time": to_time})
        if start:
            options["start"] = ",".join(f"{partition}:{offset}" for partition, offset in start.items())
        path = f"/topics/{quote(topic)}/dead-letters"
        return json_request("GET", with_query(path, limit=limit, **options, filter=filter_texts(filters)), DeadLetters)

    @operation
    def dead_letter_errors(self, topic: str) -> ApiRequest[DeadLetterErrors]:
        """Return why the dead letters of a topic failed, and how many for each reason."""
        return json_request("GET", f"/topics/{quote(topic)}/dead-letters/errors", DeadLetterErrors)


def _timed(options: Mapping[str, Any]) -> JsonObject:
    """Return the given options, with times in RFC 3339."""
    chosen = given(options)
    return chosen | {name: to_text(chosen[name]) for name in ("from_time", "to_time") if name in chosen}


def _key(key: bytes) -> dict[str, str]:
    """Return the fields of a key: as text where possible."""
    try:
        return {"key": key.decode(), "key_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"key": b64encode(key).decode(), "key_encoding": "base64"}
