"""Files are replaced atomically and logs appended to: readers see the old content or the new one, also after a crash.

The content goes to a hidden file beside the target, is flushed, and is renamed over it; then the folder is flushed. A link at the
target is replaced, never followed: a caller that wants to write through a link passes its real path. OSError is for the caller,
who knows the thing that the file is; `Writing` makes it an error with a hint. A log is a file of lines: a line counts when it is complete. Hooks import this module, so it imports nothing that Python has not loaded by itself.
"""

from __future__ import annotations

import os
import stat

from lorelog.core.errors import StoreUnwritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedWriter
    from typing import IO


PRIVATE_MODE = 0o600
TEMPORARY_SUFFIX = ".tmp"
_MAX_NAME_BYTES = 200


class Writing:
    """A block that writes to a path: an OSError in it becomes StoreUnwritable, which says what could not be done.

    With `names_file` the message names the error's own file.
    """

    def __init__(
        self, path: str | os.PathLike[str], what: str = "written", *, hint: str = "", names_file: bool = False
    ) -> None:
        self._path, self._what, self._hint, self._names_file = path, what, hint, names_file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            name = (self._names_file and error.filename) or self._path
            raise StoreUnwritable(
                f"{name} cannot be {self._what}: {error.strerror or error}", hint=self._hint
            ) from error


class OpenDescriptor:
    """The descriptor of an open file, which is closed at the end of the block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class AtomicFile:
    """A file that is replaced when the block ends, and left as it is if the block raises.

    `mode` is the mode of the new file. With `keep_mode` it gets mode and owner of the file that it replaces, if there is one.
    With `exclusive`, raise FileExistsError if the target exists at the end. Without `durable` nothing is flushed to disk: for
    derived files that are written often and rebuilt if they are damaged. `folder` is the descriptor of the folder that `path`
    is a name in.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: int = PRIVATE_MODE,
        keep_mode: bool = False,
        exclusive: bool = False,
        durable: bool = True,
        folder: int | None = None,
    ) -> None:
        self._parent, separator, name = os.fspath(path).rpartition(os.sep)
        self._target = os.fspath(path)
        name = name if len(os.fsencode(name)) <= _MAX_NAME_BYTES else "lorelog"
        self._temporary = f"{self._parent}{separator}.{name}.{os.urandom(6).hex()}{TEMPORARY_SUFFIX}"
        self._parent = self._parent or (separator or ".")
        self._mode = mode
        self._keep_mode = keep_mode
        self._exclusive = exclusive
        self._durable = durable
        self._folder = folder

    def __enter__(self) -> BufferedWriter:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self._file = open(os.open(self._temporary, flags, self._mode, dir_fd=self._folder), "wb")
        try:
            if self._keep_mode:
                self._copy_mode_and_owner()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            with self._file as file:
                if kind is None:
                    file.flush()
                    if self._durable:
                        os.fsync(file.fileno())
            if kind is None:
                move = os.link if self._exclusive else os.replace
                move(self._temporary, self._target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            kind = BaseException
            raise
        finally:
            if kind is not None or self._exclusive:
                self._remove()
        if self._durable and kind is None:
            sync_folder(self._parent, self._folder)

    def _remove(self) -> None:
        try:
            os.unlink(self._temporary, dir_fd=self._folder)
        except OSError:
            return

    def _copy_mode_and_owner(self) -> None:
        try:
            status = os.stat(self._target, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISREG(status.st_mode):
            try:
                if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(self._file.fileno(), status.st_uid, status.st_gid)
            except OSError:
                pass  # only root may give a file away
            os.fchmod(self._file.fileno(), stat.S_IMODE(status.st_mode))


def write_atomic(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    mode: int = PRIVATE_MODE,
    keep_mode: bool = False,
    exclusive: bool = False,
    durable: bool = True,
) -> None:
    """Replace a file by `data`; the options are those of AtomicFile."""
    with AtomicFile(path, mode=mode, keep_mode=keep_mode, exclusive=exclusive, durable=durable) as file:
        file.write(data)


def write_all(descriptor: int, data: bytes, *, durable: bool = True) -> None:
    """Write all bytes to an open file and flush it to disk."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
    if durable:
        os.fsync(descriptor)


def open_to_append(path: str | os.PathLike[str], mode: int = PRIVATE_MODE) -> int:
    """Open or create a regular file for appending; see `open_regular`."""
    return open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = PRIVATE_MODE) -> int:
    """Open a regular file. A link is not followed, and a pipe not waited for: they raise OSError, like other things."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is not a regular file", os.fspath(path))


def append_lines(descriptor: int, data: bytes, *, is_exclusive: bool = False, durable: bool = True) -> None:
    """Append complete lines. A torn one before them, which a killed process left, is ended first.

    With `is_exclusive` the caller holds the file's lock: then a torn line is cut off, and a failed write is undone.
    """
    size = os.fstat(descriptor).st_size
    if size and _byte_at(descriptor, size - 1) != b"\n":
        if is_exclusive:
            while size and _byte_at(descriptor, size - 1) != b"\n":
                size -= 1
            os.ftruncate(descriptor, size)
        else:
            data = b"\n" + data
    try:
        write_all(descriptor, data, durable=durable)
    except OSError:
        if is_exclusive:
            os.ftruncate(descriptor, size)
        raise


def _byte_at(descriptor: int, position: int) -> bytes:
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.read(descriptor, 1)


def append_line(path: str | os.PathLike[str], line: bytes, *, durable: bool = False) -> None:
    """Append one line to a log that several processes write without a lock."""
    with OpenDescriptor(open_to_append(path)) as descriptor:
        append_lines(descriptor, line + b"\n", durable=durable)


def read_bounded_lines(stream: IO[bytes], max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield lines that are not blank, numbered; an overlong one is cut just above the limit, so that the caller rejects it."""
    number = 0
    while line := stream.readline(max_bytes + 1):
        number += 1
        if line.strip():
            yield number, line
        while not line.endswith(b"\n") and (line := stream.readline(max_bytes + 1)):
            pass


def sync_folder(path: str | os.PathLike[str], folder: int | None = None) -> None:
    """Flush a folder's entries to disk, so that new names are as durable as the files.

    A folder that its user may not read, or whose file system cannot flush folders, is left as it is.
    """
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC
        with OpenDescriptor(os.open(path if folder is None else ".", flags, dir_fd=folder)) as descriptor:
            os.fsync(descriptor)
    except OSError as error:
        import errno

        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EACCES}:
            raise
