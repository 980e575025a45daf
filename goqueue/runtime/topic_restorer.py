"""Restoring a topic of a backup into the running broker, under its own or another name.

The logs are written to `{data}/restoring` on the thread of backups. Then they become a topic in one turn of the loop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from goqueue.backup.manifest import Manifest
from goqueue.backup.piece_reader import read_messages
from goqueue.backup.restore import RESTORING_DIRECTORY, remove_tree
from goqueue.backup.target import BackupTarget
from goqueue.backup.topic_restore import TopicRestorePlan, plan_topic_restore, write_topic
from goqueue.broker.adoption import adopt_topic, refuse_taken_name
from goqueue.broker.core.catalog import Catalog, TopicCreated, decode_catalog_record
from goqueue.broker.core.topic import TopicSettings, TopicSpec
from goqueue.broker.internal_topics import CATALOG
from goqueue.errors import BackupsOff
from goqueue.runtime.backup_runner import BackupRun, BackupRunner
from goqueue.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class TopicRestore:
    """A topic of a backup, and the topic that is to be made of it."""

    backup: str
    spec: TopicSpec
    plan: TopicRestorePlan


class TopicRestorer:
    """Restores topics of the backups of a broker."""

    def __init__(self, runtime: Runtime, runner: BackupRunner) -> None:
        self._runtime = runtime
        self._runner = runner

    async def plan(
        self, backup: str, topic: str, name: str, time_ns: int | None, offsets: Mapping[int, int]
    ) -> TopicRestore:
        """Find out what a restore would do. Changes nothing."""
        manifest = await self._runner.manifest(backup)
        plan = plan_topic_restore(manifest, topic, time_ns, offsets)
        refuse_taken_name(self._runtime.broker, self._runtime.store, self._runtime.disk, name)
        record = await self._runner.run_list_job(partial(_topic_record, self._target, manifest, topic))
        settings = TopicSettings() if record is None else record.settings
        return TopicRestore(backup, TopicSpec(name=name, partitions=plan.partitions, settings=settings), plan)

    def begin(self, restore: TopicRestore) -> BackupRun:
        """Start a restore, and return at once."""
        return self._runner.begin_restore(
            restore.backup, restore.spec.name, restore.plan.size, partial(self._carry_out, restore)
        )

    @property
    def _target(self) -> BackupTarget:
        if self._runner.target is None:
            raise BackupsOff("the broker has no target for backups", hint="set `backup.target`")
        return self._runner.target

    @property
    def _directory(self) -> str:
        return f"{self._runtime.store.path}/{RESTORING_DIRECTORY}"

    async def _carry_out(self, restore: TopicRestore, run: BackupRun) -> None:
        runtime, directory = self._runtime, f"{self._directory}/{restore.spec.name}"
        try:
            await self._runner.run_job(partial(self._write, restore, run, directory))
            runtime.refuse_while_stopping()
            await runtime.perform(adopt_topic(runtime.broker, runtime.store, runtime.disk, restore.spec, directory))
            run.restored_bytes = runtime.broker.topics[restore.spec.name].size
        finally:
            await self._runner.run_job(partial(remove_tree, runtime.disk, self._directory))

    def _write(self, restore: TopicRestore, run: BackupRun, directory: str) -> None:
        progress = run.progress
        assert progress is not None, "a restore has it from its begin"

        def note(count: int) -> None:
            run.throttle.pay(count)
            progress.bytes_done += count

        remove_tree(self._runtime.disk, self._directory)
        write_topic(self._runtime.disk, self._target, restore.plan, directory, note)


def _topic_record(target: BackupTarget, manifest: Manifest, topic: str) -> TopicCreated | None:
    """Return the record of a topic in the catalog of a backup."""
    catalog = Catalog()
    for log in manifest.logs:
        if log.name == f"{CATALOG}/0":
            for message in read_messages(target, log):
                catalog.apply(decode_catalog_record(message))
    return catalog.topics.get(topic)
