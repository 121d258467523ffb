"""What is checked out, and what Git says about it: answers are cached, and asked for within a time limit.

HEAD and the index are read from Git's own files without a process. `git checkout` changes the files of the working tree,
then writes the index, and at last HEAD. It holds `index.lock` until the index is written.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from lorelog.light.git_location import git_folders, read_head
from lorelog.services.freshness.targets import GitUnavailable

if TYPE_CHECKING:
    from lorelog.code.git import GitHistory
    from lorelog.services.freshness.project_code import Snapshot

_MAX_LOCK_AGE_S = 600.0
"""An older lock was left behind by a process that died."""
_YOUNG_S = 20.0
"""Git moves HEAD within this time after it has written the index, also on a busy machine."""
_GIT_TIMEOUT_S = 30.0
_FILTER_ATTRIBUTES = re.compile(r"\b(?:filter|ident|working-tree-encoding)\b")
_MAX_CACHED = 512
_CACHE_S = 10.0
"""Changes that are not staged are noticed after this time."""
_MAX_SNAPSHOTS = 16
_GIT_CACHE: dict[tuple[object, ...], object] = {}
"""Answers of Git by everything they depend on, for this process. The oldest is dropped first."""
_GIT_CACHE_LOCK = Lock()

GitAnswer = TypeVar("GitAnswer")


class CheckoutState(Struct, frozen=True):
    """HEAD and the index of a working tree at one moment."""

    branch: str = ""
    commit: str = ""
    index: tuple[int, int, int] = (0, 0, 0)
    """Time of modification in nanoseconds, size and inode; zeros if there is none."""
    is_changing: bool = False
    """Git holds the lock of the index."""

    @classmethod
    def read(cls, root: str) -> CheckoutState:
        """Return the present state."""
        folders = git_folders(root)
        if not folders[0]:
            return cls()
        # The lock before the rest: it ends when the index is replaced.
        locked_s = _stamp(f"{folders[0]}/index.lock")[0] / 1e9
        is_changing = time.time() - locked_s < _MAX_LOCK_AGE_S
        return cls(*read_head(root, folders), _stamp(f"{folders[0]}/index"), is_changing)

    @property
    def key(self) -> tuple[str, int]:
        """Changes with every commit and with staging."""
        return self.commit, self.index[0]

    @property
    def is_young(self) -> bool:
        """Whether the index was written just now, so that HEAD may not be written yet."""
        return time.time() - self.index[0] / 1e9 < _YOUNG_S


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        status = Path(path).stat()
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino


class ProjectGit:
    """Answers of Git about one working tree. Each raises `GitUnavailable` if Git gives no answer, or there is no time."""

    def __init__(self, root: str, budget_s: float) -> None:
        self.root = root
        self.state = CheckoutState()
        self.budget_s = budget_s
        self._spent = 0.0
        self._started = 0.0
        self._snapshots: dict[str, Snapshot] = {}

    @cached_property
    def history(self) -> GitHistory | None:
        """The history of the project; None without Git."""
        if not git_folders(self.root)[1]:
            return None
        from lorelog.code.git import Git, GitHistory

        return GitHistory(Git(self.root), remaining_s=self.remaining_s)

    def has_time(self) -> bool:
        """Return True if the time limit is not reached."""
        return self._spent < self.budget_s

    def remaining_s(self) -> float:
        """Return the timeout of the next Git command, inside of `timed`."""
        return min(_GIT_TIMEOUT_S, max(0.0, self.budget_s - self._spent - (time.monotonic() - self._started)))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of a block."""
        self._started = time.monotonic()
        try:
            yield
        finally:
            self._spent += time.monotonic() - self._started

    def snapshot(self, commit: str) -> Snapshot:
        """Return the project at a commit; empty without history."""
        from lorelog.services.freshness.project_code import Snapshot

        if commit not in self._snapshots:
            while len(self._snapshots) >= _MAX_SNAPSHOTS:
                self._snapshots.pop(next(iter(self._snapshots)))
            self._snapshots[commit] = Snapshot(self.history, commit)
        return self._snapshots[commit]

    def is_merged(self, commit: str) -> bool:
        """Return True if a commit is part of what is checked out, or is missing here."""
        if self.history is None:
            return True
        full_id = self._answer(partial(self.history.commit, commit), "commit", commit)
        head = self.state.commit
        return not full_id or self._answer(
            partial(self.history.is_merged, full_id, head or "HEAD"), "merged", full_id, head
        )

    def renames(self, commit: str) -> Mapping[str, str]:
        """Return the current names of a commit's renamed files."""
        if self.history is None or not commit:
            return {}
        return self._answer_now(partial(self.history.renames, commit), "renames", commit)

    def renames_by_steps(self, commit: str) -> Mapping[str, str]:
        """Return the current names of a commit's renamed files, followed commit by commit."""
        if self.history is None or not commit:
            return {}
        return self._answer_now(partial(self.history.renames_by_steps, commit), "steps", commit)

    def files_with_word(self, word: str) -> Sequence[str]:
        """Return the files of the working tree that contain a word."""
        if self.history is None:
            return ()
        return self._answer_now(partial(self.history.files_with_now, word), "word", word, _time_bucket())

    def files(self) -> Sequence[str]:
        """Return the files of the working tree."""
        return () if self.history is None else self._answer_now(self.history.files_now, "files", _time_bucket())

    def sparse_files(self) -> Collection[str]:
        """Return the tracked files that are not in the working tree (sparse checkout): whether they changed is unknown."""
        if self.history is None or not Path(git_folders(self.root)[0], "info", "sparse-checkout").exists():
            return ()
        return self._answer_now(self.history.sparse_files, "left out")

    def staged(self, path: str, attributes: str) -> str:
        """Return the id of a file's content if a filter of the attributes changes it on checkout (LFS); else empty.

        Such a file cannot be compared directly.
        """
        if self.history is None or not _FILTER_ATTRIBUTES.search(attributes):
            return ""
        if not self._answer_now(partial(self.history.is_filtered, path), "filtered", path):
            return ""
        return self._answer_now(partial(self.history.content_now, path), "staged", path)

    def is_settling(self, path: str) -> bool:
        """Return True if a file may be missing only because a checkout is under way: Git writes HEAD last."""
        if self.history is None or not self.state.is_young:
            return False
        return self._answer_now(partial(self.history.is_staged_otherwise, path), "settling", path)

    def has_known(self, path: str) -> bool:
        """Return True if the checked-out commit or one of its ancestors has, or had, a file."""
        if self.history is None:
            return True
        return self._answer(partial(self.history.has_known, path), "known", path, self.state.commit)

    def defined_then(self, commit: str, path: str) -> Collection[str]:
        """Return the qualified names that a file defined at a commit."""

        def names() -> Collection[str] | None:
            symbols = self.snapshot(commit).symbols(path)
            return None if symbols is None else frozenset(symbol.qualified_name for symbol in symbols)

        return self._answer(names, "defined", commit, path)

    def _answer_now(self, query: Callable[[], GitAnswer | None], *key: object) -> GitAnswer:
        """Return an answer that depends on what is checked out."""
        return self._answer(query, *key, *self.state.key)

    def _answer(self, query: Callable[[], GitAnswer | None], *key: object) -> GitAnswer:
        """Return the answer of a query, cached by a key."""
        with _GIT_CACHE_LOCK:
            cached: GitAnswer | None = _GIT_CACHE.get((self.root, *key))  # type: ignore[assignment]
        if cached is not None:
            return cached
        if not self.has_time():
            raise GitUnavailable
        with self.timed():
            answer = query()
        if answer is None:
            raise GitUnavailable
        with _GIT_CACHE_LOCK:
            while len(_GIT_CACHE) >= _MAX_CACHED:
                _GIT_CACHE.pop(next(iter(_GIT_CACHE)))
            _GIT_CACHE[self.root, *key] = answer
        return answer


def _time_bucket() -> int:
    return int(time.monotonic() / _CACHE_S)
