"""Schemas that a node had before its cluster shared the registry: what the cluster can take of them.

What the cluster has stays as it is. So a version is taken if its subject has no other version of that number, if no
other schema has its id, and if all that it refers to is the same in the cluster.
"""

from collections.abc import Sequence

from goqueue.broker.schemas.records import ConfigRecord, ModeRecord, RegistryRecord, SchemaIdRetired, VersionRecord
from goqueue.broker.schemas.state import RegistryState

Clash = tuple[int, str]
"""The index of a record that is not taken, and why."""


def adoptable(state: RegistryState, records: Sequence[RegistryRecord]) -> tuple[list[RegistryRecord], list[Clash]]:
    """Return which records are new to the registry and can be taken, and which cannot."""
    state, taken, clashes = _copy(state), [], []
    waiting: Sequence[tuple[int, RegistryRecord]] = list(enumerate(records))
    while waiting:  # until no further version finds what it refers to
        before, left = len(waiting), list[tuple[int, VersionRecord]]()
        for index, record in waiting:
            if isinstance(record, VersionRecord) and _lacks_references(state, record):
                left.append((index, record))
            elif (why := _why_not(state, record)) is not None:
                clashes.append((index, why))
            elif not _is_known(state, record):
                state.apply(record)
                taken.append(record)
        waiting = left
        if len(waiting) == before:
            clashes += [(index, f"{_name(record)} refers to a version that is not taken") for index, record in left]
            break
    return taken, sorted(clashes)


def _copy(state: RegistryState) -> RegistryState:
    other = RegistryState()
    other.copy_from(state)
    return other


def _lacks_references(state: RegistryState, record: VersionRecord) -> bool:
    return any(one.version not in state.subjects.get(one.subject, ()) for one in record.content.references)


def _is_known(state: RegistryState, record: RegistryRecord) -> bool:
    if isinstance(record, VersionRecord):
        return record.version in state.subjects.get(record.subject, ())
    if isinstance(record, SchemaIdRetired):
        return bool(state.users(record.id)) or record.id in state.retired or record.id <= state.last_id
    if isinstance(record, ConfigRecord):
        return record.subject in state.configs
    return isinstance(record, ModeRecord) and record.subject in state.modes


def _why_not(state: RegistryState, record: RegistryRecord) -> str | None:
    if isinstance(record, VersionRecord):
        known = state.subjects.get(record.subject, {}).get(record.version)
        if known is not None and (known.digest, known.id) != (record.digest, record.id):
            return f"the cluster has another schema as {_name(record)}, with the id {known.id}"
        users = state.users(record.id)
        owner = users[0].digest if users else state.retired.get(record.id, record.digest)
        if owner != record.digest:
            return f"the cluster has another schema with the id {record.id} of {_name(record)}"
    elif isinstance(record, ConfigRecord):
        if state.configs.get(record.subject, record) != record:
            return f"the cluster has another compatibility level of {record.subject or 'all subjects'}"
    elif isinstance(record, ModeRecord) and state.modes.get(record.subject, record) != record:
        return f"the cluster has another mode of {record.subject or 'all subjects'}"
    return None


def _name(record: RegistryRecord) -> str:
    assert isinstance(record, VersionRecord), "others refer to nothing"
    return f"version {record.version} of {record.subject}"
