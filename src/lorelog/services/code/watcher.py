"""Keep the code index up to date: follow the working trees that a user has indexed as their files change.

One daemon thread receives file events, waits until they settle, and indexes just those files. If events are
unavailable, or too many files changed, it compares the stamps of the whole tree. It yields to everything else: parsing
is nice and runs in one process, pauses while a request is answered, never waits for another run, and rests in
proportion to its last run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from lorelog.code.languages.registry import may_be_code
from lorelog.core.document import FileStamp
from lorelog.core.errors import Cancelled, LorelogError, StoreBusy
from lorelog.core.options import ScanOptions, WatchOptions
from lorelog.core.paths import cache_folder, data_folder, is_below
from lorelog.services.code.index_run import REGISTRY_FILE, CodeIndexJob, CodeIndexReport, index_code, registered_trees
from lorelog.services.places.workspace import CODE_DATABASE
from lorelog.services.watch import watcher

_DISCOVERY_S = 3.0
"""Interval for checking whether working trees were registered, deleted or restored."""
_POLL_S = 60.0
"""Interval for comparing a tree when file events are unavailable."""
_PAUSE_FACTOR = 20
"""A tree rests for this many times the duration of its last update."""
_COMPARE_PAUSE_FACTOR = 100
"""The same for comparing a whole tree without events."""
_MAX_CHANGED_PATHS = 200
"""With more changed paths, the whole tree is compared."""
_RETRY_PERIODS = 20
"""Debounce periods until a retry after another run was active or an update failed; doubled with each failure."""
_MAX_RETRY_S = 600.0
_NICE = 15

TreeKey = tuple[str, str]
"""A tenant and the path of a working tree."""


class _WatchedTree(Struct):
    project: str
    parts: tuple[str, ...]
    identity: tuple[int, int] | str
    """Empty while the directory does not exist."""
    whole: bool = True
    """Whether the whole tree must be compared."""
    paths: set[str] = field(default_factory=set)
    first: float = 0.0
    last: float = 0.0
    not_before: float = 0.0
    compare_at: float = float("inf")
    failures: int = 0


class CodeWatcher(watcher.FileWatcher):
    """Follows the registered working trees of a home until it is stopped.

    `scan_at` returns the scan options of a tenant in a directory. `may_continue` may block for a moment, and returns
    False to stop. `on_run` receives the report or the error of each run, on the watcher's own thread.
    """

    def __init__(
        self,
        home: Path,
        scan_at: Callable[[str, str], ScanOptions],
        options: WatchOptions,
        *,
        may_continue: Callable[[], bool] = lambda: True,
        on_run: Callable[[CodeIndexReport | Exception], None] = lambda _: None,
    ) -> None:
        super().__init__("lorelog-code", options)
        self._home, self._tenants = home, Path(data_folder(home))
        self._scan_at = scan_at
        self._may_continue, self._on_run = may_continue, on_run
        self._trees: dict[TreeKey, _WatchedTree] = {}
        self._registry_stamps: object = None
        self._discover_at = 0.0
        self._runs = 0

    def state(self) -> dict[str, Any]:
        """Return the watcher's state as JSON values."""
        return {"roots": sorted({path for _, path in self._trees}), "runs": self._runs, "deaf": self._unavailable}

    def _step(self) -> float:
        if time.monotonic() >= self._discover_at:
            self._discover_at = time.monotonic() + _DISCOVERY_S
            self._guarded("trees", self._discover_trees)
        for key in list(self._trees):
            if not self._stopped.is_set() and self._is_due(self._trees[key]):
                self._guarded(key, partial(self._update_tree, key))
        return max(0.05, min(self._discover_at - time.monotonic(), self._quiet_s / 2))

    def _report(self, source: object, error: Exception | None) -> None:
        if error is not None:
            self._on_run(error)

    def _discover_trees(self) -> None:
        tenants = watcher.tenant_names(self._home)
        stamps = [FileStamp.of(self._tenants / tenant / REGISTRY_FILE) for tenant in tenants]
        current = {path: watcher.file_identity(path) for _, path in self._trees}
        previous = {path: tree.identity for (_, path), tree in self._trees.items()}
        if stamps == self._registry_stamps and current == previous and not self._unavailable:
            return
        self._registry_stamps = stamps
        trees: dict[TreeKey, _WatchedTree] = {}
        for tenant in tenants:
            try:
                registered = registered_trees(self._tenants / tenant).all()
            except LorelogError as error:
                self._on_run(error)
                continue
            for root in registered:
                key, now = (tenant, root.path), (root.project, root.patterns, watcher.file_identity(root.path))
                tree = trees[key] = self._trees.get(key) or _WatchedTree(*now)
                if (tree.project, tree.parts, tree.identity) != now:
                    tree.project, tree.parts, tree.identity = now
                    tree.whole = True
        self._trees = trees
        if not self._listen(sorted({path for (_, path), tree in self._trees.items() if tree.identity})):
            self._registry_stamps = None  # discover again

    def _handle_batch(self, batch: watcher.FileEventBatch) -> None:
        if batch.fault:
            self._registry_stamps = None
            for tree in self._trees.values():
                tree.whole = True
        for kind, path in batch.changes:
            for (_, root), tree in self._trees.items():
                if path == root or not is_below(path, root):
                    continue
                relative = path[len(root.rstrip("/")) + 1 :]
                *above, name = relative.split("/")
                if ".git" in above or name == ".git":
                    continue
                folders = (os.path.join(root, *above[:count]) for count in range(1, len(above) + 1))
                is_nested = any(os.path.lexists(f"{folder}/.git") for folder in folders)
                if is_nested or name in {".gitignore", ".lorelogignore"}:  # of a submodule only the whole can be listed
                    tree.whole = True
                elif may_be_code(name) or kind == watcher.DELETED or os.path.isdir(path):
                    tree.paths.add(relative)
                else:
                    continue
                tree.last = time.monotonic()
                tree.first = tree.first or tree.last

    def _is_due(self, tree: _WatchedTree) -> bool:
        now = time.monotonic()
        if not tree.identity or now < tree.not_before:
            return False
        if tree.whole or tree.paths:
            return now >= self._settled_at(tree.first, tree.last)
        return now >= tree.compare_at

    def _update_tree(self, key: TreeKey) -> None:
        tenant, root = key
        tree = self._trees[key]
        if not self._may_continue():
            return
        whole = tree.whole or not tree.paths or len(tree.paths) > _MAX_CHANGED_PATHS
        paths, tree.whole, tree.paths, tree.first = tree.paths, False, set(), 0.0
        started = time.monotonic()
        try:
            job = CodeIndexJob(
                root,
                tree.project,
                parts=tree.parts,
                scan=self._scan_at(tenant, root),
                only=() if whole else tuple(sorted(paths)),
                waits=False,
                processes=1,
                nice=_NICE,
            )
            report = index_code(Path(cache_folder(self._tenants / tenant)) / CODE_DATABASE, job, self._check_cancelled)
        except Exception as error:
            tree.whole, tree.paths = whole, paths | tree.paths
            tree.failures += not isinstance(error, StoreBusy)
            pause = watcher.retry_pause(_RETRY_PERIODS * self._quiet_s, tree.failures, _MAX_RETRY_S)
            tree.not_before = time.monotonic() + pause
            if not isinstance(error, StoreBusy | Cancelled):
                raise
            return
        took = time.monotonic() - started
        tree.failures = 0
        tree.not_before = time.monotonic() + _PAUSE_FACTOR * took
        if whole:
            interval = _POLL_S if self._unavailable else self._options.reconcile_s or float("inf")
            tree.compare_at = time.monotonic() + max(interval, _COMPARE_PAUSE_FACTOR * took)
        self._runs += 1
        self._on_run(report)

    def _check_cancelled(self, stage: str, done: int, total: int) -> None:
        if self._stopped.is_set() or not self._may_continue():
            raise Cancelled("the code watcher was stopped")
