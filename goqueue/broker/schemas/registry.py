"""Decisions of the schema registry, recorded in the log `__schemas` and answered when they are committed.

Decisions look at the state as it will be, so two registrations never get one id. Answers to questions come from what
is committed (`queries`), so no client sees an id that a failing disk can take back.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.schemas.adoption import Clash, adoptable
from goqueue.broker.schemas.contexts import context_problem, is_whole_context
from goqueue.broker.schemas.limits import REGISTRY_BYTES_MAX, SUBJECT_CHARACTERS_MAX, VERSION_BYTES
from goqueue.broker.schemas.parsing import CheckedSchema, SchemaParser
from goqueue.broker.schemas.payload_checks import PayloadChecker
from goqueue.broker.schemas.queries import (
    Mode,
    RegistryQueries,
    Shown,
    subject_not_found,
    version_not_found,
    version_number,
)
from goqueue.broker.schemas.records import (
    ConfigDeleted,
    ConfigRecord,
    ModeDeleted,
    ModeRecord,
    ReferenceRecord,
    RegistryRecord,
    SchemaContent,
    SchemaIdRetired,
    VersionDeleted,
    VersionRecord,
    decode_registry_record,
    encode_registry_record,
)
from goqueue.broker.schemas.state import RegistryState
from goqueue.errors import (
    GoQueueError,
    RegistryValueInvalid,
    RequestInvalid,
    SchemaChangeRefused,
    SchemaDeletionRefused,
    SchemaIncompatible,
    SchemaNotFound,
)
from goqueue.quantities import quoted
from goqueue.schemas.compatibility import CompatibilityLevel
from goqueue.storage.disk import Disk

_READ_ONLY = ("READONLY", "READONLY_OVERRIDE")


class SchemaRegistry:
    """The owner of the log `__schemas`. Methods that change something are work; see `goqueue.broker.core.work`."""

    def __init__(self, partition: Partition, disk: Disk) -> None:
        state = RegistryState()
        self.journal: Journal[RegistryRecord] = Journal(
            partition, disk, state, encode_registry_record, decode_registry_record, snapshots=False
        )
        self._committed = RegistryQueries(cast("RegistryState", self.journal.durable))
        self._unreadable: GoQueueError | None = None
        self._next = RegistryQueries(state)
        """Answers from what will be committed if no disk refuses it."""
        self._parser = SchemaParser()
        self.checker = PayloadChecker(lambda: self.queries.state)
        """Checks messages by what is committed."""
        self.tenant_of: Callable[[str], str] = lambda _: ""
        """Returns the tenant that a subject belongs to; empty if it belongs to none."""

    def open(self) -> None:
        """Rebuild the state from the log."""
        self.journal.open()
        self._unreadable = self.journal.log.fence

    @property
    def queries(self) -> RegistryQueries:
        """Answers from what is committed. Raises the error of a log that could not be read: nothing is known then."""
        if self._unreadable is not None:
            raise self._unreadable
        return self._committed

    def _record(self, records: Sequence[RegistryRecord]) -> Work[None]:
        durable: Promise[None] = Promise()
        self.journal.record(records, durable)
        yield from durable.kept()

    def adopt(self, records: Sequence[RegistryRecord]) -> Work[list[Clash]]:
        """Take what a node had before its cluster shared the registry; return what is not taken, and why."""
        self.journal.refuse_unless_open()
        taken, clashes = adoptable(self._next.state, records)
        yield from self._record(taken)
        return clashes

    # --- register and look up ---

    def register(
        self,
        subject: str,
        given: SchemaContent,
        *,
        normalize: bool | None = None,
        number: int | None = None,
        version: int | None = None,
    ) -> Work[VersionRecord]:
        """Register a schema and return its version: the existing one if the subject has an equal schema.

        The `number` is the id, which only an import gives.
        """
        check_subject(subject)
        self.journal.refuse_unless_open()
        checked = yield from self._check(self._next, subject, given, normalize)
        seen: list[VersionRecord] | None = None
        while True:
            known = self._next.equal(subject, checked.digest)
            if known is not None and number in (None, known.id) and version in (None, known.version):
                yield from self._record([])  # it may not be committed yet
                return known
            self._check_mode_to_register(subject, number)
            history, level = self._next.history(subject), self._next.level(subject)
            if number is not None or seen == [*history] or level is CompatibilityLevel.NONE or not history:
                break
            reasons = yield from self._parser.incompatibilities(self._next.state, level, checked.parsed, history)
            if reasons:
                raise _incompatible(subject, level, reasons)
            seen = history if level is self._next.level(subject) else None  # another request may have been faster
        self._parser.refuse_missing(self._next.state, checked.content.references)  # deleted meanwhile
        record = self._new_version(subject, checked, number, version)
        yield from self._record([record])
        return record

    def _check(
        self, queries: RegistryQueries, subject: str, given: SchemaContent, normalize: bool | None
    ) -> Work[CheckedSchema]:
        wanted = queries.config(subject, or_global=True).normalize if normalize is None else normalize
        resolved = tuple(self._resolved(queries, one) for one in given.references)
        content = SchemaContent(
            kind=given.kind,
            text=given.text,
            references=resolved,
            metadata=given.metadata,
            rule_set=given.rule_set,
            tenant=self.tenant_of(subject),
        )
        checked = yield from self._parser.check(queries.state, content, normalize=bool(wanted))
        return checked

    def _resolved(self, queries: RegistryQueries, reference: ReferenceRecord) -> ReferenceRecord:
        """Return a reference with a number: the latest version becomes another one later."""
        if reference.version != -1:
            return reference
        history = queries.history(reference.subject)
        latest = history[-1].version if history else -1
        return ReferenceRecord(reference.name, reference.subject, latest)

    def _check_mode_to_register(self, subject: str, number: int | None) -> None:
        mode = self._next.mode_in_force(subject)
        if mode in _READ_ONLY:
            raise _read_only(subject)
        if (mode == "IMPORT") is (number is None):
            told = "is in import mode: send the id" if number is None else "is not in import mode: leave out the id"
            raise SchemaChangeRefused(f"Subject {subject} {told}", hint="PUT /mode/SUBJECT changes the mode")

    def _new_version(
        self, subject: str, checked: CheckedSchema, number: int | None, version: int | None
    ) -> VersionRecord:
        state, digest = self._next.state, checked.digest
        used = self._next.history(subject, "all")
        if number is not None:
            holder = state.users(number)
            owner = holder[0].digest if holder else state.retired.get(number, digest)
            if owner != digest:
                raise SchemaChangeRefused(
                    f"Overwrite new schema with id {number} is not permitted.",
                    hint="another schema has or had this id, and messages may refer to it",
                )
        if version is not None and any(one.version == version and one.digest != digest for one in used):
            raise SchemaChangeRefused(
                f"Overwrite version {version} of subject {subject} is not permitted.",
                hint="delete it permanently first",
            )
        if state.held_bytes + len(checked.content.text) + VERSION_BYTES > REGISTRY_BYTES_MAX:
            raise RequestInvalid(
                f"the schemas have {state.held_bytes:,} bytes, the limit is {REGISTRY_BYTES_MAX:,}",
                hint="delete versions that no message needs, permanently",
                problems=[],
            )
        return VersionRecord(
            subject=subject,
            version=version or (used[-1].version + 1 if used else 1),
            id=number or state.ids.get(digest, state.last_id + 1),
            digest=digest,
            content=checked.content,
        )

    def look_up(
        self, subject: str, given: SchemaContent, *, normalize: bool | None = None, shown: Shown = "live"
    ) -> Work[VersionRecord]:
        """Return the version of a subject that has this schema. Raises SubjectNotFound and SchemaNotFound."""
        self.queries.versions(subject, shown)
        checked = yield from self._check(self.queries, subject, given, normalize)
        found = self.queries.equal(subject, checked.digest, shown)
        if found is None:
            raise SchemaNotFound("Schema not found", hint="the subject has other schemas", subject=subject)
        return found

    def test_compatibility(
        self, subject: str, wanted: str | None, given: SchemaContent, *, normalize: bool | None = None
    ) -> Work[list[str]]:
        """Return why a schema may not follow a version, or those that the level names; an empty list allows it."""
        number = None if wanted is None else version_number(wanted)
        history = self.queries.history(subject)
        checked = yield from self._check(self.queries, subject, given, normalize)
        if wanted is not None:
            compared = [one for one in history if one.version == number] if number is not None else history[-1:]
            if number is not None and not compared:
                raise version_not_found(number)
            history = compared
        level = self.queries.level(subject)
        state = self.queries.state
        messages = yield from self._parser.incompatibilities(state, level, checked.parsed, history)
        if number is not None:  # the format counts from the latest
            messages = [one.replace("the latest version", f"version {number}") for one in messages]
        return messages

    def encoded(self, record: VersionRecord) -> Work[str]:
        """Return a file of Protobuf as base64 of its descriptor, as clients want it that do not read texts."""
        encoded = yield from self._parser.encoded(self.queries.state, record)
        return encoded

    # --- delete ---

    def delete_version(self, subject: str, wanted: str, *, permanent: bool = False) -> Work[VersionRecord]:
        """Delete a version softly, or permanently after that."""
        self._check_writable(subject)
        if not self._next.history(subject, "all"):
            raise subject_not_found(subject)
        number = version_number(wanted)
        if number is None and not permanent and not self._next.history(subject):
            raise subject_not_found(subject)
        gone = self._next.version(subject, wanted, "all" if number or permanent else "live")
        if gone.deleted and not permanent:
            raise SchemaDeletionRefused(
                f"Subject '{subject}' Version {gone.version} was soft deleted. "
                "Set permanent=true to delete permanently",
                subject=subject,
                version=gone.version,
                reason="version_deleted",
            )
        if permanent and not gone.deleted:
            raise SchemaDeletionRefused(
                f"Subject '{subject}' Version {gone.version} was not deleted first before being permanently deleted",
                subject=subject,
                version=gone.version,
                reason="version_not_deleted",
            )
        self._refuse_referenced([gone], permanent=permanent)
        yield from self._record(self._deletions([gone], permanent=permanent))
        return gone

    def delete_subject(self, subject: str, *, permanent: bool = False) -> Work[list[VersionRecord]]:
        """Delete all versions of a subject, with its configuration and mode."""
        self._check_writable(subject)
        every, live = self._next.versions(subject, "all"), self._next.history(subject)
        if permanent and live:
            raise SchemaDeletionRefused(
                f"Subject '{subject}' was not deleted first before being permanently deleted",
                subject=subject,
                reason="subject_not_deleted",
            )
        if not permanent and not live:
            raise SchemaDeletionRefused(
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
                subject=subject,
                reason="subject_deleted",
            )
        gone = every if permanent else live
        self._refuse_referenced(gone, permanent=permanent)
        records = self._deletions(gone, permanent=permanent)
        if subject in self._next.state.configs:
            records.append(ConfigDeleted(subject))
        if subject in self._next.state.modes:
            records.append(ModeDeleted(subject))
        yield from self._record(records)
        return gone

    def _refuse_referenced(self, gone: Sequence[VersionRecord], *, permanent: bool) -> None:
        leaving = {(one.subject, one.version) for one in gone}
        for one in gone:
            for user in self._next.referrers(one.subject, one.version, with_deleted=permanent):
                if (user.subject, user.version) not in leaving:
                    raise SchemaChangeRefused(
                        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={one.subject},"
                        f"version={one.version}}}.",
                        hint=f"delete version {user.version} of {quoted(user.subject)} first",
                        reason="references",
                    )

    def _deletions(self, gone: Sequence[VersionRecord], *, permanent: bool) -> list[RegistryRecord]:
        if not permanent:
            return [_soft_deleted(one) for one in gone]
        leaving = {id(one) for one in gone}
        records: list[RegistryRecord] = [VersionDeleted(one.subject, one.version) for one in gone]
        retired = {
            one.id: one.digest for one in gone if all(id(user) in leaving for user in self._next.state.users(one.id))
        }
        records += (SchemaIdRetired(number, digest) for number, digest in retired.items())
        return records

    # --- configuration and modes ---

    def set_config(self, subject: str, level: str | None, *, normalize: bool | None = None) -> Work[ConfigRecord]:
        """Change the configuration of a subject, or with an empty name of all. What is None stays."""
        self._check_writable(subject)
        if subject:
            check_subject(subject, may_be_context=True)
        former = self._next.state.configs.get(subject, ConfigRecord())
        record = ConfigRecord(
            subject=subject,
            level=former.level if level is None else level,
            normalize=former.normalize if normalize is None else normalize,
        )
        yield from self._record([record])
        return record

    def delete_config(self, subject: str) -> Work[ConfigRecord]:
        """Delete the configuration of a subject, or reset that of all; return what it was."""
        self._check_writable(subject)
        former = self._next.config(subject, or_global=False)
        yield from self._record([ConfigDeleted(subject)])
        return former

    def set_mode(self, subject: str, mode: Mode, *, force: bool = False) -> Work[ModeRecord]:
        """Change the mode of a subject, or with an empty name of all."""
        if subject:
            check_subject(subject, may_be_context=True)
        if mode == "IMPORT" and not force and self._next.mode(subject, or_global=True).mode != "IMPORT":
            whole = not subject or is_whole_context(subject)
            existing = self._next.subjects(subject) if whole else self._next.history(subject)
            if existing:
                raise SchemaChangeRefused(
                    f"Cannot import since found existing subjects{f' ({subject})' if subject else ''}",
                    hint="?force=true imports all the same: ids that are in use stay what they are",
                )
        record = ModeRecord(subject=subject, mode=mode)
        yield from self._record([record])
        return record

    def delete_mode(self, subject: str) -> Work[ModeRecord]:
        """Delete the mode of a subject, or reset that of all; return what it was."""
        former = self._next.mode(subject, or_global=False)
        yield from self._record([ModeDeleted(subject)])
        return former

    def _check_writable(self, subject: str) -> None:
        self.journal.refuse_unless_open()
        if self._next.mode_in_force(subject) in _READ_ONLY:
            raise _read_only(subject)

    # --- all subjects with a prefix ---

    def subjects_of(self, prefix: str) -> list[str]:
        """Return the subjects that have versions, a configuration or a mode, and begin with a prefix."""
        state = self._next.state
        return sorted(name for name in {*state.subjects, *state.configs, *state.modes} if name.startswith(prefix))

    def forget_subjects(self, prefix: str) -> Work[None]:
        """Delete all subjects with a prefix permanently, whatever refers to them or is their mode."""
        state, names = self._next.state, self.subjects_of(prefix)
        gone = [version for name in names for version in self._next.history(name, "all")]
        records = self._deletions(gone, permanent=True)
        records += (ConfigDeleted(name) for name in names if name in state.configs)
        records += (ModeDeleted(name) for name in names if name in state.modes)
        yield from self._record(records)

    def stats(self) -> dict[str, Any]:
        """Return numbers about the committed state."""
        state, live, deleted, subjects = self.queries.state, 0, 0, 0
        for versions in state.subjects.values():
            shown = sum(not one.deleted for one in versions.values())
            live, deleted, subjects = live + shown, deleted + len(versions) - shown, subjects + bool(shown)
        kinds = Counter(one.content.kind for one in map(_first, state.uses.values()))
        return {
            "subjects": subjects,
            "versions": live,
            "deleted_versions": deleted,
            "schemas": len(state.uses),
            "schemas_by_type": dict(kinds),
            "max_id": state.last_id,
        }


def _first(users: VersionRecord | list[VersionRecord]) -> VersionRecord:
    return users[0] if isinstance(users, list) else users


def _soft_deleted(record: VersionRecord) -> VersionRecord:
    return VersionRecord(
        subject=record.subject,
        version=record.version,
        id=record.id,
        digest=record.digest,
        content=record.content,
        deleted=True,
    )


def check_subject(name: str, *, may_be_context: bool = False) -> None:
    """Refuse a name that no subject can have; a whole context has settings only."""
    reason = ""
    if not name or len(name) > SUBJECT_CHARACTERS_MAX:
        reason = f"it has {len(name):,} characters, allowed are 1 to {SUBJECT_CHARACTERS_MAX:,}"
    elif not name.isprintable() or "\ufffd" in name:
        reason = "it has characters that cannot be printed"
    elif name in ("__GLOBAL", "__EMPTY"):
        reason = "it is reserved"
    elif is_whole_context(name) and not may_be_context:
        reason = "it names a context, and no subject in it"
    else:
        reason = context_problem(name)
    if reason:
        raise RegistryValueInvalid(f"The specified subject '{name[:100]}' is not a valid: {reason}", field="subject")


def _read_only(subject: str) -> SchemaChangeRefused:
    told = f"Subject {subject} is in read-only mode" if subject else "The registry is in read-only mode"
    return SchemaChangeRefused(told, hint="PUT /mode or /mode/SUBJECT with READWRITE allows changes")


def _incompatible(subject: str, level: CompatibilityLevel, reasons: list[str]) -> SchemaIncompatible:
    told = ", ".join(f"{{{reason}}}" for reason in reasons)
    return SchemaIncompatible(
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
        f"[{told}, {{compatibility: '{level}'}}]",
        hint="change the schema, or the compatibility level with PUT /config/SUBJECT",
        reasons=reasons,
    )
