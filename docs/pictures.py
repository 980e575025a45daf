"""Makes the pictures of the documentation, from what the real commands print: `python docs/pictures.py`."""

import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from goqueue.clock import SystemClock
from goqueue.storage import frame, scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import Store

IMAGES = Path(__file__).parent / "images"


def make_data(directory: Path) -> None:
    """Four logs; one with a flipped bit, one with a torn write, one without its index."""
    store = Store.open(SystemDisk(), str(directory), SystemClock(), owner="the pictures")
    for name, batches in (("orders/0", 40), ("orders/1", 35), ("payments/0", 12), ("payments/1", 9)):
        log = store.create(name)
        for number in range(batches):
            frames = (frame.encode(b"%06d" % count * 16, key=b"customer-%d" % number) for count in range(1000))
            log.append(scan.batch(bytearray(b"".join(frames))))
            store.flush()
    store.close()
    logs = directory / "logs"
    damaged = logs / "orders/1/00000000000000000000.log"
    content = bytearray(damaged.read_bytes())
    content[1_000_000] ^= 0x10
    damaged.write_bytes(content)
    with (logs / "payments/0/00000000000000000000.log").open("ab") as file:
        file.write(frame.encode(b"a write that was never answered")[:-9])
    (logs / "payments/1/00000000000000000000.index").unlink()


def draw(name: str, *words: str, directory: Path) -> None:
    """What a command prints, as an SVG."""
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", *words], capture_output=True, text=True, check=False, cwd=directory
    )
    console = Console(record=True, width=132, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ goqueue {' '.join(words)}", style="bold"))
    for line in (done.stdout + done.stderr).splitlines():
        damage = "range_damaged" in line or "1 damage" in line
        console.print(Text(line, style="red" if damage else ""), soft_wrap=False)
    drawn = console.export_svg(title=f"goqueue {name}")
    IMAGES.mkdir(exist_ok=True)
    # The fonts of whoever looks, instead of some that would be fetched.
    (IMAGES / f"{name}.svg").write_text(re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        make_data(Path(directory) / "goqueue-data")
        draw("fsck", "fsck", "goqueue-data", directory=Path(directory))


if __name__ == "__main__":
    main()
