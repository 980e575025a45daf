"""The backups of a target: their summaries, their deletion, and the objects that no backup needs."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from goqueue.backup.manifest import decode_manifest
from goqueue.backup.target import BackupTarget, refuse_unless_id
from goqueue.backup.verify import VerificationNote, load_verification
from goqueue.errors import BackupDamaged, BackupKeyInvalid, BackupKeyMismatch, BackupNotFound


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """The facts of a backup that lists show. Those of the manifest are 0 where it is damaged."""

    id: str
    cut_ns: int = 0
    finished_ns: int = 0
    version: str = ""
    size: int = 0
    new_bytes: int = 0
    logs: int = 0
    damages: int = 0
    """Ranges that were damaged when they were copied."""
    unavailable: tuple[str, ...] = ()
    """Logs that are not in it because the broker could not open them."""
    problem: str | None = None
    """Why the manifest cannot be read."""
    is_locked: bool = False
    """Whether that is for want of a key."""
    key_id: str = ""
    """The id of the key that it is encrypted with; empty without encryption."""
    verified_ns: int | None = None
    problems: int = 0
    """Found by the last verification."""
    sentences: tuple[str, ...] = ()
    """Some of them."""

    @property
    def state(self) -> Literal["complete", "incomplete", "damaged", "locked"]:
        if self.problem is not None:
            return "locked" if self.is_locked else "damaged"
        return "incomplete" if self.unavailable else "complete"

    @property
    def is_verified(self) -> bool:
        """Return whether a verification found nothing."""
        return self.verified_ns is not None and not self.problems


class BackupCatalog:
    """The summaries of a target. Manifests never change, so each is read once."""

    def __init__(self, target: BackupTarget) -> None:
        self.target = target
        self._known: dict[str, BackupSummary] = {}
        self._notes: dict[str, VerificationNote] = {}

    def summaries(self) -> list[BackupSummary]:
        """All backups, the oldest first, without those that are deleted meanwhile."""
        names, verified, key_problem = self.target.ids(), self.target.verified_ids(), self._read_keys()
        found = []
        for name in names:
            with suppress(BackupNotFound):
                found.append(self._summary(name, key_problem, is_verified=name in verified))
        return found

    def summary(self, name: str) -> BackupSummary:
        return self._summary(name, self._read_keys(), is_verified=True)

    def _read_keys(self) -> BackupKeyInvalid | None:
        """Read the key file again; return why that failed, if it did."""
        try:
            self.target.read_keys()
        except BackupKeyInvalid as error:
            return error
        return None

    def _summary(self, name: str, key_problem: BackupKeyInvalid | None, *, is_verified: bool) -> BackupSummary:
        found = self._known.get(name) or _summarize(self.target, name)
        if not found.is_locked:  # its key may be added
            self._known[name] = found
        if found.key_id:
            try:
                if key_problem is not None:
                    raise key_problem
                self.target.require_key(name, found.key_id)
            except (BackupKeyInvalid, BackupKeyMismatch) as error:  # its key was removed meanwhile
                found = replace(found, problem=error.sentence, is_locked=True)
        if name not in self._notes and is_verified:
            note = load_verification(self.target, name)
            if note is not None:
                self._notes[name] = note
        note = self._notes.get(name)
        if note is None:
            return found
        return replace(found, verified_ns=note.verified_ns, problems=note.problems, sentences=note.sentences)

    def note_verification(self, name: str, note: VerificationNote) -> None:
        """Take what a verification has found meanwhile."""
        self._notes[name] = note

    def delete(self, *names: str) -> int:
        """Delete backups, and the objects that no other one needs; return how many. The target is locked."""
        for name in names:
            refuse_unless_id(name, self.target.ids())
            self.target.delete_manifest(name)
            self._known.pop(name, None)
            self._notes.pop(name, None)
        return remove_unneeded_objects(self.target) if names else 0


def _summarize(target: BackupTarget, name: str) -> BackupSummary:
    try:
        content, key_id = target.get_any_manifest(name)
        manifest = decode_manifest(content, name)
    except (BackupDamaged, BackupKeyInvalid, BackupKeyMismatch) as error:
        return BackupSummary(name, problem=error.sentence, is_locked=not isinstance(error, BackupDamaged))
    return BackupSummary(
        name,
        manifest.cut_ns,
        manifest.finished_ns,
        manifest.version,
        manifest.size,
        manifest.new_bytes,
        len(manifest.logs),
        sum(len(log.damages) for log in manifest.logs),
        tuple(sorted(manifest.unavailable)),
        key_id=key_id,
    )


def remove_unneeded_objects(target: BackupTarget) -> int:
    """Remove the objects that no manifest names; none while a manifest cannot be read. The target is locked."""
    needed: set[str] = set()
    for name in target.ids():
        try:
            needed |= decode_manifest(target.get_any_manifest(name)[0], name).objects().keys()
        except (BackupDamaged, BackupKeyMismatch):
            return 0
    unneeded = target.objects().keys() - needed
    target.delete_objects(unneeded)
    return len(unneeded)
