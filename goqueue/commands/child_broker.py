"""A broker as a child process, which ends with its parent however that ends (on Linux)."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

from goqueue.console import terminal

END_OF_BANNER = "^C stops"

_START = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent, however that ends
    if os.getppid() != int(sys.argv[1]):  # it has ended already
        sys.exit()
from goqueue.commands.main import main
sys.exit(main(sys.argv[2:]))
"""


class ChildBroker:
    """The broker as a process that ^C in this terminal does not reach."""

    def __init__(self, *words: str) -> None:
        """`words` are those of `goqueue serve`."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(os.getpid()), "serve", *words],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")},
            start_new_session=True,
        )
        self._output_thread = threading.Thread(target=self._pass_on, daemon=True)
        self._last = ""
        self.banner: list[str] = []
        """Its first lines, or the error of a broker that does not start."""

    def is_ready(self) -> bool:
        """Wait until it has started, or ended."""
        for line in self._lines():
            self.banner.append(line)
            if line == END_OF_BANNER:
                self._output_thread.start()
                return True
        self._process.wait()
        return False

    @property
    def address(self) -> str:
        return self.banner[0].split()[-1]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int:
        return self._process.wait()

    def describe_end(self) -> str:
        """Say how it ended and what it wrote last, as the rest of a sentence about it."""
        code = self.exit_code
        self._output_thread.join()
        cause = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{cause}; " + (f"it said last: {self._last}" if self._last else "it said nothing")

    @property
    def process_id(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """Ask it to stop cleanly, and do not wait."""
        self._process.terminate()

    def stop(self, seconds: float = 0) -> None:
        """End it at once, or when it has not ended within this time."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._process.kill()
        self._process.wait()
        if self._output_thread.ident is not None:
            self._output_thread.join()

    def _pass_on(self) -> None:
        """Print what the broker writes after its banner."""
        for line in self._lines():
            self._last = line
            terminal.show_status("")  # the next update shows it again
            terminal.say(line)

    def _lines(self) -> Iterator[str]:
        assert self._process.stderr is not None
        return map(str.rstrip, self._process.stderr)
