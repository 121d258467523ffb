"""The parser process: reads requests from standard input and writes results to standard output until the input ends.

Parsers are third-party native code that reads untrusted files. In a separate process, a parser that crashes, hangs or
exhausts the memory costs one file, which is reported. The process ends with its parent, since its input ends then.

A message is its length in four bytes and a marshalled value: a root with files to parse, or the result of one of them.
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
MAX_MEMORY = 3 << 30
"""Memory limit in bytes; a parser that needs more is ended. The largest accepted file takes a third of it."""


def main(words: list[str]) -> None:
    """Run the process. `words` holds the niceness."""
    with suppress(OSError, ValueError, IndexError):
        os.nice(int(words[0]))
    _limit_memory()
    from lorelog.code.parsed_file import ParsedFile, ParseRequest, parse_file

    def parse(root: str, request: ParseRequest) -> ParsedFile:
        try:
            return parse_file(root, request)
        except Exception as error:  # noqa: BLE001  (a bug that one file triggers must not cost the others)
            problem = f"could not be parsed: {type(error).__name__}: {error}"[:300]
            return ParsedFile(request.path, (0, 0, 0), "", problem=problem)

    # Trees and rows are freed by reference counting: looking for cycles among them took a tenth of the time.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    # Output of a library must not get between our messages.
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        while (message := receive(_reader(0))) is not None:
            root, files = message
            for file in files:
                send(output, tuple(parse(root, ParseRequest(*file))))
    except (BrokenPipeError, KeyboardInterrupt):
        pass


def send(descriptor: int, message: Any) -> None:
    """Write a message."""
    body = marshal.dumps(message)
    rest = memoryview(_LENGTH.pack(len(body)) + body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def receive(read: Callable[[int], bytes]) -> Any:
    """Read a message; return None at the end of the input. `read` takes the maximum number of bytes to return."""
    head = _read_exactly(read, _LENGTH.size)
    if head is None:
        return None
    body = _read_exactly(read, _LENGTH.unpack(head)[0])
    return None if body is None else marshal.loads(body)  # noqa: S302  (written by our own process)


def _reader(descriptor: int) -> Callable[[int], bytes]:
    return lambda max_bytes: os.read(descriptor, max_bytes)


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        piece = read(min(size, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _limit_memory() -> None:
    import resource

    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(hard, MAX_MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(sys.argv[1:])
