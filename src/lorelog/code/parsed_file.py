"""Read and parse one file into the rows that a parser process sends to the writer.

Rows are plain tuples because they cross a pipe. Uses are packed here already, since several processes parse and one
writes.

`main` is the parser process: it reads requests from standard input and writes results until the input ends. Parsers are third-party native code that reads untrusted files. In a separate process, a parser that crashes, hangs or
exhausts the memory costs one file, which is reported. The process ends with its parent, since its input ends then.

A message is its length in four bytes and a marshalled value: a root with files to parse, or the result of one of them.
"""

from __future__ import annotations

import gc
import marshal
import os
import stat
import struct
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from lorelog.code.languages.registry import DETECTION_BYTES, detect_language
from lorelog.code.names import module_tail
from lorelog.code.source import MAX_SOURCE_BYTES, decode_source
from lorelog.code.tables import BASES_SEPARATOR, MAX_PER_FILE, digest_of, pack_uses
from lorelog.core.code import FileExtract, NameUse
from lorelog.core.document import FileStamp

RECIPE = "1"
"""Version of the extraction: raise it when the same bytes would give other symbols, uses or imports."""

SymbolRow = tuple[str, str, int, int, int, int, int, int, str, str, str, str, str, str]
"""Name, kind, span, position of the name, signature, docstring, visibility, container, bases, digest."""
ImportRow = tuple[str, str, str, str, int, int]
"""Module, its last part, name, alias, line, column."""


class ParsedFile(NamedTuple):
    """The result of parsing one file."""

    path: str
    """Relative to its root."""
    stamp: tuple[int, int, int]
    digest: str
    language: str = ""
    lines: int = 0
    broken: int = 0
    problem: str = ""
    unchanged: bool = False
    """The bytes are those of the requested digest; nothing was parsed."""
    missing: bool = False
    symbols: tuple[SymbolRow, ...] = ()
    uses: tuple[tuple[str, bytes], ...] = ()
    imports: tuple[ImportRow, ...] = ()


class ParseRequest(NamedTuple):
    """A file to parse."""

    path: str
    digest: str = ""
    """Digest of the indexed content: if the bytes still have it, the file is not parsed."""
    size: int = 0


def parse_file(root: str, request: ParseRequest) -> ParsedFile:
    """Read and parse one file. A failure is part of the result."""
    try:
        stamp, content = _read_file(f"{root.rstrip('/')}/{request.path}")
    except FileNotFoundError:
        return ParsedFile(request.path, (0, 0, 0), "", missing=True)
    except OSError as error:
        return ParsedFile(request.path, (0, 0, 0), "", problem=f"cannot be read: {error.strerror or error}")
    if content is None:
        problem = "too large" if stamp[0] > MAX_SOURCE_BYTES else "not a regular file"
        return ParsedFile(request.path, stamp, "", problem=problem)
    digest = digest_of(content)
    if digest == request.digest:
        return ParsedFile(request.path, stamp, digest, unchanged=True)
    file = ParsedFile(request.path, stamp, digest)
    language = detect_language(file.path, content[:DETECTION_BYTES]) or ""
    decoded = decode_source(content, language)
    if not language or decoded.refusal:
        return file._replace(language=language, problem=decoded.refusal if language else "")
    from lorelog.code.extract import extract

    return build_rows(file.path, file.stamp, file.digest, extract(decoded.source, language))


def build_rows(path: str, stamp: tuple[int, int, int], digest: str, extract: FileExtract) -> ParsedFile:
    """Convert the extract of a file to rows."""
    symbols = extract.symbols[:MAX_PER_FILE]
    imports = tuple(
        (module, module_tail(module), name, alias, line, column)
        for module, name, alias, line, column in extract.imports[:MAX_PER_FILE]
    )
    rows = tuple(
        (
            *(symbol.name, str(symbol.kind), *symbol.span, symbol.name_line, symbol.name_column, symbol.signature),
            *(symbol.docstring, symbol.visibility, symbol.container, BASES_SEPARATOR.join(symbol.bases), symbol.digest),
        )
        for symbol in symbols
    )
    return ParsedFile(
        *(path, stamp, digest, extract.language, extract.lines, extract.broken),
        symbols=rows,
        uses=_pack_by_name(extract),
        imports=imports,
    )


def _pack_by_name(extract: FileExtract) -> tuple[tuple[str, bytes], ...]:
    """Return the packed uses by name, without those that can only mean a local variable."""
    visible_names = {symbol.name for symbol in extract.symbols}
    for statement in extract.imports:
        module = statement.module
        visible_names.update((statement.name, statement.alias, module_tail(module), module.partition(".")[0]))
    by_name: dict[str, list[NameUse]] = defaultdict(list)
    for use in extract.uses:
        if not use.local or use.name in visible_names:
            by_name[use.name].append(use)
    return tuple((name, pack_uses(uses)) for name, uses in by_name.items() if name)


def _read_file(path: str) -> tuple[tuple[int, int, int], bytes | None]:
    """Return a file's stamp and bytes; no bytes if it is too large or not a regular file. Links are not followed."""
    # O_NONBLOCK: opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        file_stamp = FileStamp.from_stat(status)
        stamp = (file_stamp.size, file_stamp.mtime_ns, file_stamp.inode)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SOURCE_BYTES:
            return stamp, None
        content = bytearray()  # it may grow while it is read
        while len(content) <= MAX_SOURCE_BYTES and (piece := os.read(descriptor, 1 << 20)):
            content += piece
        return stamp, bytes(content[: MAX_SOURCE_BYTES + 1])
    finally:
        os.close(descriptor)


_LENGTH = struct.Struct("<I")
MAX_MEMORY = 3 << 30
"""Memory limit in bytes; a parser that needs more is ended. The largest accepted file takes a third of it."""


def main(words: list[str]) -> None:
    """Run the process. `words` holds the niceness."""
    import resource

    with suppress(OSError, ValueError, IndexError):
        os.nice(int(words[0]))
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(hard, MAX_MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

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
        while (message := receive(lambda max_bytes: os.read(0, max_bytes))) is not None:
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


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = read(min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)
