"""The process that stops an idle Ollama container: `python -m lorelog.models.ollama_keeper FOLDER CONTAINER IDLE_S`.

There is at most one for a folder; a second one leaves at once. It sleeps until the container could have been idle for long
enough, looks when it was last used, and ends with it. It gives up being the keeper before it gives up the lock of who
starts, so that whoever starts the next container finds none and begins another.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from lorelog.core.errors import ModelUnavailable
from lorelog.models.ollama_docker import docker, is_running

_LONGEST_SLEEP_S = 60.0
_SHORTEST_SLEEP_S = 0.05


def keep(folder: Path, container: str, idle_s: float) -> None:
    """Wait until the container has not been used for so long, stop it, and return."""
    keeper = os.open(folder / "keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(keeper, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(keeper)
        return
    while True:
        left = idle_s - _idle(folder)
        if left > 0:
            time.sleep(min(max(left, _SHORTEST_SLEEP_S), _LONGEST_SLEEP_S))
            continue
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _idle(folder) < idle_s:
                continue  # used while we waited
            with suppress(ModelUnavailable):  # Docker is gone: then so is the container
                if is_running(container):
                    docker("rm", "-f", container)
            (folder / "started").unlink(missing_ok=True)
            os.close(keeper)
            return
        finally:
            os.close(lock)


def _idle(folder: Path) -> float:
    """Return for how long nobody has used it; for ever when nobody ever noted it."""
    try:
        return time.time() - (folder / "last-used").stat().st_mtime
    except OSError:
        return float("inf")


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
