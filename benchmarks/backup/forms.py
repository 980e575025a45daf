"""Full backups of JSON messages in each form: as they are, compressed, encrypted, and both."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.backup.copies import BATCH, GB, Source
from benchmarks.harness.suite import Bench, Figure, Sample, measurement
from benchmarks.storage.stock import settings, store
from goqueue.backup.key_file import new_key_text
from goqueue.backup.opening import open_target
from goqueue.config import BackupConfig
from goqueue.storage import frame

_NAMES = ("as they are", "compressed", "encrypted", "both")


def orders(random: Random) -> bytes:
    """A batch as programs send it: names that repeat, ids and numbers that differ."""
    return b"".join(frame.encode(json.dumps(_order(random)).encode()) for _ in range(BATCH))


def _order(random: Random) -> dict[str, object]:
    return {
        "order": f"{random.getrandbits(64):016x}",
        "customer": random.randrange(10**6),
        "amount": round(random.random() * 500, 2),
        "currency": random.choice(("EUR", "USD")),
        "lines": [{"sku": f"SKU-{random.randrange(9999):04}", "quantity": random.randrange(1, 5)} for _ in range(2)],
    }


@measurement(
    "full backup of JSON messages",
    *(Figure("s/GB of processor", name, less_is_better=True) for name in _NAMES),
    Figure("%", "stored where compressed", less_is_better=True),
)
def forms(bench: Bench) -> Iterator[Sample]:
    path = bench.room()
    with store(f"{path}/data", settings=settings()) as opened:
        source = Source(bench, opened, path, orders(bench.random))
        source.fill(bench.size(GB, GB // 10))
        Path(f"{path}/key").touch(0o600)
        Path(f"{path}/key").write_text(new_key_text()[0])
        while True:
            seconds, share = list[float](), 100.0
            for key_file in ("none", f"{path}/key"):
                for compression in ("none", "zstd"):
                    given = BackupConfig(compression=compression, key_file=key_file)
                    source.target = open_target(f"{path}/backups", given, source.disk)
                    began = time.process_time()
                    made = source.back_up()
                    seconds.append((time.process_time() - began) * GB / made.size)
                    share = 100 * made.stored_size / made.size
                    bench.clear(f"{path}/backups")
            yield (*seconds, share)
