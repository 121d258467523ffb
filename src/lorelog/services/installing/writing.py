"""Replaces a file of somebody else's: whole or not at all, with its mode and owner, and a copy of what it was.

A link is followed to its target, so that a configuration that is kept in a dotfiles directory stays there; never out of the
person's home, where a link could lead anything to be overwritten.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lorelog.core.errors import ConfigError
from lorelog.core.paths import is_below

MOST_BYTES = 50_000_000
"""A configuration that is larger is none."""
_COPIES = 20
"""Kept of what was replaced, for each host."""


def read_file(path: Path) -> bytes | None:
    """Return what a file holds, or None where there is none."""
    try:
        with open(path, "rb", opener=_open_now) as file:  # pathlib knows no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(
                    f"{path} is no regular file", hint="nothing was changed; put a file there, or nothing"
                )
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="nothing was changed; make it a file that you may read, or move it away",
        ) from None
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path} is too large to be a configuration", hint="nothing was changed")
    return content


def real_target(path: Path, borders: Iterable[Path]) -> Path:
    """Return the file that a path leads to. Raise ConfigError where a link leads out of all borders."""
    target = Path(os.path.realpath(path))
    if any(is_below(str(target), os.path.realpath(border)) for border in borders):
        return target
    raise ConfigError(
        f"{path} is a link to {target}, outside your home directory",
        hint="lorelog follows no link out of it; make the change there by hand, or replace the link by a file",
    )


def replace_file(target: Path, before: bytes | None, after: bytes) -> None:
    """Put `after` where `before` is. Raise ConfigError where it cannot be, or something else is there by now."""
    aside = target.with_name(f".{target.name}.lorelog-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.unlink(missing_ok=True)  # left by a process of our number that was killed
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123  # from a descriptor, for its mode
                _take_after(descriptor, target)
                file.write(after)
                file.flush()
                os.fsync(descriptor)
            _expect(target, before)
            aside.replace(target)
            sync_folder(target.parent)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(target, error) from None


def remove_file(target: Path, before: bytes | None) -> None:
    """Take a file away, if it still is what it was."""
    if before is None:
        return
    try:
        _expect(target, before)
        target.unlink()
        sync_folder(target.parent)
    except OSError as error:
        raise _unwritable(target, error) from None


def keep_copy(folder: Path, name: str, content: bytes) -> Path:
    """Keep what a file was, for the person alone, and return where."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    copy = folder / f"{stamp}-{name}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = 0
        while copy.exists() and copy.read_bytes() != content:
            number += 1
            copy = folder / f"{stamp}-{number}-{name}"
        replace_file(copy, read_file(copy), content)
    except OSError as error:
        raise ConfigError(
            f"a copy of {name} cannot be kept in {folder}: {error.strerror or error}", hint="nothing was changed"
        ) from None
    return copy


def prune_copies(folder: Path, needed: Iterable[str]) -> None:
    """Keep only the newest copies, and those that are needed to take an installation back."""
    with suppress(OSError):
        for copy in sorted(folder.iterdir(), reverse=True)[_COPIES:]:
            if str(copy) not in set(needed):
                copy.unlink()


def sync_folder(folder: Path) -> None:
    """Have a folder's entries on disk."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_now(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe would keep us waiting


def _expect(target: Path, before: bytes | None) -> None:
    if read_file(target) != before:
        raise ConfigError(f"{target} was changed meanwhile, by somebody else", hint="run it again")


def _take_after(descriptor: int, target: Path) -> None:
    """Give a new file the mode and owner of the one it replaces; one that is new can be read by others like its folder."""
    try:
        known = target.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, 0o644 & stat.S_IMODE(target.parent.stat().st_mode) | 0o600)
        return
    if (known.st_uid, known.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.fchown(descriptor, known.st_uid, known.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(known.st_mode))


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="it is as it was; allow writing there, or make the changes that --dry-run shows by hand",
    )
