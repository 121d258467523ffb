"""Move a home of an older version to the current layout: `tenants/NAME` to `data/NAME`, its index to `cache/NAME`.

Every step is a rename within the home, and a step that was done is not repeated: a migration that is killed continues at
the next command. `tenants` goes last, so its absence is the only check of a home that is up to date. Nothing is deleted
except lock files, and derived files that exist in the new place already. A file of a process of the older version that
wrote after the migration, or of a hook of this version that wrote before it, is kept beside the one in the new place.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import StoreBusy, StoreUnwritable
from lorelog.core.paths import (
    HOME_LAYOUT,
    cache_folder,
    data_folder,
    first_layout_folder,
    is_below,
    tenant_folder,
)
from lorelog.core.processes import FileLock, acquire_file_lock, try_file_lock

RenameSources = Callable[[Path, Mapping[str, str]], None]
"""Changes the paths of documents in a catalog: file of the catalog, and new paths of folders by old path."""
_FIRST_CACHE = "index"
_WAIT_S = 10.0
_POLL_S = 0.02


def migrate_home(home: Path, rename_sources: RenameSources) -> None:
    """Move the files of a home to the current layout, if they are not there yet.

    A daemon of an older version is asked to stop first. Raise StoreBusy if it does not, and StoreUnwritable if a file
    cannot be moved; the next command continues.
    """
    old = Path(first_layout_folder(home))
    try:
        (home / "run").mkdir(mode=0o700, exist_ok=True)
        busy = StoreBusy(f"another process moves the files of {home} to the new layout", hint="try again in a moment")
        with FileLock(home / "run" / "layout.lock", busy, _WAIT_S):
            if os.path.lexists(old):
                _stop_old_daemon(home)
                _migrate(home, old, rename_sources)
    except OSError as error:
        raise StoreUnwritable(
            f"{error.filename or home} cannot be moved to the new layout: {error.strerror}",
            hint="make it writable, or move it by hand: 'tenants/NAME' is 'data/NAME' now, and its 'index' 'cache/NAME'",
        ) from error


def _migrate(home: Path, old: Path, rename_sources: RenameSources) -> None:
    for folder in sorted(old.iterdir()):
        if not folder.is_dir():
            _move_aside(folder, Path(data_folder(home)))
            continue
        target = Path(tenant_folder(home, folder.name))
        cache = Path(cache_folder(target))
        with _writers_excluded(folder):
            _merge_folder(folder / _FIRST_CACHE, cache, is_derived=True)
            rename_sources(cache / "catalog.db", {str(folder / _FIRST_CACHE): str(cache), str(folder): str(target)})
            _rename_roots(folder / "roots.json", str(folder), str(target))
            _merge_folder(folder, target)  # last: without the old folder, the steps above would not be repeated
    old.rmdir()


def _merge_folder(source: Path, target: Path, *, is_derived: bool = False) -> None:
    """Move a folder, or the entries that the target lacks. Others are kept under another name, or deleted if derived."""
    if not os.path.lexists(source):
        return
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.path.lexists(target):
        source.rename(target)
        return
    for entry in sorted(source.iterdir()):
        if entry.is_dir() and not entry.is_symlink() and (target / entry.name).is_dir() and not is_derived:
            _merge_folder(entry, target / entry.name)
        elif not os.path.lexists(target / entry.name):
            entry.rename(target / entry.name)
        elif entry.name.endswith(".lock"):
            entry.unlink()
        elif is_derived:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        else:
            _move_aside(entry, target)
    source.rmdir()


def _move_aside(entry: Path, target: Path) -> None:
    """Move a file into a folder under a name that is free there, with the same suffix."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = 1
    while os.path.lexists(free := target / f"{entry.stem}.older-{number}{entry.suffix}"):
        number += 1
    entry.rename(free)


def _rename_roots(file: Path, old: str, new: str) -> None:
    """Name the new paths in the list of roots: the journals of no project are a root."""
    try:
        content = json.loads(file.read_text("utf-8"))
        changed = [
            {**root, "path": new + root["path"][len(old) :]} for root in content["roots"] if is_below(root["path"], old)
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return  # a missing list is complete after the next index run, and a damaged one is reported by it
    if changed:
        kept = [root for root in content["roots"] if not is_below(root["path"], old)]
        text = json.dumps({"roots": [*kept, *changed]}, indent=2, ensure_ascii=False)
        write_atomic(file, text.encode() + b"\n")


@contextmanager
def _writers_excluded(folder: Path) -> Iterator[None]:
    """Wait for commands of the older version that write a tenant's index or ledger, and exclude new ones."""
    descriptors: list[int] = []
    try:
        for name in (f"{_FIRST_CACHE}/run.lock", f"{_FIRST_CACHE}/writer.lock", "ledger.lock"):
            with suppress(FileNotFoundError, NotADirectoryError):
                descriptors.append(os.open(folder / name, os.O_RDWR | os.O_CLOEXEC))
                if not acquire_file_lock(descriptors[-1], _WAIT_S):
                    raise StoreBusy(
                        f"{folder / name} is held by a process of an older version", hint="wait until that process ends"
                    )
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _stop_old_daemon(home: Path) -> None:
    """Ask a daemon of the older layout to stop, and wait for it: it would go on with the old paths."""
    deadline = time.monotonic() + _WAIT_S
    holder, asked = _lock_holder(home), False
    while holder is not None and holder.get("layout") != HOME_LAYOUT:
        pid = holder.get("pid")
        if not asked and isinstance(pid, int) and pid > 1:
            asked = True
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if time.monotonic() > deadline:
            raise StoreBusy(
                f"the daemon of an older version is still running (process {pid})", hint="lorelog daemon stop"
            )
        time.sleep(_POLL_S)
        holder = _lock_holder(home)


def _lock_holder(home: Path) -> dict[str, Any] | None:
    """Return what the running daemon wrote into its lock file; None if none is running."""
    try:
        descriptor = os.open(home / "run" / "daemon.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if try_file_lock(descriptor, shared=True):
            return None
        with suppress(ValueError):
            holder = json.loads(os.pread(descriptor, 1000, 0))
            return holder if isinstance(holder, dict) else {}
        return {}
    finally:
        os.close(descriptor)
