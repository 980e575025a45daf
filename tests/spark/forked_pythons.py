"""The Pythons that the Spark of the tests starts, forked from one that has loaded their modules.

A Python for a few rows spends a second of CPU time on loading pandas, pyarrow and pyspark, and Spark starts one for
each stream, and a daemon of workers for each kind of work. Users' Pythons load the modules after the start.

This file is also what Spark starts: it asks the server for a fork that takes its place, and waits for its end.
"""

import json
import os
import signal
import socket
import sys

ADDRESS = "FORKED_PYTHONS"
_MESSAGE_BYTES_MAX = 1 << 17


def listening(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen(64)
    return listening


def serve(file: int) -> None:
    """Fork a Python for each connection to this listening socket, until the end of the input."""
    import gc  # noqa: PLC0415 - what only asks for a fork loads as little as possible
    import select  # noqa: PLC0415

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()  # a worker looks for garbage after each task
    with socket.socket(fileno=file) as listening:
        while 0 not in select.select([listening.fileno(), 0], [], [])[0]:
            asking = listening.accept()[0]
            if os.fork() == 0:
                listening.close()
                _run_fork(asking)
            asking.close()


def _run_fork(asking: socket.socket) -> None:
    """Be the Python that was asked for: with its files, directory, variables and arguments."""
    code = 1
    try:
        content, files, _, _ = socket.recv_fds(asking, _MESSAGE_BYTES_MAX, 3)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        asked = json.loads(content)
        os.chdir(asked["directory"])
        os.environ.clear()
        os.environ.update(asked["variables"])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        asking.send(str(os.getpid()).encode())
        _run_module(*asked["words"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback  # noqa: PLC0415

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _run_module(module: str, *words: str) -> None:
    import runpy  # noqa: PLC0415
    import warnings  # noqa: PLC0415

    sys.argv = [module, *words]
    warnings.simplefilter("ignore", RuntimeWarning)  # of a module that is loaded, and run again
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def ask(address: str, words: list[str]) -> None:
    """Have a fork run a module with these words in place of this process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(address)
        asked = {"words": words, "directory": os.getcwd(), "variables": dict(os.environ)}
        socket.send_fds(asking, [json.dumps(asked).encode()], [0, 1, 2])
        fork = int(asking.recv(20))
        for file in (0, 1):
            os.close(file)  # the other ends must not wait for this process
        signal.signal(signal.SIGTERM, lambda *_: os.kill(fork, signal.SIGTERM))
        asking.recv(1)  # nothing comes until the fork ends


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["-m", module, *words] if module.startswith("pyspark."):
            ask(os.environ[ADDRESS], [module, *words])
        case [worker] if worker.startswith("pyspark."):  # this is Spark's module of daemons
            ask(os.environ[ADDRESS], ["pyspark.daemon", worker])
        case words:
            os.execv(sys.executable, [sys.executable, *words])  # noqa: S606
