"""Keeping the code index up to date: working trees that a person had indexed are followed as their files change.

One thread, in the daemon. It hears what changes, lets it come to rest, and has just those files looked at; where it cannot hear,
or too much changed, all stamps of the tree are compared. It yields to everybody: parsing is nice, by one process, steps aside while
somebody is being answered, never waits for another run, and rests for longer the longer a look took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from lorelog.code.languages import may_be_code
from lorelog.core.errors import Cancelled, LorelogError, StoreBusy
from lorelog.core.options import ScanOptions, WatchOptions
from lorelog.core.paths import is_below
from lorelog.services.code.indexing import CodeJob, CodeReport, index_code
from lorelog.services.code.registry import FILE, Registry
from lorelog.services.code.trees import database
from lorelog.services.watch_events import DELETED, Deaf, Ears, Heard

# A plain call for every path that is heard.
# ruff: noqa: PTH112, PTH118

_LOOK_S = 3.0
"""How often it is seen whether working trees were registered, vanished or came back."""
_POLL_S = 60.0
"""How often a tree is compared where nothing can be heard."""
_RESTLESS = 20
_REST = 20
"""After a look, so many times as long as it took nothing more is done for that tree."""
_COMPARE_REST = 100
"""The same, for comparing a whole tree without having heard anything."""
_A_FEW = 200
"""Of more paths than so many, the whole tree is compared instead."""
_AGAIN = 20
"""So many quiet times after another run was met, or something failed, it is tried again; after each failure later."""
_LONGEST_S = 600.0
_NICE = 15

Key = tuple[str, str]
"""A tenant and the path of a working tree."""


@dataclass(slots=True)
class _Tree:
    project: str
    parts: tuple[str, ...]
    identity: object = None
    """Which directory it is; None while it is not there."""
    whole: bool = True
    """Whether all of it is to be compared."""
    paths: set[str] = field(default_factory=set)
    first: float = 0.0
    last: float = 0.0
    not_before: float = 0.0
    compare_at: float = float("inf")
    failures: int = 0


class Keeper:
    """Follows the registered working trees of a home until it is stopped.

    `scan_at` gives what a tenant leaves out in a directory; `go_on` may wait for a moment and says whether to go on;
    `on_run` is told what each run did, or why it failed, on the keeper's own thread.
    """

    def __init__(
        self,
        home: Path,
        scan_at: Callable[[str, str], ScanOptions],
        options: WatchOptions,
        go_on: Callable[[], bool] = lambda: True,
        on_run: Callable[[CodeReport | Exception], None] = lambda _: None,
    ) -> None:
        self._tenants = home / "tenants"
        self._scan_at = scan_at
        self._options = options
        self._quiet_s = options.debounce_ms / 1000
        self._go_on, self._on_run = go_on, on_run
        self._heard: SimpleQueue[Heard | None] = SimpleQueue()
        self._ears = Ears(self._heard.put)
        self._trees: dict[Key, _Tree] = {}
        self._signs: object = None
        self._deaf = ""
        self._runs = 0
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="lorelog-code", daemon=True)

    def start(self) -> None:
        """Begin; every tree is compared once, shortly."""
        self._thread.start()

    def stop(self, wait_s: float = 1.0) -> bool:
        """End; return whether it has. What was done is kept."""
        self._stopped.set()
        self._heard.put(None)
        if self._thread.is_alive():
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    def state(self) -> dict[str, Any]:
        """Return what is kept up to date, fit for JSON."""
        return {"roots": sorted({path for _, path in self._trees}), "runs": self._runs, "deaf": self._deaf}

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        look_at = 0.0
        try:
            while not self._stopped.is_set():
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + _LOOK_S
                    self._guarded(self._look)
                for key in list(self._trees):
                    if not self._stopped.is_set() and self._is_due(self._trees[key]):
                        self._guarded(lambda key=key: self._keep(key))  # type: ignore[misc]
                self._hear(max(0.05, min(look_at - time.monotonic(), self._quiet_s / 2)))
        finally:
            self._ears.close()

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001  (one tree's fault must not end the keeping of the others)
            self._on_run(error)

    # -- which trees there are ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        signs = tuple(sorted(self._files()))
        there = {path: _identity(path) for _, path in self._trees}
        known = {path: tree.identity for (_, path), tree in self._trees.items()}
        if signs == self._signs and there == known and not self._deaf:
            return
        self._signs = signs
        found = {(tenant, path): what for tenant in self._tenant_names() for path, what in self._registered(tenant)}
        self._trees = {key: self._trees.get(key) or _Tree(*what) for key, what in found.items()}
        for key, (project, parts) in found.items():
            tree = self._trees[key]
            identity = _identity(key[1])
            if (tree.project, tree.parts, tree.identity) != (project, parts, identity):
                tree.project, tree.parts, tree.identity, tree.whole = project, parts, identity, True
        self._listen()

    def _registered(self, tenant: str) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
        try:
            yield from Registry(self._tenants / tenant).all().items()
        except LorelogError as error:
            self._on_run(error)

    def _tenant_names(self) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self._tenants) if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def _files(self) -> Iterator[tuple[str, int, int]]:
        for tenant in self._tenant_names():
            with suppress(OSError):
                status = (self._tenants / tenant / FILE).stat()
                yield tenant, status.st_mtime_ns, status.st_ino

    def _listen(self) -> None:
        there = sorted({path for (_, path), tree in self._trees.items() if tree.identity is not None})
        try:
            self._ears.listen(there, [])
            self._deaf = ""
        except FileNotFoundError:
            self._signs = None  # it went just now: look again
        except Deaf as error:
            self._deaf = str(error)

    # -- what changes ------------------------------------------------------------------------------------------------

    def _hear(self, wait_s: float) -> None:
        with suppress(Empty):
            heard = self._heard.get(timeout=wait_s)
            while True:
                if heard is not None:
                    self._note(heard)
                heard = self._heard.get_nowait()

    def _note(self, heard: Heard) -> None:
        if heard.fault:
            self._signs = None
            for tree in self._trees.values():
                tree.whole = True
        for kind, path in heard.changes:
            for (_, root), tree in self._trees.items():
                if path != root and is_below(path, root):
                    self._note_one(kind, path, root, tree)

    def _note_one(self, kind: int, path: str, root: str, tree: _Tree) -> None:
        inside = path[len(root.rstrip("/")) + 1 :]
        *above, name = inside.split("/")
        if ".git" in above or name == ".git":
            return
        if name in {".gitignore", ".lorelogignore"} or _is_apart(root, above):
            tree.whole = True
        elif may_be_code(name) or kind == DELETED or os.path.isdir(path):
            tree.paths.add(inside)
        else:
            return
        tree.last = time.monotonic()
        tree.first = tree.first or tree.last

    # -- following it ------------------------------------------------------------------------------------------------

    def _is_due(self, tree: _Tree) -> bool:
        now = time.monotonic()
        if tree.identity is None or now < tree.not_before:
            return False
        if tree.whole or tree.paths:
            return now >= min(tree.last + self._quiet_s, tree.first + _RESTLESS * self._quiet_s)
        return now >= tree.compare_at

    def _keep(self, key: Key) -> None:
        tenant, root = key
        tree = self._trees[key]
        if not self._go_on():
            return
        whole = tree.whole or not tree.paths or len(tree.paths) > _A_FEW
        paths, tree.whole, tree.paths, tree.first = tree.paths, False, set(), 0.0
        began = time.monotonic()
        try:
            only = () if whole else tuple(sorted(paths))
            job = CodeJob(
                *(root, tree.project, tree.parts, self._scan_at(tenant, root)),
                only=only,
                patient=False,
                processes=1,
                nice=_NICE,
            )
            report = index_code(database(self._tenants / tenant), job, self._yield)
        except Exception as error:
            tree.whole, tree.paths = whole, paths | tree.paths
            tree.failures += not isinstance(error, StoreBusy)
            tree.not_before = time.monotonic() + min(_AGAIN * self._quiet_s * 2**tree.failures, _LONGEST_S)
            if not isinstance(error, StoreBusy | Cancelled):
                raise
            return
        took = time.monotonic() - began
        tree.failures = 0
        tree.not_before = time.monotonic() + _REST * took
        if whole:
            every = _POLL_S if self._deaf else self._options.reconcile_s or float("inf")
            tree.compare_at = time.monotonic() + max(every, _COMPARE_REST * took)
        self._runs += 1
        self._on_run(report)

    def _yield(self, stage: str, done: int, total: int) -> None:
        if self._stopped.is_set() or not self._go_on():
            raise Cancelled("keeping up with code was stopped")


def _identity(path: str) -> object:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_apart(root: str, above: list[str]) -> bool:
    """Say whether a path lies in a repository inside the tree: if that is a submodule, only the whole tree can be asked."""
    folder = root
    for name in above:
        folder = os.path.join(folder, name)
        if os.path.lexists(os.path.join(folder, ".git")):
            return True
    return False
