"""Parse files in processes of their own: requests go in, rows for the writer come out as files are finished.

Rows are plain tuples because they cross a pipe. Uses are packed here already, since several processes parse and one
writes.

`main` is the parser process: it reads requests from the socket that is its standard input, and writes results to it, until it is closed. Parsers are third-party native code that reads untrusted files. In a separate process, a parser that crashes, hangs or
exhausts the memory costs one file, which is reported. The process ends with its parent, which closes the socket.

`ParserPool` runs these processes. Memory is bounded: a process waits until its results are taken from its socket. A process that
crashes or times out is replaced; its current file gets a problem as result, and the next process parses the remaining files.

A message is MessagePack, which makes no objects but ours: a root with files to parse, or the result of one of them.
"""

from __future__ import annotations

import errno
import gc
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from msgspec.msgpack import decode, encode

from lorelog.code.languages.registry import DETECTION_BYTES, detect_language
from lorelog.code.names import module_tail
from lorelog.code.source import MAX_SOURCE_BYTES, decode_source
from lorelog.code.tables import BASES_SEPARATOR, MAX_PER_FILE, digest_of, pack_uses
from lorelog.core.atomic_file import OpenDescriptor
from lorelog.core.code import FileExtract
from lorelog.core.document import FileStamp
from lorelog.core.ports import batches_of, group_by
from lorelog.core.processes import usable_cores

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RECIPE = "3"
"""Version of the extraction: raise it when the same bytes would give other symbols, uses or imports."""

SymbolRow = tuple[str, str, int, int, int, int, int, int, str, str, str, str, str, str]
"""Name, kind, span, position of the name, signature, docstring, visibility, container, bases, digest."""
ImportRow = tuple[str, str, str, str, int, int]
"""Module, its last part, name, alias, line, column."""


class ParsedFile(NamedTuple):
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
    by_name = group_by((use for use in extract.uses if not use.local or use.name in visible_names), attrgetter("name"))
    return tuple((name, pack_uses(uses)) for name, uses in by_name.items() if name)


