"""`goqueue-cli bench publish`: measure the rate of publishing."""

from typing import Annotated

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import Consent
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, format_size
from goqueue_cli.bench import results
from goqueue_cli.bench.target import (
    MessagesFlag,
    PartitionsFlag,
    SaveFlag,
    SizeFlag,
    TopicName,
    bench_target,
    confirm_load,
    describe_target,
    values,
)


@session_flags
def publish(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName = None,
    *,
    messages: MessagesFlag = 1_000_000,
    size: SizeFlag = 100,
    partitions: PartitionsFlag = 3,
    producers: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Number of producers, in threads of this process.")
    ] = 1,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Messages in a batch.")] = 10_000,
    rate: Annotated[float | None, typer.Option(metavar="N", help="Messages per second. Default: no limit.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the new topic, for `bench consume`.")] = False,
    save: SaveFlag = None,
    consent: Consent,
    session: Session,
) -> None:
    """Measure how fast messages are published.

    \b
      goqueue-cli bench publish
      goqueue-cli bench publish --messages 100000 --size 1KiB --producers 2
      goqueue-cli bench publish --rate 5000 --messages 50000 --save before.json

    The time counts from the first message until the last one is durable, with the SDK's producer. A twentieth more is
    published before as a warm-up. Bytes are those of values. The cost of the client is part of the result: on one
    machine, broker and client share the processors.
    """
    if rate is not None and not 0 < rate < float("inf"):
        raise UsageInvalid(f"--rate is {rate:g}, and must be above 0", hint="use --rate 1000")
    results.check_place(save)
    plan = f"publish {format_count(messages, 'message')} of {format_size(size)} to {describe_target(topic, partitions)}"
    if not confirm_load(session, plan, consent=consent):
        return
    from goqueue_cli.bench.load import PublishLoad, warm_up  # noqa: PLC0415 - with the SDK

    with bench_target(session, topic, partitions, keep=keep) as place:
        settings = {
            "messages": messages, "size_bytes": size, "partitions": place.partitions,
            "producers": producers, "batch": batch, "rate": rate,
        }  # fmt: skip
        load = PublishLoad(place.client, place.topic, values(size), producers=producers, batch_messages=batch)
        extra = warm_up(messages, load.run)
        terminal.say(
            f"publishing {format_count(messages, 'message')} of {format_size(size)} to {place.topic}, "
            f"after {format_count(extra)} to warm up"
        )
        seconds = load.run(messages, rate)
    found = results.result(
        "publish", place.topic, settings, results.rates(messages, size, seconds), seconds=seconds, warm_up=extra
    )
    results.write_result(session, found, save)
    if keep and place.is_own:
        terminal.say(f"`goqueue-cli bench consume {place.topic}` reads it, `goqueue-cli topic delete` deletes it")
