"""The schema registry as rows, lines and sentences: subjects, versions, and differences between two of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.console.schemas import schema_differences, schema_lines
from goqueue.quantities import format_count
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.message import TonedSpan, json_spans
from goqueue_admin.dashboard.views.table import TableColumn

if TYPE_CHECKING:
    from goqueue.client import SchemaCompatibility, SchemaInfo, SchemaSubjectDetails, SchemaSubjectInfo
    from goqueue.client.schema_requests import SchemaVersionInfo

_PARTS = ("value", "key")
_LEVEL_TONES = {"NONE": "warn"}
_NORMAL_MODE = "READWRITE"
_DIFF_TONES = {"+": "good", "-": "bad", "@": "second"}
_TITLES = 2
"""Lines at the top of a unified diff."""
LINES_MAX = 5_000
"""More would block the screen for over 100 ms."""
Line = list[TonedSpan]


class SubjectUse(NamedTuple):
    """The topic whose keys or values a subject is about, and what is checked when messages are published."""

    topic: str
    check: str | None


TopicConfigs = Mapping[str, Mapping[str, Any]]
"""The settings of topics by their names."""
_UNUSED = SubjectUse("", None)


def subject_use(subject: str, topics: TopicConfigs) -> SubjectUse:
    """Return the use of a subject by its name; an empty topic if there is none, or it names subjects otherwise."""
    for part in _PARTS:
        name = subject.removesuffix(f"-{part}")
        if name != subject and name in topics and topics[name].get(f"{part}_subject", "topic") == "topic":
            check = topics[name].get(f"{part}_validation", "none")
            return SubjectUse(name, None if check == "none" else check)
    return _UNUSED


# --- subjects ---


def subject_columns(topics: Callable[[], TopicConfigs]) -> "tuple[TableColumn[SchemaSubjectInfo], ...]":
    return (
        TableColumn("SUBJECT", lambda one: one.subject, width=16, grows=True, tone=_subject_tone),
        TableColumn("TYPE", lambda one: one.schema_type, width=8),
        TableColumn("LATEST", lambda one: one.version, formats.count, 6, right=True),
        TableColumn("VERSIONS", lambda one: one.versions, formats.count, 8, right=True, rank=2),
        TableColumn("DELETED", lambda one: one.deleted_versions or None, formats.count, 7, right=True, rank=4),
        TableColumn("ID", lambda one: one.id, str, 6, right=True),
        TableColumn("REFS", lambda one: one.references or None, formats.count, 4, right=True, rank=3),
        TableColumn(
            "COMPATIBILITY", lambda one: one.compatibility, width=13, grows=True, most=19, rank=1, tone=_level_tone
        ),
        TableColumn("MODE", lambda one: one.mode, width=9, rank=5, tone=_mode_tone),
        TableColumn(
            "TOPIC", lambda one: subject_use(one.subject, topics()).topic or None, width=10, grows=True, rank=6, most=40
        ),
        TableColumn("CHECK", lambda one: subject_use(one.subject, topics()).check, width=7, rank=7, tone="good"),
    )


def _subject_tone(one: "SchemaSubjectInfo") -> str:
    return "" if one.versions else "muted"


def _level_tone(one: "SchemaSubjectInfo") -> str:
    """Return the tone of a level: one that all subjects have stands out less."""
    return _LEVEL_TONES.get(one.compatibility, "" if one.own_compatibility else "muted")


def _mode_tone(one: "SchemaSubjectInfo") -> str:
    return "muted" if one.mode == _NORMAL_MODE else "warn"


def _counted(number: int, noun: str) -> LabeledNumber:
    return LabeledNumber(formats.count(number), noun if number == 1 else f"{noun}s")


def registry_numbers(
    subjects: "Sequence[SchemaSubjectInfo] | None", level: str | None, mode: str | None
) -> list[LabeledNumber]:
    found = []
    if subjects is not None:
        live = [one for one in subjects if one.versions]
        found.append(_counted(len(live), "subject"))
        found.append(_counted(sum(one.versions for one in live), "version"))
        kinds = sorted({one.schema_type for one in live})
        found += [LabeledNumber(formats.count(sum(one.schema_type == kind for one in live)), kind) for kind in kinds]
        gone = len(subjects) - len(live)
        found += [LabeledNumber(formats.count(gone), "deleted", "muted")] if gone else []
    if level is not None:
        found.append(LabeledNumber(level, "for all", _LEVEL_TONES.get(level, "")))
    if mode is not None and mode != _NORMAL_MODE:
        found.append(LabeledNumber(mode, "mode", "warn"))
    return found


# --- one subject ---


def version_columns() -> "tuple[TableColumn[SchemaVersionInfo], ...]":
    return (
        TableColumn("VERSION", lambda one: one.version, str, 7, right=True, tone=_version_tone),
        TableColumn("ID", lambda one: one.id, str, 6, right=True, tone=_version_tone),
        TableColumn("TYPE", lambda one: one.schema_type, width=8, tone=_version_tone),
        TableColumn("SIZE", lambda one: one.size_bytes, formats.size, 7, right=True, tone="muted"),
        TableColumn("STATE", lambda one: "deleted" if one.deleted else None, width=7, rank=1, tone="warn"),
    )


def _version_tone(one: "SchemaVersionInfo") -> str:
    return "muted" if one.deleted else ""


def version_key(one: "SchemaVersionInfo") -> str:
    return str(one.version)


def subject_numbers(told: "SchemaSubjectDetails | None", topics: TopicConfigs) -> list[LabeledNumber]:
    if told is None:
        return []
    live = sum(not one.deleted for one in told.versions)
    found = [
        LabeledNumber(
            told.compatibility,
            "its own level" if told.own_compatibility else "for all subjects",
            _LEVEL_TONES.get(told.compatibility, ""),
        ),
        _counted(live, "version"),
    ]
    if live < len(told.versions):
        found.append(LabeledNumber(formats.count(len(told.versions) - live), "deleted", "muted"))
    if told.mode != _NORMAL_MODE:
        found.append(LabeledNumber(told.mode, "mode", "warn"))
    use = subject_use(told.subject, topics)
    if use.topic:
        found.append(LabeledNumber(use.topic, "topic by its name"))
    if use.check is not None:
        found.append(LabeledNumber(use.check, "checked on publish", "good"))
    return found


def earlier_version(versions: "Sequence[SchemaVersionInfo]", number: int) -> int | None:
    """Return the version to compare with: the one before that is not deleted, or else any before."""
    before = [one for one in versions if one.version < number]
    found = [one for one in before if not one.deleted] or before
    return found[-1].version if found else None


# --- texts ---


def version_lines(one: "SchemaInfo", summary: "SchemaVersionInfo | None") -> list[Line]:
    """Return what a version refers to and what refers to it, and its text."""
    lines = [_fact("refers to", f"{ref.name}: version {ref.version} of {ref.subject}") for ref in one.references]
    users = summary.referenced_by if summary is not None else ()
    lines += [_fact("referred to by", f"version {user.version} of {user.subject}") for user in users]
    if lines:
        lines.append([])
    is_json = one.schema_type != "PROTOBUF"
    text = schema_lines(one.schema)
    lines += [json_spans(line) if is_json else [TonedSpan(line)] for line in text[:LINES_MAX]]
    return lines + _more_lines(len(text))


def _fact(name: str, text: str) -> Line:
    return [TonedSpan(f"{name} ", "muted"), TonedSpan(text)]


def _more_lines(count: int) -> list[Line]:
    left = count - LINES_MAX
    told = f"… {format_count(left)} more lines; y copies the command that prints all"
    return [[TonedSpan(told, "warn")]] if left > 0 else []


class VersionPair(NamedTuple):
    """Two versions to compare."""

    before: int
    after: int

    def __str__(self) -> str:
        return f"version {self.before} → {self.after}"


class Differences(NamedTuple):
    """The lines of a diff, with the numbers of those that were added and removed."""

    added: int
    removed: int
    lines: list[Line]


def version_differences(before: "SchemaInfo", after: "SchemaInfo") -> Differences:
    found = schema_differences(before.schema, after.schema)[_TITLES:]
    if not found:
        return Differences(0, 0, [[TonedSpan("The texts do not differ.", "muted")]])
    added = sum(line.startswith("+") for line in found)
    removed = sum(line.startswith("-") for line in found)
    lines: list[Line] = [[TonedSpan(line, _DIFF_TONES.get(line[0], ""))] for line in found[:LINES_MAX]]
    return Differences(added, removed, lines + _more_lines(len(found)))


def verdict_lines(pair: VersionPair, level: str, found: "SchemaCompatibility | None") -> list[Line]:
    """Return whether the newer version may follow the older one, and why not. None: not known yet."""
    if level == "NONE":
        return [[TonedSpan("○ NONE: versions of this subject are not compared", "muted")]]
    name = level.removesuffix("_TRANSITIVE")
    if found is None:
        return [[TonedSpan(f"○ {name}: comparing …", "muted")]]
    if found.is_compatible:
        return [[TonedSpan(f"● {name}: version {pair.after} may follow version {pair.before}", "good")]]
    reasons = format_count(len(found.messages), "reason")
    head = f"◆ {name}: version {pair.after} may not follow version {pair.before}, {reasons}"
    return [[TonedSpan(head, "bad")], *(list(_reason(message)) for message in found.messages)]


def _reason(message: str) -> Iterator[TonedSpan]:
    """Tell path and reason apart: `who cannot read whom: #/path: reason`."""
    who, separator, rest = message.partition(": #")
    path, _, reason = rest.partition(": ")
    if separator and reason:
        yield TonedSpan(f"  #{path}", "accent")
        yield TonedSpan(f"  {reason} ", "")
        yield TonedSpan(f"({who})", "muted")
    else:
        yield TonedSpan(f"  {message}")