def _read_file(path: str) -> tuple[tuple[int, int, int], bytes | None]:
    """Return a file's stamp and bytes; no bytes if it is too large or not a regular file. Links are not followed."""
    # O_NONBLOCK: opening a pipe would wait for its writer.
    with OpenDescriptor(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as descriptor:
        status = os.fstat(descriptor)
        file_stamp = FileStamp.from_stat(status)
        stamp = (file_stamp.size, file_stamp.mtime_ns, file_stamp.inode)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SOURCE_BYTES:
            return stamp, None
        content = bytearray()  # it may grow while it is read
        while len(content) <= MAX_SOURCE_BYTES and (piece := os.read(descriptor, 1 << 20)):
            content += piece
        return stamp, bytes(content[: MAX_SOURCE_BYTES + 1])


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
    from multiprocessing.connection import Connection

    pool = Connection(0)
    with suppress(EOFError, OSError, KeyboardInterrupt):  # the pool has closed its end
        while True:
            root, requests = decode(pool.recv_bytes(), type=tuple[str, list[ParseRequest]])
            for request in requests:
                pool.send_bytes(encode(parse(root, request)))


_MAX_BATCH_FILES = 32
_MAX_BATCH_BYTES = 400_000
_LARGE_FILE_BYTES = 1_000_000
"""Larger files are parsed one at a time: each may take eighty times its size in memory."""
_FILE_TIMEOUT_S = 60.0
"""Timeout of a file, and of each further megabyte of a large one. Parsing itself is bounded; this is for hangs."""
_WORKER_CODE = "import sys; sys.path.append(sys.argv.pop()); from lorelog.code.parsing import main; main(sys.argv[1:])"
_MAX_PROCESSES = 8
_POLL_S = 0.2
_MAX_FAILURES = 20


class ParserPool:
    """Parses the files of one root. For one `with` block and one call of `parse`."""

    def __init__(
        self, root: str, *, processes: int = 0, nice: int = 5, file_timeout_s: float = _FILE_TIMEOUT_S
    ) -> None:
        self._root = root
        self._workers = [_ParserProcess(nice) for _ in range(processes or min(usable_cores(), _MAX_PROCESSES))]
        self._file_timeout_s = file_timeout_s
        self._failures = 0
        """Number of files in a row that ended a process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()

    def parse(self, requests: Sequence[ParseRequest]) -> Iterator[ParsedFile]:
        """Yield the result of each request as it is finished. Raise OSError if no process can be started."""
        from multiprocessing.connection import wait

        # Each batch keeps a process busy for a moment.
        batches = list(batches_of(requests, lambda request: request.size, _MAX_BATCH_FILES, _MAX_BATCH_BYTES))
        while True:
            for worker in self._workers:
                if not worker.requests and (batch := self._next_batch(batches)):
                    self._send(worker, batch)
            busy = [worker for worker in self._workers if worker.requests]
            if not busy:
                return
            ready = wait([worker.connection for worker in busy], _POLL_S)
            for worker in busy:
                if worker.connection in ready or time.monotonic() > worker.deadline:
                    yield self._receive(worker, is_late=worker.connection not in ready)

    def workers(self) -> list[subprocess.Popen[bytes]]:
        return [worker.process for worker in self._workers if worker.process is not None]

    def _next_batch(self, batches: list[list[ParseRequest]]) -> list[ParseRequest]:
        """Remove a batch from the list and return it; large files are parsed one at a time."""
        has_large = any(_is_large(worker.requests) for worker in self._workers)
        allowed = (index for index, batch in enumerate(batches) if not (has_large and _is_large(batch)))
        index = next(allowed, None)
        return [] if index is None else batches.pop(index)

    def _send(self, worker: _ParserProcess, requests: list[ParseRequest]) -> None:
        worker.start()
        worker.requests = requests
        worker.deadline = time.monotonic() + self._timeout(requests[0])
        with suppress(OSError):  # it has ended, which shows when its results are received
            worker.connection.send_bytes(encode((self._root, requests)))

    def _receive(self, worker: _ParserProcess, *, is_late: bool) -> ParsedFile:
        request, *worker.requests = worker.requests
        problem = f"it took longer than {self._timeout(request):g} s" if is_late else ""
        content = b""
        if not is_late:
            try:
                content = worker.connection.recv_bytes()
            except (EOFError, OSError):
                problem = "the parser crashed or ran out of memory"
        self._failures = self._failures + 1 if problem else 0
        if self._failures > _MAX_FAILURES:
            raise OSError(errno.EAGAIN, "parser processes end as soon as they start")
        if problem or (_is_large([request]) and not worker.requests):
            worker.kill()  # the memory of a large file is freed only when it ends
        if problem and worker.requests:
            self._send(worker, worker.requests)
        elif worker.requests:
            worker.deadline = time.monotonic() + self._timeout(worker.requests[0])
        if problem:
            return ParsedFile(request.path, (0, 0, 0), "", problem=f"could not be parsed: {problem}")
        return decode(content, type=ParsedFile)

    def _timeout(self, request: ParseRequest) -> float:
        return self._file_timeout_s * (1 + request.size / _LARGE_FILE_BYTES)


def _is_large(requests: Sequence[ParseRequest]) -> bool:
    return any(request.size > _LARGE_FILE_BYTES for request in requests)


class _ParserProcess:
    """A parser process that can be started again."""

    def __init__(self, nice: int) -> None:
        self._nice = nice
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: Connection[Any, Any]
        self.requests: list[ParseRequest] = []
        """The files that it has not parsed yet, first the current one."""
        self.deadline = 0.0

    def start(self) -> None:
        if self.process is not None:
            return
        from multiprocessing.connection import Pipe

        package_parent = str(Path(__file__).resolve().parents[2])  # for when the package is not installed
        self.connection, inherited = Pipe()
        with inherited:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _WORKER_CODE, str(self._nice), package_parent],
                stdin=inherited.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # ^C at the terminal goes to us only, and we end it
            )

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            self.connection.close()
