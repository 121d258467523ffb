"""Which roots an index run reaches, and under which project each is filed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from lorelog.core.document import GLOBAL
from lorelog.core.errors import UsageError
from lorelog.core.paths import is_below
from lorelog.services.auto_memory import auto_memory_places, find_auto_memory
from lorelog.services.place import Place
from lorelog.services.roots import Root
from lorelog.services.scope import find_project


@dataclass(frozen=True, slots=True)
class Named:
    """What someone named to be indexed."""

    paths: tuple[str, ...]
    """Files and directories; one that starts with `!` is left out of whichever holds it."""
    project: str | None = None
    """The project to file them under; None lets each lie where it lies."""
    patterns: tuple[str, ...] = ()
    """gitignore-style patterns to leave out, remembered with the roots."""


def given_roots(named: Named, place: Place, known: Sequence[Root]) -> tuple[Root, ...]:
    """Return the roots that were named, and the known ones inside them, which keep their own project and exclusions."""
    paths = named.paths
    excluded = tuple(real_path(path[1:]) for path in paths if path.startswith("!"))
    wanted = [real_path(path) for path in paths if not path.startswith("!")]
    if not wanted:
        raise UsageError("every path given is an exclusion", hint="name at least one path to index")
    for one in excluded:
        if not any(is_below(one, path) for path in wanted):
            raise UsageError(
                f"{one} lies in none of the given paths", hint="an exclusion is a path too: '!notes/drafts'"
            )
    before = {root.path: root for root in known}
    given = {
        path: Root(
            path,
            _project_of(path, named.project, place, before.get(path)),
            tuple(one for one in excluded if is_below(one, path)),
            named.patterns,
        )
        for path in wanted
    }
    inside = {one.path: one for one in known if any(is_below(one.path, path) for path in given)}
    return tuple((inside | given).values())


@dataclass(frozen=True, slots=True)
class Watched:
    """What a project's index follows as it changes."""

    roots: tuple[Root, ...]
    awaited: tuple[str, ...] = ()
    """Where more roots may appear."""
    ignore_files: tuple[str, ...] = ()
    """Names of files that change which others count."""


def usual_roots(place: Place, known: Sequence[Root], *, least: bool = True) -> tuple[Root, ...]:
    """Return what a bare index run reaches. Raise UsageError when that is nothing and there should be something (`least`)."""
    roots = known_roots(place, known)
    if not roots and least:
        raise UsageError(
            f"nothing to index yet in {place.project.name}",
            hint='name files or directories: lorelog index notes/ (or add a first memory: lorelog add "…")',
        )
    return roots


def known_roots(place: Place, known: Sequence[Root]) -> tuple[Root, ...]:
    """Return what this project knows: journals, configured paths, what was indexed before, what a host keeps; the global ones."""
    here = place.project.id
    roots = {root.path: root for root in known if root.project in (here, GLOBAL) and not _is_idle(root, place)}
    for path in place.configured_roots:
        roots.setdefault(path, Root(path, _project_of(path, None, place, None)))
    for journals, project in ((place.journals, here), (place.global_journals, GLOBAL)):
        if journals.is_dir():
            real = os.path.realpath(journals)
            roots.setdefault(real, Root(real, project))
    if place.claude is not None:
        chosen = [root for root in roots.values() if not root.origin]
        for root in find_auto_memory(place.project, place.claude):
            if not any(_reaches(outer, root.path) for outer in chosen):
                roots.setdefault(root.path, root)
    return tuple(roots.values())


def awaited_places(place: Place) -> tuple[str, ...]:
    """Return where roots of this project may appear that nobody will name."""
    found = () if place.claude is None else auto_memory_places(place.project, place.claude)
    return (*place.configured_roots, str(place.journals), str(place.global_journals), *found)


def real_path(path: str) -> str:
    """Return a path as the index knows it: absolute, links resolved. Raise UsageError for what can be no path."""
    if not path:
        raise UsageError("an empty path was given", hint="an unset variable? '.' is the current directory")
    try:
        path.encode()
        return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111  (pathlib raises for unknown users)
    except ValueError:
        raise UsageError(f"{path!r} cannot be a path", hint="paths are UTF-8 and have no NUL characters") from None


def _is_idle(root: Root, place: Place) -> bool:
    """Say whether a root that nobody chose is to be passed over: unwanted now, or not there, which is no mistake of anyone."""
    return bool(root.origin) and (place.claude is None or not (root.exists() or root.is_gone_file()))


def _reaches(root: Root, path: str) -> bool:
    """Say whether a root decides about a path: scans pass over hidden names, so what lies below one is not its business."""
    return root.holds(path) and "/." not in path[len(root.path) :]


def _project_of(path: str, project: str | None, place: Place, known: Root | None) -> str:
    """Return the project a root is filed under: the one asked for, else the one it had, else the one it lies in.

    Notes outside any repository and outside the current directory belong to no project, so that whoever indexed
    them finds them from wherever they work.
    """
    if project is not None:
        return project
    if known is not None:
        return known.project
    lies_in = find_project(path)
    if lies_in.git:
        return lies_in.id
    return place.project.id if is_below(path, place.project.id) else GLOBAL
