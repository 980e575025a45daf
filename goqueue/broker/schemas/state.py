"""The state of the schema registry, changed by records only.

one id, one schema    an id never stands for two schemas, also after all its versions are gone
one schema, one id    an equal schema gets the id that it had; only an import can give it another one as well
any order             the state depends on the set of records that compaction keeps, not on their order
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from goqueue.broker.schemas.limits import VERSION_BYTES
from goqueue.broker.schemas.records import (
    ConfigDeleted,
    ConfigRecord,
    ModeDeleted,
    ModeRecord,
    RegistryRecord,
    SchemaIdRetired,
    VersionDeleted,
    VersionRecord,
)


class RegistryState:
    """Subjects with their versions, ids, configurations and modes."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.subjects: dict[str, dict[int, VersionRecord]] = {}
        """Versions by subject and number, soft-deleted ones included."""
        self.uses: dict[int, VersionRecord | list[VersionRecord]] = {}
        """The version of each id, or all of them where there are several, which is rare; read it with `users`."""
        self.ids: dict[bytes, int] = {}
        """The lowest id of each digest, also of schemas that are gone."""
        self.retired: dict[int, bytes] = {}
        """Ids without versions, and the digests of the only schemas that may have them again."""
        self.referrers: dict[tuple[str, int], list[VersionRecord]] = {}
        """The versions whose schemas refer to a version."""
        self.configs: dict[str, ConfigRecord] = {}
        self.modes: dict[str, ModeRecord] = {}
        self.last_id = 0
        self.held_bytes = 0
        """An estimate of the memory of all versions."""

    def copy_from(self, other: "RegistryState") -> None:
        """Make this state equal to another one. Records are shared; they never change."""
        self.subjects = {name: versions.copy() for name, versions in other.subjects.items()}
        self.uses = {number: [*users] if isinstance(users, list) else users for number, users in other.uses.items()}
        self.ids, self.retired = other.ids.copy(), other.retired.copy()
        self.referrers = {key: [*users] for key, users in other.referrers.items()}
        self.configs, self.modes = other.configs.copy(), other.modes.copy()
        self.last_id, self.held_bytes = other.last_id, other.held_bytes

    def note_loss(self, count: int) -> None:
        """Skip the ids that lost records may have had."""
        self.last_id += count

    def apply(self, record: RegistryRecord) -> None:
        if isinstance(record, VersionRecord):
            if record.version in self.subjects.get(record.subject, ()):
                self._remove(record.subject, record.version)
            self._add(record)
        elif isinstance(record, VersionDeleted):
            self._remove(record.subject, record.version)
            if not self.subjects.get(record.subject, True):
                del self.subjects[record.subject]
        elif isinstance(record, SchemaIdRetired):
            if record.digest and record.id not in self.uses:
                self.retired[record.id] = record.digest
            self._note_id(record.id, record.digest)
        elif isinstance(record, ConfigRecord):
            self.configs[record.subject] = record
        elif isinstance(record, ConfigDeleted):
            self.configs.pop(record.subject, None)
        elif isinstance(record, ModeRecord):
            self.modes[record.subject] = record
        else:
            assert isinstance(record, ModeDeleted), f"{record} is a record of the registry"
            self.modes.pop(record.subject, None)

    def _add(self, record: VersionRecord) -> None:
        """Add a version. A start does this for each of them, so the usual case comes first."""
        number, uses = record.id, self.uses
        if number not in uses:
            uses[number] = record
            self.held_bytes += VERSION_BYTES + len(record.content.text)
            if self.retired:
                self.retired.pop(number, None)
        else:
            record = self._add_use(record)
        versions = self.subjects.get(record.subject)
        if versions is None:
            self.subjects[record.subject] = {record.version: record}
        else:
            versions[record.version] = record
        for one in record.content.references:
            self.referrers.setdefault((one.subject, one.version), []).append(record)
        self._note_id(number, record.digest)

    def _add_use(self, record: VersionRecord) -> VersionRecord:
        """Add a version whose id others have, and return it with their text, so that it is in memory once."""
        users = self.uses[record.id]
        if not isinstance(users, list):
            users = self.uses[record.id] = [users]
        if users[0].content is not record.content:
            record = replace(record, content=users[0].content)
        users.append(record)
        self.held_bytes += VERSION_BYTES
        return record

    def _remove(self, subject: str, version: int) -> None:
        former = self.subjects.get(subject, {}).pop(version, None)
        if former is None:
            return
        self.held_bytes -= VERSION_BYTES
        left = [one for one in self.users(former.id) if one is not former]
        if left:
            self.uses[former.id] = left
        else:
            del self.uses[former.id]
            self.retired[former.id] = former.digest
            self.held_bytes -= len(former.content.text)
        for one in former.content.references:
            key = one.subject, one.version
            self.referrers[key] = [other for other in self.referrers.get(key, ()) if other is not former]
            if not self.referrers[key]:
                del self.referrers[key]

    def users(self, number: int) -> Sequence[VersionRecord]:
        """Return the versions with an id, soft-deleted ones included."""
        found = self.uses.get(number, ())
        return (found,) if isinstance(found, VersionRecord) else found

    def _note_id(self, number: int, digest: bytes) -> None:
        self.last_id = max(self.last_id, number)
        if digest and self.ids.setdefault(digest, number) > number:
            self.ids[digest] = number

    def records(self) -> Iterator[RegistryRecord]:
        yield from self.configs.values()
        yield from self.modes.values()
        yield from (SchemaIdRetired(number, digest) for number, digest in self.retired.items())
        if self.last_id:
            yield SchemaIdRetired(self.last_id)
        for versions in self.subjects.values():
            yield from versions.values()
