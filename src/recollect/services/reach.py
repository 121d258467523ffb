"""Which roots an index run reaches, and under which project each is filed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.core.document import GLOBAL
from recollect.core.errors import UsageError
from recollect.core.paths import is_below
from recollect.services.place import Place
from recollect.services.roots import Root
from recollect.services.scope import find_project


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


def usual_roots(place: Place, known: Sequence[Root]) -> tuple[Root, ...]:
    """Return what this project knows: its journals, the configured paths, what was indexed before, the global ones."""
    here = place.project.id
    roots = {root.path: root for root in known if root.project in (here, GLOBAL)}
    for path in place.configured_roots:
        roots.setdefault(path, Root(path, _project_of(path, None, place, None)))
    for journals, project in ((place.journals, here), (place.global_journals, GLOBAL)):
        if journals.is_dir():
            real = os.path.realpath(journals)
            roots.setdefault(real, Root(real, project))
    if not roots:
        raise UsageError(
            f"nothing to index yet in {place.project.name}",
            hint='name files or directories: recollect index notes/ (or add a first memory: recollect add "…")',
        )
    return tuple(roots.values())


def real_path(path: str) -> str:
    """Return a path as the index knows it: absolute, links resolved. Raise UsageError for what can be no path."""
    if not path:
        raise UsageError("an empty path was given", hint="an unset variable? '.' is the current directory")
    try:
        path.encode()
        return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111  (pathlib raises for unknown users)
    except ValueError:
        raise UsageError(f"{path!r} cannot be a path", hint="paths are UTF-8 and have no NUL characters") from None


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
