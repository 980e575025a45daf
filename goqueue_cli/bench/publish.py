"""`goqueue-cli bench publish`: how many messages a second a topic takes."""

from typing import Annotated

import typer

from goqueue.console import terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag
from goqueue.console.groups import UsageInvalid
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, format_size
from goqueue_cli.bench import results
from goqueue_cli.bench.flags import MessagesFlag, PartitionsFlag, SaveFlag, SizeFlag, TopicName
from goqueue_cli.bench.ground import agree_to_load, ground, place_of, values


@session_flags
def publish(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName = None,
    *,
    messages: MessagesFlag = 1_000_000,
    size: SizeFlag = 100,
    partitions: PartitionsFlag = 3,
    producers: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="How many publish at once, in threads of this process.")
    ] = 1,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="A batch is sent when it has N messages.")
    ] = 10_000,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="Publish N messages a second, not all at once.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete the new topic, for `bench consume`.")] = False,
    save: SaveFlag = None,
    confirm: ConfirmFlag = None,
    dry_run: DryRunFlag = False,
    session: Session,
) -> None:
    """Measure how fast messages are published.

    \b
      goqueue-cli bench publish
      goqueue-cli bench publish --messages 100000 --size 1KiB --producers 2
      goqueue-cli bench publish --rate 5000 --messages 50000 --save before.json

    From the first message until the last one is durable, by the producer that programs use. A twentieth more is
    published before, to warm up, and not counted. Bytes are those of values. What the client costs is part of what is
    measured: where broker and client share a machine, they share its processors.
    """
    if rate is not None and not 0 < rate < float("inf"):
        raise UsageInvalid(f"--rate is {rate:g}, and must be above 0", hint="write it as in --rate 1000")
    results.check_place(save)
    plan = f"publish {format_count(messages, 'message')} of {format_size(size)} to {place_of(topic, partitions)}"
    if not agree_to_load(session, plan, confirm=confirm, dry_run=dry_run):
        return
    from goqueue_cli.bench.load import Load, warm_up  # noqa: PLC0415 - with the SDK

    with ground(session, topic, partitions, keep=keep) as place:
        settings = {
            "messages": messages, "size_bytes": size, "partitions": place.partitions,
            "producers": producers, "batch": batch, "rate": rate,
        }  # fmt: skip
        load = Load(place.client, place.topic, values(size), producers=producers, batch_messages=batch)
        extra = warm_up(messages, load.run)
        terminal.say(
            f"publishing {format_count(messages, 'message')} of {format_size(size)} to {place.topic}, "
            f"after {format_count(extra)} to warm up"
        )
        seconds = load.run(messages, rate)
    found = results.result(
        "publish", place.topic, settings, results.rates(messages, size, seconds), seconds=seconds, warm_up=extra
    )
    results.tell(session, found, save)
    if keep and place.is_own:
        terminal.say(f"`goqueue-cli bench consume {place.topic}` reads it, `goqueue-cli topic delete` deletes it")
