"""Starting a process that nobody waits for. Apart from those who do, because hooks do it too and must not load the rest."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def spawn_apart(words: list[str], environment: Mapping[str, str], actions: Sequence[tuple[Any, ...]]) -> None:
    """Start a program in a session of its own, with no signal blocked or ignored. Raise OSError when it cannot be started."""
    signals = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}

    def spawn(**apart: Any) -> None:
        os.posix_spawn(words[0], words, environment, file_actions=actions, setsigmask=(), setsigdef=signals, **apart)

    try:
        spawn(setsid=True)
    except NotImplementedError:  # an older macOS: a group of its own must do, which the host does not kill with its own
        spawn(setpgroup=0)
