"""`goqueue-admin` as a real process, with pipes."""

import sys
from functools import partial

from tests.cli import programs

COMMAND = (sys.executable, "-m", "goqueue_admin.main")

admin = partial(programs.cli, command=COMMAND)
running = partial(programs.running, command=COMMAND)
