"""Running a program as a child that can't harm its parent: bounded in time and in output.

The child is spawned, never forked: ``fork`` runs the handlers that a threaded BLAS in this
process may have registered, and copies locks that its threads hold. It gets a process group of
its own, so that what it started ends with it.
"""

from __future__ import annotations

import os
import time

from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

#: What is read of a child's report and of its standard error; beyond it, the child is ended.
MAX_OUTPUT = 4 << 20
MAX_ERRORS = 16 << 20
#: What is kept of its standard error.
KEPT_ERRORS = 64 << 10
_CHUNK = 64 << 10
#: Seconds between looks at whether a child has ended while something still holds its pipes.
_PATIENCE = 0.1


class Ended(Record):
    """How a child ended, and what it wrote.

    Attributes
    ----------
    status : int, optional
        Exit status; None if a signal ended it.
    signal : int, optional
        Number of the signal that ended it.
    ended_for : {'timeout', 'output'}, optional
        Why its parent ended it; None if it ended by itself.
    output, errors : bytes
        Standard output, and the first `KEPT_ERRORS` bytes of standard error.
    """

    status: int | None
    signal: int | None
    ended_for: str | None
    output: bytes
    errors: bytes


def run(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    given: bytes = b"",
    timeout: float,
) -> Ended:
    """Run ``command`` and wait for its end.

    Parameters
    ----------
    command : sequence of str
        The program, searched on ``PATH``, and its arguments.
    environ : mapping
        All of the child's environment.
    given : bytes
        What it reads from standard input.
    timeout : float
        Seconds of wall-clock time after which it is ended.

    Raises
    ------
    OSError
        If it can't be started.
    """
    if hasattr(os, "posix_spawnp"):
        return _run_posix(command, environ, given, timeout)
    return _run_elsewhere(command, environ, given, timeout)


def _run_posix(
    command: Sequence[str], environ: Mapping[str, str], given: bytes, timeout: float
) -> Ended:
    import select
    import signal

    deadline = time.monotonic() + timeout
    theirs: list[int] = []
    ours: list[int] = []
    try:
        stdin, to_child = os.pipe()
        theirs.append(stdin)
        ours.append(to_child)
        output, stdout = os.pipe()
        theirs.append(stdout)
        ours.append(output)
        errors, stderr = os.pipe()
        theirs.append(stderr)
        ours.append(errors)
        pid = os.posix_spawnp(
            command[0],
            list(command),
            dict(environ),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setpgroup=0,
            setsigmask=[],
            # Python ignores these two; a program expects what the system does by default.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except BaseException:
        for descriptor in theirs + ours:
            os.close(descriptor)
        raise
    for descriptor in theirs:
        os.close(descriptor)

    kept = {output: bytearray(), errors: bytearray()}
    seen = {output: 0, errors: 0}
    limits = {output: MAX_OUTPUT, errors: MAX_ERRORS}
    keeping = {output: MAX_OUTPUT, errors: KEPT_ERRORS}
    ended_for = None
    rest = memoryview(given)
    poller = select.poll()
    poller.register(output, select.POLLIN)
    poller.register(errors, select.POLLIN)
    os.set_blocking(to_child, False)
    poller.register(to_child, select.POLLOUT)
    open_ends = {output, errors, to_child}
    has_ended = False
    try:
        while open_ends & {output, errors}:
            left = deadline - time.monotonic()
            if left <= 0:
                ended_for = "timeout"
                break
            events = poller.poll(1000 * min(left, _PATIENCE))
            if not events:
                if has_ended:
                    # Something that it started holds its pipes.
                    break
                has_ended = _has_ended(pid)
            for descriptor, _ in events:
                if descriptor == to_child:
                    rest = _feed(to_child, rest)
                    is_over = not rest
                else:
                    chunk = os.read(descriptor, _CHUNK)
                    seen[descriptor] += len(chunk)
                    room = keeping[descriptor] - len(kept[descriptor])
                    kept[descriptor] += chunk[:room]
                    is_over = not chunk
                if is_over:
                    poller.unregister(descriptor)
                    os.close(descriptor)
                    open_ends.remove(descriptor)
                    ours.remove(descriptor)
            if any(seen[descriptor] > limits[descriptor] for descriptor in seen):
                ended_for = "output"
                break
        pause = 0.0005
        while ended_for is None and not has_ended and not (has_ended := _has_ended(pid)):
            # It has closed its pipes, and is about to end, or pretends to.
            if time.monotonic() > deadline:
                ended_for = "timeout"
            time.sleep(pause)
            pause = min(2 * pause, _PATIENCE)
    finally:
        for descriptor in ours:
            os.close(descriptor)
        # Not yet reaped, so that its number is still its own.
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass
        _, code = os.waitpid(pid, 0)
    by_signal = os.WIFSIGNALED(code)
    return Ended(
        status=None if by_signal else os.WEXITSTATUS(code),
        signal=os.WTERMSIG(code) if by_signal else None,
        ended_for=ended_for,
        output=bytes(kept[output]),
        errors=bytes(kept[errors]),
    )


def _feed(descriptor: int, rest: memoryview) -> memoryview:
    try:
        return rest[os.write(descriptor, rest[:_CHUNK]) :] if rest else rest
    except BlockingIOError:
        return rest
    except OSError:
        # It does not read what it is given.
        return rest[:0]


def _has_ended(pid: int) -> bool:
    """Tell whether a child has ended, leaving it to be reaped."""
    if not hasattr(os, "waitid"):
        # macOS before Python 3.13: only the end of its pipes tells.
        return True
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _run_elsewhere(
    command: Sequence[str], environ: Mapping[str, str], given: bytes, timeout: float
) -> Ended:
    import subprocess
    import threading

    child = subprocess.Popen(
        list(command),
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    kept = {"output": bytearray(), "errors": bytearray()}
    flooded = threading.Event()

    def read(stream: IO[bytes], name: str, keep: int, limit: int) -> None:
        seen = 0
        with stream:
            while chunk := os.read(stream.fileno(), _CHUNK):
                seen += len(chunk)
                kept[name] += chunk[: keep - len(kept[name])]
                if seen > limit:
                    flooded.set()
                    child.kill()
                    return

    def feed(stream: IO[bytes]) -> None:
        try:
            with stream:
                stream.write(given)
        except OSError:
            # It does not read what it is given.
            pass

    threads = [
        threading.Thread(target=read, args=(child.stdout, "output", MAX_OUTPUT, MAX_OUTPUT)),
        threading.Thread(target=read, args=(child.stderr, "errors", KEPT_ERRORS, MAX_ERRORS)),
        threading.Thread(target=feed, args=(child.stdin,)),
    ]
    for thread in threads:
        thread.daemon = True
        thread.start()
    ended_for = None
    try:
        child.wait(timeout)
    except subprocess.TimeoutExpired:
        ended_for = "timeout"
    finally:
        child.kill()
        child.wait()
    for thread in threads:
        # One that something else keeps from ending is left behind.
        thread.join(10 * _PATIENCE)
    return Ended(
        status=child.returncode,
        signal=None,
        ended_for="output" if flooded.is_set() else ended_for,
        output=bytes(kept["output"]),
        errors=bytes(kept["errors"]),
    )
