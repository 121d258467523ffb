"""A person at a terminal: a program with a screen of a fixed size, keys that are typed, and eyes that wait for a text.

The program gets a terminal of its own (and nothing else: no pipe tells it that this is a test). What it draws is read
on a thread, always, because a program whose terminal nobody reads stops. Everything that was drawn is kept in a log.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from e2e.screen import Screen
from e2e.world import Failed, World

COLUMNS, ROWS = 120, 40
ENTER, ESCAPE, CONTROL_C, CONTROL_D, DOWN, TAB = "\r", "\x1b", "\x03", "\x04", "\x1b[B", "\t"
_LEAVE_S = 20.0
_OWN_TERMINAL = "import fcntl,os,sys,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Without a controlling terminal a program has no /dev/tty and gets no signals from keys."""


class Terminal:
    """One program, from its start to its end."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], world: World) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._log = (world.logs / f"terminal-{len(list(world.logs.iterdir())):02d}.log").open("wb")
        self._screen = Screen(COLUMNS, ROWS)
        self._changed = threading.Condition()
        self._keys = ours
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, *command],
            cwd=world.project,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._watcher.join(5)
        self._log.close()
        os.close(self._keys)

    @property
    def shown(self) -> str:
        """Return the visible text."""
        with self._changed:
            return self._screen.text

    def press(self, *keys: str, pause_s: float = 0.3) -> None:
        """Press keys one after the other, at a person's speed."""
        for key in keys:
            try:
                os.write(self._keys, key.encode())
            except OSError as error:
                raise Failed(f"the program is gone: {self._seen()}") from error
            time.sleep(pause_s)

    def choose(self, *keys: str) -> None:
        """Answer a new dialog: it reads no keys before it is drawn completely."""
        time.sleep(1.0)
        self.press(*keys, pause_s=0.5)

    def say(self, text: str) -> None:
        """Type a line and send it. Typed at once it would count as a paste, in which Enter is a line break."""
        for piece in re.findall(r"\S+\s*", text):
            self.press(piece, pause_s=0.03)
        self.wait_for(text[-20:], f"{text[:30]!r} to be typed", 20)
        self.press(ENTER, pause_s=0.5)

    def wait_for(self, text: str, what: str = "", limit_s: float = 60.0) -> None:
        """Wait until a text is visible. Line breaks and spaces do not matter."""
        self.wait_for_any((text,), what or repr(text), limit_s)

    def wait_for_any(self, texts: Sequence[str], what: str, limit_s: float = 60.0) -> str:
        """Wait for the first of the texts to be visible, and return it."""
        found: list[str] = []

        def look(shown: str) -> bool:
            found[:] = [text for text in texts if _bare(text) in shown]
            return bool(found)

        self._wait_until(look, what, limit_s)
        return found[0]

    def wait_until_gone(self, text: str, what: str, limit_s: float = 60.0) -> None:
        """Wait until a text is not visible any more."""
        self._wait_until(lambda shown: _bare(text) not in shown, what, limit_s)

    def _wait_until(self, look: Callable[[str], bool], what: str, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        with self._changed:
            while not look(_bare(self._screen.text)):
                if self.process.poll() is not None or time.monotonic() > end:
                    raise Failed(f"waited for {what}, but {self._seen()}")
                self._changed.wait(0.2)

    def leave(self, *keys: str) -> None:
        """Press the keys that end the program, and wait. The first time they may only interrupt something."""
        end = time.monotonic() + _LEAVE_S
        while time.monotonic() < end:
            self.press(*keys)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(4.0)
                return
        raise Failed(f"the program did not end: {self._seen()}")

    def _seen(self) -> str:
        state = "runs" if self.process.poll() is None else f"ended with {self.process.returncode}"
        lines = [line for line in self._screen.text.splitlines() if line.strip()]
        return f"the program {state} and shows: {' / '.join(lines)[-1500:]}"

    def _watch(self) -> None:
        while True:
            try:
                raw = os.read(self._keys, 65536)
            except OSError:  # how Linux says that the other end is closed
                raw = b""
            if not raw:
                break
            self._log.write(raw)
            self._log.flush()
            with self._changed:
                replies = self._screen.feed(raw)
                self._changed.notify_all()
            if replies:
                with contextlib.suppress(OSError):
                    os.write(self._keys, replies)


def _bare(text: str) -> str:
    """Return text without spaces, line ends and frames."""
    return re.sub(r"[\s\u2500-\u259f]+", "", text)
