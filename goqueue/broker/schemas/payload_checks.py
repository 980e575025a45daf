"""Checks messages against their schemas before they are stored.

A check belongs to one batch and sees the versions that are committed while it runs, so a deletion or a new version
counts from the next batch on. It reads each message once, and names what is wrong with the first bad ones.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from goqueue.broker.core.validation_settings import ValidationRule
from goqueue.broker.core.work import Work
from goqueue.broker.schemas.compiled_schemas import CompiledSchema, CompiledSchemas
from goqueue.broker.schemas.limits import (
    CHECK_BYTES_MAX,
    CHECK_EXPLAINED_BYTES_MAX,
    CHECK_INDEXES_MAX,
    CHECK_MESSAGE_PROBLEMS_MAX,
    CHECK_PROBLEMS_MAX,
    CHECK_SCHEMAS_MAX,
)
from goqueue.broker.schemas.records import VersionRecord
from goqueue.broker.schemas.state import RegistryState
from goqueue.compression import decompress
from goqueue.errors import FrameInvalid, RequestTooLarge, SchemaViolation
from goqueue.quantities import format_size, quoted
from goqueue.schemas.framing import (
    FIRST_MESSAGE,
    KEY_HEADER,
    PREFIX_BYTES,
    VALUE_HEADER,
    FramingInvalid,
    HeaderId,
    decode_header,
    decode_message_indexes,
    decode_prefix,
    encode_message_indexes,
    has_prefix,
)
from goqueue.schemas.schema_format import PayloadProblem, SchemaKind
from goqueue.schemas.subject_names import record_subject, topic_subject
from goqueue.storage.frame import COMPRESSED, HAS_HEADERS, TOMBSTONE, FrameContent, decode_headers

RefusalReason = Literal["payload", "id_missing", "id_unknown", "id_malformed", "subject_empty", "value_unreadable"]
REFUSAL_REASONS: tuple[RefusalReason, ...] = (
    "payload",
    "id_missing",
    "id_unknown",
    "id_malformed",
    "subject_empty",
    "value_unreadable",
)
_LACKING: tuple[RefusalReason, ...] = ("id_unknown", "subject_empty")
_UNEXPLAINED = (PayloadProblem("", "does not match its schema; why is not said, since others before it are too large"),)


class _Refused(Exception):
    """A key or value that may not be stored, whatever its payload is."""

    def __init__(self, reason: RefusalReason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class _SchemaNeeded(Exception):
    """The schema of a version must be compiled first."""

    def __init__(self, record: VersionRecord) -> None:
        super().__init__()
        self.record = record


class PayloadProblemRow(NamedTuple):
    """A problem of one message, as a refusal lists it."""

    message: int
    """Its index in the batch."""
    is_key: bool
    path: str
    problem: str
    schema_id: int | None


@dataclass(slots=True)
class _Target:
    """The schema that an id stands for in the keys or values of a topic, or the latest one, found once for a batch."""

    id: int
    schema: CompiledSchema | None
    """None if only ids are checked."""
    subjects: dict[tuple[int, ...], str | None] = field(default_factory=dict)
    """What is wrong with the subject of each message; None if nothing is."""


class PayloadChecker:
    """Begins the checks of batches. The owner performs `load` for schemas that a check needs."""

    def __init__(self, state: Callable[[], RegistryState]) -> None:
        self.state = state
        """Returns the committed state. Raises the error of a log that could not be read."""
        self.compiled = CompiledSchemas()
        self.checked = 0
        """Messages."""
        self.refused: Counter[str] = Counter(dict.fromkeys(REFUSAL_REASONS, 0))
        """Bad messages by the reason of the first problem of each."""

    def load(self, record: VersionRecord) -> Work[CompiledSchema]:
        """Compile the schema of a version, which a check needs."""
        return self.compiled.load(self.state(), record)

    def begin(self, topic: str, rules: Sequence[ValidationRule], prefix: str = "") -> "BatchCheck":
        """Begin to check a batch. All subjects of the topic begin with `prefix`, those of records included."""
        return BatchCheck(self, topic, rules, prefix, self.state())

    def empty_subject(self, topic: str, rule: ValidationRule) -> str | None:
        """Return the subject of a topic if the rule needs a schema of it, and it has none."""
        if rule.naming != "topic":
            return None
        subject = topic_subject(topic, is_key=rule.is_key)
        return subject if latest_version(self.state(), subject) is None else None


def latest_version(state: RegistryState, subject: str) -> VersionRecord | None:
    latest: VersionRecord | None = None
    for one in state.subjects.get(subject, {}).values():
        if not one.deleted and (latest is None or one.version > latest.version):
            latest = one
    return latest


class BatchCheck:
    """The check of one batch."""

    def __init__(
        self,
        checker: PayloadChecker,
        topic: str,
        rules: Sequence[ValidationRule],
        prefix: str,
        state: RegistryState,
    ) -> None:
        self._checker = checker
        self._topic = topic
        self._rules = rules
        self._prefix = prefix
        self._state = state
        self._targets: dict[tuple[bool, int | None], _Target] = {}
        self._bytes = self._explained_bytes = 0
        self.checked = 0
        self.invalid = 0
        """Messages with problems."""
        self.lacks_schema = False
        """Whether a message needs a schema that is not known."""
        self._reason: RefusalReason = "payload"
        """Of the message that was checked last."""
        self.problems: list[PayloadProblemRow] = []
        self._indexes: list[int] = []
        """Of invalid messages, as many as a refusal lists."""

    def check(self, index: int, message: FrameContent) -> VersionRecord | None:
        """Check the next message. If a schema must be loaded first, return its version: then call this again."""
        found: list[PayloadProblemRow] | None = None
        for rule in self._rules:
            payload = message.key if rule.is_key else None if message.flags & TOMBSTONE else message.value
            if payload is None:  # nothing to check: no key, or a deletion
                continue
            bytes_before = self._bytes
            try:
                problems, number = self._problems(rule, payload, message)
                reason: RefusalReason = "payload"
            except _Refused as refused:
                problems, number, reason = [PayloadProblem("", str(refused))], None, refused.reason
            except _SchemaNeeded as needed:
                self._bytes = bytes_before
                return needed.record
            if problems:
                if found is None:
                    self._reason, found = reason, []
                found += [PayloadProblemRow(index, rule.is_key, path, text, number) for path, text in problems]
        self.checked += 1
        if found is not None:
            self._note(index, found)
        return None

    def _note(self, index: int, found: list[PayloadProblemRow]) -> None:
        self.invalid += 1
        self.lacks_schema |= self._reason in _LACKING
        self._checker.refused[self._reason] += 1
        if self.invalid <= CHECK_INDEXES_MAX:
            self._indexes.append(index)
        if self.invalid <= CHECK_PROBLEMS_MAX:
            self.problems += found[:CHECK_MESSAGE_PROBLEMS_MAX]

    def _problems(
        self, rule: ValidationRule, payload: bytes, message: FrameContent
    ) -> tuple[Sequence[PayloadProblem], int | None]:
        """Return the problems of a key or value, and the id of its schema. Raises _Refused and _SchemaNeeded."""
        if message.flags & COMPRESSED and not rule.is_key:
            payload = self._uncompressed(payload)
        number: int | None = None
        indexes: tuple[int, ...] | None = FIRST_MESSAGE
        body = payload
        stated = _header_id(rule, message.headers) if message.flags & HAS_HEADERS else None
        if stated is not None:
            number, indexes = stated.id, stated.indexes or FIRST_MESSAGE
        elif has_prefix(payload):
            number, indexes, body = decode_prefix(payload), None, payload[PREFIX_BYTES:]
        target = self._targets.get((rule.is_key, number)) or self._found(rule, number)
        schema = target.schema
        if schema is None:
            return (), target.id
        if rule.naming != "topic":
            self._check_record_subject(rule, target, schema, indexes, body)
        if not rule.checks_payload:
            return (), target.id
        if indexes is not None and schema.kind is SchemaKind.PROTOBUF:
            body = encode_message_indexes(indexes) + body
        if self.invalid >= CHECK_PROBLEMS_MAX or self._explained_bytes > CHECK_EXPLAINED_BYTES_MAX:
            return () if schema.validator.is_valid(body) else _UNEXPLAINED, target.id
        problems = schema.validator.problems(body)
        self._explained_bytes += len(body) if problems else 0
        return problems, target.id

    def _uncompressed(self, value: bytes) -> bytes:
        try:
            whole = decompress(value)
        except FrameInvalid as error:
            raise _Refused("value_unreadable", error.sentence) from None
        self._bytes += len(whole)
        if self._bytes > CHECK_BYTES_MAX:
            raise RequestTooLarge(
                f"the values of one batch have more than {format_size(CHECK_BYTES_MAX)} without compression, which is "
                f"the most that is checked against schemas",
                hint="send fewer messages at once",
            )
        return whole

    # --- which schema ---

    def _found(self, rule: ValidationRule, number: int | None) -> _Target:
        record = self._latest(rule) if number is None else self._version_with(rule, number)
        compiled = None
        if len(self._targets) == CHECK_SCHEMAS_MAX:
            raise RequestTooLarge(
                f"one batch has messages of more than {CHECK_SCHEMAS_MAX} schemas", hint="send several batches"
            )
        if rule.needs_schema:
            compiled = self._checker.compiled.get(record)
            if compiled is None:
                raise _SchemaNeeded(record)
        target = self._targets[rule.is_key, number] = _Target(record.id, compiled)
        return target

    def _latest(self, rule: ValidationRule) -> VersionRecord:
        """Return the version that a payload without an id must match."""
        header = KEY_HEADER if rule.is_key else VALUE_HEADER
        if not rule.checks_payload:
            raise _Refused("id_missing", f"has no schema id: neither a prefix nor the header {header}")
        if rule.naming != "topic":
            raise _Refused(
                "id_missing",
                f"has no schema id, neither a prefix nor the header {header}: only with the subject `topic` the latest "
                "version counts",
            )
        subject = topic_subject(self._topic, is_key=rule.is_key)
        record = latest_version(self._state, subject)
        if record is None:
            raise _Refused("subject_empty", f"cannot be checked: the subject {quoted(subject)} has no schema")
        return record

    def _version_with(self, rule: ValidationRule, number: int) -> VersionRecord:
        """Return a version with an id; with the naming by topic, one of the topic's subject."""
        if rule.naming == "topic":
            subject = topic_subject(self._topic, is_key=rule.is_key)
            found = self._live_version(subject, number)
            if found is None:
                sentence = f"has the schema id {number}, which no version of the subject {quoted(subject)} has"
                raise _Refused("id_unknown", sentence)
            return found
        live = (one for one in self._state.users(number) if not one.deleted)
        record = next(live, None)
        if record is None:
            raise _Refused("id_unknown", _not_in_subject(rule, number))
        return record

    def _live_version(self, subject: str, number: int) -> VersionRecord | None:
        users, versions = self._state.users(number), self._state.subjects.get(subject, {})
        fewer = users if len(users) < len(versions) else versions.values()
        return next((one for one in fewer if one.id == number and one.subject == subject and not one.deleted), None)

    def _check_record_subject(
        self,
        rule: ValidationRule,
        target: _Target,
        schema: CompiledSchema,
        indexes: tuple[int, ...] | None,
        body: bytes,
    ) -> None:
        """Refuse a schema that is not in the subject of the record that the payload has."""
        if schema.kind is not SchemaKind.PROTOBUF:
            indexes = FIRST_MESSAGE
        elif indexes is None:
            try:
                indexes, _ = decode_message_indexes(body)
            except FramingInvalid as error:
                raise _Refused("id_malformed", str(error)) from None
        if indexes not in target.subjects:
            name = schema.names.get(indexes)
            is_there = name is not None and self._live_version(self._record_subject(rule, name), target.id) is not None
            if len(target.subjects) > len(schema.names):
                target.subjects.clear()  # indexes that no message has
            target.subjects[indexes] = None if is_there else _not_in_subject(rule, target.id)
        problem = target.subjects[indexes]
        if problem is not None:
            raise _Refused("id_unknown", problem)

    def _record_subject(self, rule: ValidationRule, name: str) -> str:
        subject = record_subject(rule.naming, self._topic, name)
        return self._prefix + subject if rule.naming == "record" else subject

    # --- the end ---

    def refusal(self, place: str, **details: object) -> SchemaViolation | None:
        """End the check. Return the error of the batch, if it may not be stored.

        `place` has {} for the index of a message.
        """
        self._checker.checked += self.checked
        if not self.invalid:
            return None
        rows = [self._row(place, one) | details for one in self.problems]
        first = self.problems[0]
        subject_rule = next(rule for rule in self._rules if rule.is_key is first.is_key)
        more = f"; {self.invalid - 1:,} more of {self.checked:,} messages are invalid" if self.invalid > 1 else ""
        at = f" at {first.path}:" if first.path else "" if first.schema_id is None else ":"
        return SchemaViolation(
            f"the {_part(first.is_key)} of message {first.message}{at} {first.problem}{more}",
            hint=_hint(self._topic, subject_rule),
            topic=self._topic,
            messages=self.checked,
            invalid=self.invalid,
            invalid_indexes=self._indexes,
            problems=rows,
            **details,
        )

    def _row(self, place: str, one: PayloadProblemRow) -> dict[str, object]:
        where = f"{place.format(one.message)}.{_part(one.is_key)}".lstrip(".")
        row: dict[str, object] = {"index": one.message, "place": where}
        if one.path:
            row["path"] = one.path
        row["problem"] = one.problem
        if one.schema_id is not None:
            row["schema_id"] = one.schema_id
        return row


def _part(is_key: bool) -> str:
    return "key" if is_key else "value"


def _header_id(rule: ValidationRule, headers: bytes) -> HeaderId | None:
    name = KEY_HEADER if rule.is_key else VALUE_HEADER
    try:
        stated = [value for header, value in decode_headers(headers) if header == name]
    except FrameInvalid:  # which admission refuses
        return None
    if not stated:
        return None
    if len(stated) > 1:
        raise _Refused("id_malformed", f"has {len(stated)} headers {name}")
    try:
        return decode_header(stated[0])
    except FramingInvalid as error:
        raise _Refused("id_malformed", f"has a header {name} that cannot be read: {error}") from None


def _not_in_subject(rule: ValidationRule, number: int) -> str:
    """Without the name of the record, which a client may not be allowed to know."""
    return f"has the schema id {number}, which no subject has that the naming `{rule.naming}` allows here"


def _hint(topic: str, rule: ValidationRule) -> str:
    if rule.naming != "topic":
        return f"`goqueue-cli topic describe {topic}` shows how messages are checked"
    return f"`goqueue-cli schema describe {topic_subject(topic, is_key=rule.is_key)}` shows the schema"
