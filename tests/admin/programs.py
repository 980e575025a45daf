"""`goqueue-admin` as a real process, with pipes or with a terminal."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.programs import ROOT, Done, environment

COMMAND = (sys.executable, "-m", "goqueue_admin.main")


def admin(server: str, *words: str, **variables: str) -> Done:
    """Run to the end."""
    done = subprocess.run(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        env=environment(GOQUEUE_SERVER=server, **variables),
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode())


@contextmanager
def running(server: str, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that goes on until the end of the block at the latest."""
    with subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(GOQUEUE_SERVER=server),
    ) as process:
        try:
            yield process
        finally:
            process.kill()
