"""The process that parses: asked for files through its standard input, it answers through its standard output until there is no more.

A process of its own, because parsers are foreign code that is handed strangers' files: one that crashes, hangs or eats memory takes
this process with it and nothing else, and the file is named. It ends with whoever started it, since its input ends then.

A message is its length in four bytes and a marshalled value: a root with files to parse, or what became of one of them.
"""

from __future__ import annotations

import gc
import marshal
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_LENGTH = struct.Struct("<I")
MOST_MEMORY = 3 << 30
"""Bytes that parsing one file may take: a parser that wants more is ended. The largest file read takes a third of it."""


def main(words: list[str]) -> None:
    """Parse what is asked for. `words`: how nice to be to others."""
    with suppress(OSError, ValueError, IndexError):
        os.nice(int(words[0]))
    _bound_memory()
    from lorelog.code.parsed import Asked, Parsed, parse_file

    def parsed(root: str, asked: Asked) -> Parsed:
        try:
            return parse_file(root, asked)
        except Exception as error:  # noqa: BLE001  (a fault of ours in one file must not cost the others)
            said = f"could not be parsed: {type(error).__name__}: {error}"[:300]
            return Parsed(asked.path, (0, 0, 0), "", problem=said)

    # Trees and rows come by the hundred thousand and go by themselves: looking for rings among them took a tenth of the time.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    # What a library prints must not get between our messages.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        while (message := receive(_from(0))) is not None:
            root, files = message
            for file in files:
                send(answers, tuple(parsed(root, Asked(*file))))
    except (BrokenPipeError, KeyboardInterrupt):
        pass


def send(descriptor: int, message: Any) -> None:
    """Write a message."""
    body = marshal.dumps(message)
    rest = memoryview(_LENGTH.pack(len(body)) + body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def receive(read: Callable[[int], bytes]) -> Any:
    """Return a message that is read by pieces of at most so many bytes; None at the end."""
    head = _exactly(read, _LENGTH.size)
    if head is None:
        return None
    body = _exactly(read, _LENGTH.unpack(head)[0])
    return None if body is None else marshal.loads(body)  # noqa: S302  (written by the other of our two processes)


def _from(descriptor: int) -> Callable[[int], bytes]:
    return lambda most: os.read(descriptor, most)


def _exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        piece = read(min(size, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _bound_memory() -> None:
    import resource

    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(hard, MOST_MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(sys.argv[1:])
