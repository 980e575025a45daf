"""Programs as processes that start at once: forked from a server that has loaded their modules.

Such a process has its own pid, pipes, environment, signals and exit code. Only the start of the interpreter and the
imports are saved; what cannot be forked is started as usual.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import connection, current_process, get_context, reduction
from pathlib import Path
from runpy import run_module
from typing import Any

OURS = ("goqueue", "goqueue_cli", "goqueue_admin", "tests")
"""Packages whose modules are forked."""
ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("goqueue/commands/*.py", "goqueue/console/*.py", "goqueue_cli/**/*.py", "goqueue_admin/*.py")
LOADED = (
    *("goqueue.daemon", "goqueue.client", "goqueue.testing.history.check", "tests.crash.writer", "typer"),
    *(".".join(path.relative_to(ROOT).with_suffix("").parts) for glob in COMMANDS for path in sorted(ROOT.glob(glob))),
)
INTERPRETER = ("PYTHON", "LC_", "LANG")
"""Variables that the interpreter reads when it starts."""

_forkserver = get_context("forkserver")
_forkserver.set_forkserver_preload(["tests.forked", *LOADED])


def can_fork(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether a command is a module of ours, under the interpreter settings of this process."""
    is_ours = tuple(command[:2]) == (sys.executable, "-m") and command[2].partition(".")[0] in OURS
    return is_ours and of_interpreter(environment) == of_interpreter(os.environ)


def of_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without which a command is not forked."""
    return {name: text for name, text in environment.items() if name.startswith(INTERPRETER)} | {"PYTHONUTF8": "1"}


def _be(module: str, arguments: list[str], directory: str, environment: dict[str, str], streams: list[Any]) -> None:
    """Run the module; this is the whole life of the new process."""
    for number, stream in enumerate(streams):
        descriptor = stream.detach()
        os.dup2(descriptor, number)
        os.close(descriptor)
    kept = {"encoding": "utf-8", "errors": "surrogateescape"}  # as under PYTHONUTF8
    sys.stdin, sys.stdout = open(0, **kept), open(1, "w", **kept)  # type: ignore[call-overload] # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
    current_process()._config["daemon"] = False  # type: ignore[attr-defined] # a program may start processes
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # loaded here to be quick, and run as a program now
    run_module(module, run_name="__main__", alter_sys=True)


class _Start:
    """The target of a new process; the streams are duplicated when it is sent there."""

    def __init__(self, *what: Any) -> None:
        self._what = what

    def __reduce__(self) -> Any:
        *what, streams = self._what
        return _Start, (*what, [reduction.DupFd(one) for one in streams])

    def __call__(self) -> None:
        _be(*self._what)


class Program(subprocess.Popen[Any]):
    """A `subprocess.Popen` that forks the program where it can; its pipes are those that it was started with."""

    stdin: Any
    stdout: Any
    stderr: Any
    _process: Any = None

    def _execute_child(self, args: Any, *rest: Any) -> None:
        # executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell, six pipe ends, …
        cwd, given, pipes = rest[4], rest[5], rest[9:15]
        command, environment = [os.fsdecode(word) for word in args], dict(os.environ if given is None else given)
        if not can_fork(command, environment):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        streams = [number if own == -1 else own for number, own in enumerate((pipes[0], pipes[3], pipes[5]))]
        start = _Start(command[2], command[3:], os.fspath(cwd or os.getcwd()), environment, streams)
        self._process = _forkserver.Process(target=start, daemon=True)
        self._process.start()
        self.pid, self._child_created = self._process.pid, True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._process is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        if wait_flags & os.WNOHANG and not connection.wait([self._process.sentinel], 0):
            return 0, 0
        self._process.join()
        code = self._process.exitcode
        return self.pid, -code if code < 0 else code << 8

    def _internal_poll(self, *rest: Any, **more: Any) -> Any:
        if self._process is None:
            return super()._internal_poll(*rest, **more)  # type: ignore[misc]
        if self.returncode is None and (found := self._try_wait(os.WNOHANG))[0]:
            self._handle_exitstatus(found[1])  # type: ignore[attr-defined]
        return self.returncode


def run(command: Sequence[str], content: Any = None, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, with pipes for the streams that are not given."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Program(command, **{**streams, **options}) as process:
        try:
            out, err = process.communicate(content)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
