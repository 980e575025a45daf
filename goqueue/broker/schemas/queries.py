"""Answers from a state of the registry: names, versions, ids, configurations. Nothing here changes the state."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal

from goqueue.broker.schemas.contexts import DEFAULT_CONTEXT, context_of, context_prefix
from goqueue.broker.schemas.records import ConfigRecord, ModeRecord, VersionRecord, guid_of
from goqueue.broker.schemas.state import RegistryState
from goqueue.errors import (
    RegistryValueInvalid,
    SchemaVersionNotFound,
    SubjectNotFound,
    SubjectSettingNotFound,
)
from goqueue.schemas.compatibility import CompatibilityLevel
from goqueue.schemas.limits import SCHEMA_ID_MAX

Mode = Literal["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"]
Shown = Literal["live", "all", "deleted"]
"""Versions that are not deleted, with the soft-deleted ones, or only those."""
DEFAULT_LEVEL = CompatibilityLevel.BACKWARD
LATEST = "latest"
ANY_SUBJECT = ":*:"
"""The prefix that Confluent's clients send for all subjects."""


class RegistryQueries:
    """Questions about one state."""

    def __init__(self, state: RegistryState) -> None:
        self.state = state
        self._guids: dict[str, bytes] = {}
        """Digests by GUID, as far as `_guids_of` had them at the last question."""
        self._guids_of: dict[bytes, int] = {}

    def subjects(self, prefix: str = "", shown: Shown = "live") -> list[str]:
        """Return the names of subjects with such versions, sorted."""
        found = (name for name in self.state.subjects if name.startswith(prefix))
        return sorted(name for name in found if any(self._shown(name, shown)))

    def _shown(self, subject: str, shown: Shown) -> Iterator[VersionRecord]:
        versions = self.state.subjects.get(subject, {}).values()
        return (one for one in versions if shown == "all" or one.deleted is (shown == "deleted"))

    def contexts(self, subjects: Iterable[str]) -> list[str]:
        """Return the contexts of these subjects, with the default one, sorted."""
        return sorted({DEFAULT_CONTEXT, *map(context_of, subjects)})

    def versions(self, subject: str, shown: Shown = "live") -> list[VersionRecord]:
        """Return the versions of a subject, the oldest first. Raises SubjectNotFound if there are none."""
        found = self.history(subject, shown)
        if not found:
            raise subject_not_found(subject)
        return found

    def history(self, subject: str, shown: Shown = "live") -> list[VersionRecord]:
        """Return the versions of a subject, the oldest first; none if it does not exist."""
        return sorted(self._shown(subject, shown), key=lambda one: one.version)

    def version(self, subject: str, wanted: str, shown: Shown = "live") -> VersionRecord:
        """Return a version by its number, or the latest. Raises SubjectNotFound and SchemaVersionNotFound."""
        number = version_number(wanted)
        found = self.versions(subject, shown)
        if number is None:
            return found[-1]
        for one in found:
            if one.version == number:
                return one
        raise version_not_found(number)

    def latest_with(self, subject: str, properties: Mapping[str, str], shown: Shown = "live") -> VersionRecord | None:
        """Return the latest version of a subject whose metadata have all of these properties."""
        for one in reversed(self.versions(subject, shown)):
            found = (one.content.metadata or {}).get("properties") or {}
            if all(found.get(name) == value for name, value in properties.items()):
                return one
        return None

    def equal(self, subject: str, digest: bytes, shown: Shown = "live") -> VersionRecord | None:
        """Return the newest version of a subject with an equal schema."""
        found = (one for one in self._shown(subject, shown) if one.digest == digest)
        return max(found, key=lambda one: one.version, default=None)

    def id_of_guid(self, guid: str) -> int | None:
        """Return the id of the schema with a GUID. The first question takes some time: few clients ask."""
        ids = self.state.ids
        if self._guids_of is not ids:
            self._guids, self._guids_of = {}, ids
        for digest in islice(ids, len(self._guids), None):  # new ones come at the end, and none goes
            self._guids[guid_of(digest)] = digest
        digest = self._guids.get(guid, b"")
        return ids.get(digest)

    def referrers(self, subject: str, version: int, *, with_deleted: bool = False) -> list[VersionRecord]:
        """Return the versions whose schemas refer to a version."""
        found = self.state.referrers.get((subject, version), [])
        return [one for one in found if with_deleted or not one.deleted]

    # --- configuration and modes ---

    def config(self, subject: str, *, or_global: bool) -> ConfigRecord:
        """Return the configuration of a subject. Raises SubjectConfigNotFound if it has none of its own."""
        if not or_global:
            _check_own(self.state.configs, subject, "compatibility")
        found = [self.state.configs.get(name) for name in _setting_names(subject)]
        level = next((one.level for one in found if one is not None and one.level), DEFAULT_LEVEL)
        normalize = next((one.normalize for one in found if one is not None and one.normalize is not None), None)
        return ConfigRecord(subject=subject, level=level, normalize=normalize)

    def level(self, subject: str) -> CompatibilityLevel:
        return CompatibilityLevel(self.config(subject, or_global=True).level or DEFAULT_LEVEL)

    def mode(self, subject: str, *, or_global: bool) -> ModeRecord:
        """Return the mode of a subject. Raises SubjectModeNotFound if it has none of its own."""
        if not or_global:
            _check_own(self.state.modes, subject, "mode")
        found = (self.state.modes.get(name) for name in _setting_names(subject))
        return next((one for one in found if one is not None), ModeRecord(mode="READWRITE"))

    def mode_in_force(self, subject: str) -> str:
        """Return the mode that decides about a change: the global READONLY_OVERRIDE is over all others."""
        whole = self.mode("", or_global=True).mode
        return whole if whole == "READONLY_OVERRIDE" else self.mode(subject, or_global=True).mode


def _check_own(settings: Mapping[str, object], subject: str, field: str) -> None:
    """Raise SubjectSettingNotFound if a subject has no setting of its own."""
    if subject and subject not in settings:
        raise SubjectSettingNotFound(
            f"Subject '{subject}' does not have subject-level {field} configured",
            hint="add ?defaultToGlobal=true to get what applies to it",
            subject=subject,
            field=field,
        )


def _setting_names(subject: str) -> tuple[str, ...]:
    """Return where the settings of a subject are looked for: its own, those of its context, those of all."""
    return subject, context_prefix(subject), ""


def version_number(text: str) -> int | None:
    """Return the number of a version, or None for the latest. Raises RegistryValueInvalid."""
    if text in (LATEST, "-1"):
        return None
    if text.isascii() and text.isdecimal() and len(text) <= len(str(SCHEMA_ID_MAX)) and 1 <= int(text) <= SCHEMA_ID_MAX:
        return int(text)
    raise RegistryValueInvalid(
        f"The specified version '{text[:100]}' is not a valid version id. Allowed values are between [1, 2^31-1] and "
        'the string "latest"',
        field="version",
    )


def subject_not_found(subject: str) -> SubjectNotFound:
    return SubjectNotFound(f"Subject '{subject[:1000]}' not found.", hint="GET /subjects lists them", subject=subject)


def version_not_found(number: int) -> SchemaVersionNotFound:
    return SchemaVersionNotFound(f"Version {number} not found.", hint="GET /subjects/SUBJECT/versions lists them")
