"""What is there to be watched: the roots of a home's tenants, each with the place from which it is indexed.

A root is indexed as from its project, with the settings that hold there; global ones as from the home. Which roots there
are is asked of the engine at each such place; whether it must be asked again is seen from the stamps of a few files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Protocol

from lorelog.core.document import GLOBAL
from lorelog.core.errors import LorelogError
from lorelog.core.memory import IndexReport
from lorelog.core.ports import Progress
from lorelog.services.follow import Changes
from lorelog.services.reach import Watched
from lorelog.services.roots import Root, Roots
from lorelog.services.scope import find_project

_MOST_VISITED = 100


class Following(Protocol):
    """What is needed of an engine."""

    def watched(self) -> Watched:
        """Return what is to be watched for the project it stands in."""
        ...

    def follow(self, changes: Changes, progress: Progress | None = None) -> IndexReport | None:
        """Bring the index up to date with what changed; None when nothing had."""
        ...


EngineAt = Callable[[str, str], AbstractContextManager[Following]]
"""Gives the engine of a tenant, standing in a directory."""


@dataclass(frozen=True, slots=True)
class Post:
    """From where roots are indexed."""

    tenant: str
    directory: str


@dataclass(frozen=True, slots=True)
class View:
    """What there is to be watched."""

    roots: dict[tuple[str, str], tuple[Post, Root]] = field(default_factory=dict)
    """By tenant and path."""
    awaited: frozenset[str] = frozenset()
    ignore_files: frozenset[str] = frozenset()
    errors: tuple[LorelogError, ...] = ()


class Survey:
    """Looks over a home. May be shared by threads."""

    def __init__(
        self,
        home: Path,
        engine_at: EngineAt,
        *,
        tenants: Iterable[str] | None = None,
        directory: str | None = None,
        only: Iterable[str] | None = None,
    ) -> None:
        """Look over all tenants or some; from all of their projects, or from one directory; at all roots, or some paths."""
        self._home = home
        self.engine_at = engine_at
        self._tenants = None if tenants is None else tuple(tenants)
        self._directory = directory
        self._only = None if only is None else frozenset(only)
        self._visited: dict[Post, None] = {}
        self._lock = Lock()

    def visit(self, tenant: str, directory: str) -> bool:
        """Have the project of a directory watched too, though nothing of it may be indexed yet; say whether it is new."""
        post = Post(tenant, find_project(directory).root)
        with self._lock:
            new = self._visited.pop(post, self) is self
            self._visited[post] = None
            while len(self._visited) > _MOST_VISITED:
                self._visited.pop(next(iter(self._visited)))
        return new

    def signs(self) -> object:
        """Return something that differs once roots were added or removed. It is asked for every few seconds."""
        with self._lock:
            visited = tuple(self._visited)
        return visited, tuple((tenant, _stamp(self._roots_file(tenant))) for tenant in self._all_tenants())

    def look(self) -> View:
        """Return what there is to be watched now. What cannot be asked is left out, and among the errors."""
        view = View()
        awaited: set[str] = set()
        ignore_files: set[str] = set()
        errors: list[LorelogError] = []
        for tenant in self._all_tenants():
            try:
                posts = self._posts(tenant)
            except LorelogError as error:
                errors.append(error)
                continue
            for post in posts:
                if not os.path.isdir(post.directory):  # noqa: PTH112
                    awaited.add(post.directory)
                    continue
                try:
                    with self.engine_at(post.tenant, post.directory) as engine:
                        watched = engine.watched()
                except LorelogError as error:
                    errors.append(error)
                    continue
                for root in watched.roots:
                    if self._only is None or root.path in self._only:
                        view.roots.setdefault((tenant, root.path), (post, root))
                awaited.update(() if self._only is not None else watched.awaited)
                ignore_files.update(watched.ignore_files)
        return View(view.roots, frozenset(awaited), frozenset(ignore_files), tuple(errors))

    def _posts(self, tenant: str) -> tuple[Post, ...]:
        if self._directory is not None:
            return (Post(tenant, self._directory),)
        projects = {root.project for root in Roots(self._roots_file(tenant)).all() if root.project != GLOBAL}
        with self._lock:
            visited = [post for post in self._visited if post.tenant == tenant]
        # The home's first: it takes the global roots, whichever project else knows them.
        posts = [Post(tenant, str(self._home)), *(Post(tenant, one) for one in sorted(projects)), *visited]
        return tuple(dict.fromkeys(posts))

    def _all_tenants(self) -> tuple[str, ...]:
        if self._tenants is not None:
            return self._tenants
        try:
            with os.scandir(self._home / "tenants") as entries:
                found = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        except OSError:
            found = set()
        with self._lock:
            found |= {post.tenant for post in self._visited}
        return tuple(sorted(found))

    def _roots_file(self, tenant: str) -> Path:
        return self._home / "tenants" / tenant / "roots.json"


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
