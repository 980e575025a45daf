"""Making a topic of logs that were written elsewhere: the files get their place, and the topic its record, in one turn.

A crash between the two leaves logs without a record, which are reported and left alone.
"""

from contextlib import suppress

from goqueue.broker.broker import Broker
from goqueue.broker.core.topic import Topic, TopicSpec, check_new_topic_name, log_name
from goqueue.broker.core.work import Promise, Work
from goqueue.errors import GoQueueError, LogExists, TopicExists
from goqueue.quantities import quoted
from goqueue.storage.disk import Disk
from goqueue.storage.store import Store


def refuse_taken_name(broker: Broker, store: Store, disk: Disk, name: str) -> None:
    """Raise unless a topic of this name could be made of other logs."""
    check_new_topic_name(name)
    if name in broker.topics:
        raise TopicExists(f"topic {quoted(name)} exists already", hint="choose another name", topic=name)
    if disk.kind(f"{store.path}/logs/{name}") != "absent":
        raise LogExists(f"there are logs of a topic {quoted(name)} already", hint="choose another name", log=name)


def adopt_topic(broker: Broker, store: Store, disk: Disk, spec: TopicSpec, directory: str) -> Work[Topic]:
    """Create a topic whose logs are those in a directory on the same file system."""
    refuse_taken_name(broker, store, disk, spec.name)
    root, created = f"{store.path}/logs", Promise[Topic]()
    disk.rename(directory, f"{root}/{spec.name}")
    try:
        disk.sync_directory(root)
        broker.create_topic(spec, created)
        topic = yield from created.kept()
    except GoQueueError:
        with suppress(GoQueueError):  # it is reported as a log without a topic
            if not any(name.startswith(f"{spec.name}/") for name in store.logs):
                disk.rename(f"{root}/{spec.name}", directory)
        raise
    for partition in topic.partitions:
        if disk.kind(f"{root}/{log_name(spec.name, partition.number)}/delayed") == "directory":
            broker.scheduling(partition)
    return topic
