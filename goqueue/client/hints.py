"""The next step after a refusal, as a Python program takes it.

The hints of a broker are written for HTTP clients. Those with a code of this table are replaced, unless they suggest a
name. The command line does the same with this table's hints (`goqueue.console.failure`).
"""

from goqueue.errors import GoQueueError

_HINTS = {
    "broker_unreachable": 'is it running there? Client("http://host:port") or GOQUEUE_SERVER names another address',
    "delayed_ambiguous": "name the partition, one of {partitions}",
    "endpoint_not_found": "is the broker older than this client? client.version() says what it is",
    "generation_stale": "partitions were taken from this member: see consumer.generation and consumer.assignment",
    "group_not_found": 'client.consumer("{group}", [...]) makes it when it joins; client.groups() lists all',
    "member_unknown": "consumer.member_id is the id that it has now, after it has joined again",
    "message_too_large": "send less, or raise the limit: client.alter_topic(topic, max_message_bytes=...)",
    "operation_not_found": "client.operations() lists those that are kept",
    "operation_outdated": "client.undo({operation}, force=True) undoes it all the same",
    "partition_not_owned": "another member has it: use the partitions of consumer.assignment",
    "producer_fenced": "another producer has taken over; client.producer(transactional_id=...) takes the id back",
    "producer_not_found": 'client.transactions("all") lists the transactional ids',
    "topic_exists": 'client.create_topic("{topic}", exist_ok=True) takes it as it is',
    "topic_not_found": 'client.create_topic("{topic}") creates it; client.topics() lists all',
    "transaction_not_open": "begin one: with producer.transaction() as tx:",
    "unknown_producer": "the data directory of the broker was made anew or restored: make another producer",
}
"""By the code of the error. A hint holds for errors whose details have all that it names."""

_ARGUMENTS = {"num_partitions": "partitions"}
"""Fields of requests whose arguments have other names."""


def hint_of(error: GoQueueError) -> str | None:
    """Return the hint of the table for an error, if it has one."""
    try:
        return _HINTS[error.code].format_map(error.details)
    except KeyError:
        return None


def translate(error: GoQueueError) -> None:
    """Give the error of a broker the words of Python: the names of arguments, and the hint."""
    for field, argument in _ARGUMENTS.items():
        if error.sentence.startswith(f"{field} "):
            error.sentence = argument + error.sentence.removeprefix(field)
            error.args = (error.sentence,)
    if not (error.hint or "").startswith("did you mean"):
        error.hint = hint_of(error) or error.hint
