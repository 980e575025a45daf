"""`goqueue` as a process whose disk keeps a journal: `python -m tests.crash.power_process DATA JOURNAL serve ...`."""

import sys
from functools import partial
from unittest.mock import patch

from goqueue import daemon
from goqueue.commands.main import main
from tests.crash.journaling_disk import JournalingDisk

if __name__ == "__main__":
    _, root, journal, *words = sys.argv
    with patch.object(daemon, "SystemDisk", partial(JournalingDisk, root, journal)):
        sys.exit(main(words))
