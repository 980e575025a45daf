"""The scrub of a broker alone: it finds what the disk has changed, tells the doctor, and costs little."""

import asyncio
from pathlib import Path

import pytest

from goqueue.broker.core.topic import TopicSpec
from goqueue.clock import SystemClock
from goqueue.observe.metrics import Metrics
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.runtime_settings import RuntimeSettings
from goqueue.storage import frame
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import Log
from goqueue.storage.store import StoreSettings


async def started(path: Path, settings: RuntimeSettings) -> Runtime:
    """Return a broker with one message of a topic on its disk."""
    runtime = Runtime(SystemDisk(), SystemClock(), Metrics("1"), settings)
    runtime.start(str(path), "a test", StoreSettings())
    topic = await runtime.create_topic(TopicSpec(name="orders", partitions=1))
    content = frame.encode(b"a value that is long enough")
    await runtime.offer(topic.partitions[0], [content], len(content))
    return runtime


def test_flipped_bit_is_found_and_forgotten_when_the_log_is_sound_again(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = await started(tmp_path, RuntimeSettings())
        (path,) = (tmp_path / "logs/orders/0").glob("*.log")
        sound = path.read_bytes()
        path.write_bytes(sound[:-5] + bytes([sound[-5] ^ 1]) + sound[-4:])

        await runtime.scrub.run_pass()
        assert [one.first_offset for one in runtime.scrub.damages["orders/0"]] == [0]
        path.write_bytes(sound)
        await runtime.scrub.run_pass()
        assert runtime.scrub.damages == {}
        progress = runtime.scrub.progress
        assert progress.passes == 2
        assert progress.read_bytes > 2 * len(sound)
        await runtime.stop()

    asyncio.run(main())


def test_passes_begin_by_themselves_and_end_with_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = await started(tmp_path, RuntimeSettings(scrub_seconds=0.01))
        async with asyncio.timeout(30):
            while runtime.scrub.progress.passes < 2:
                await asyncio.sleep(0.005)
        await runtime.stop()

    asyncio.run(main())


def test_defect_in_one_log_ends_neither_the_scrub_nor_the_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(log: Log) -> None:
        if log.name == "orders/0":
            raise ZeroDivisionError

    async def main() -> None:
        runtime = await started(tmp_path, RuntimeSettings(scrub_seconds=0.01))
        runtime.scrub.on_log.subscribe(fail)
        async with asyncio.timeout(30):
            while runtime.scrub.progress.passes < 2:
                await asyncio.sleep(0.005)
        await runtime.stop()
        assert "the scrub of log orders/0 failed by a defect" in caplog.text

    asyncio.run(main())


def test_scrub_that_is_turned_off_reads_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = await started(tmp_path, RuntimeSettings(scrub_rate=0, scrub_seconds=0.0))
        await runtime.stop()
        assert runtime.scrub.progress.read_bytes == 0

    asyncio.run(main())
