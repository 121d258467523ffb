"""Choose the roots that an index run covers and the project of each, and update the list of roots.

Agent memory files (Claude Code's own memory, CLAUDE.md, AGENTS.md) are discovered by name, without configuration, and so are memsearch's
journals when an index run names no paths. A
repository is not trusted: its files count only if they are really inside it, and no link out of Claude Code's projects is
followed. Links in the user's own `~/.claude` are the user's choice. A folder of journals that leads out of its project is not a
root.

Roots are registered before a run: documents that an interrupted run leaves in the index must belong to a known root, or they
could be neither refreshed nor removed. After the run, unusable roots are removed again, and a failed run changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import LorelogError, NotFound, UsageError
from lorelog.core.options import MARKDOWN_SUFFIXES
from lorelog.core.paths import is_below, leads_out
from lorelog.core.ports import Store
from lorelog.ingest.files import is_unicode
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import MEMSEARCH_FOLDER, Project, Workspace, find_project

# `os.path` instead of pathlib: for a path that is not accessible it returns False, where pathlib raises.

AUTO_MEMORY_ORIGIN = "claude"
"""Origin of discovered roots."""
AUTO_MEMORY_FILES = ("CLAUDE.md", "AGENTS.md", "CLAUDE.local.md", os.path.join(".claude", "CLAUDE.md"))
"""Below a project's top directory, in search order."""

_ENCODED = "[^a-zA-Z0-9]"
"""Characters that Claude Code replaces by `-` in directory names; two earlier versions replaced fewer."""


class _AutoMemoryCandidate(Struct, frozen=True):
    path: str
    project: str
    within: str = ""
    """Directory that must really contain it; empty if it may be anywhere."""
    directory: bool = False


def find_auto_memory(project: Project, claude: Path) -> tuple[Root, ...]:
    """Return the existing agent memory files of a project and of all projects, as roots with real paths."""
    roots: dict[str, Root] = {}
    for candidate in _auto_memory_candidates(project, claude):
        real = os.path.realpath(candidate.path)
        is_file = os.path.isfile(real) and real.lower().endswith(MARKDOWN_SUFFIXES)
        is_inside = not candidate.within or not leads_out(real, candidate.within)
        if (os.path.isdir(real) if candidate.directory else is_file) and is_inside and is_unicode(real):
            roots.setdefault(real, Root(real, candidate.project, origin=AUTO_MEMORY_ORIGIN))
    return tuple(roots.values())


def list_auto_memory_paths(project: Project, claude: Path) -> tuple[str, ...]:
    """Return the paths at which agent memory files may appear."""
    return tuple(candidate.path for candidate in _auto_memory_candidates(project, claude))


def encode_directory(directory: str) -> tuple[str, ...]:
    """Return the names that Claude Code may use for a directory's own folder, the current encoding first."""

    def dashes(match: re.Match[str]) -> str:  # one for each UTF-16 unit, as JavaScript counts characters
        return "-" * (len(match[0].encode("utf-16-le", "surrogatepass")) // 2)

    earliest = directory.replace("/", "-")
    return tuple(dict.fromkeys((re.sub(_ENCODED, dashes, directory), earliest.replace(".", "-"), earliest)))


def _auto_memory_candidates(project: Project, claude: Path) -> Iterator[_AutoMemoryCandidate]:
    yield _AutoMemoryCandidate(str(claude / "CLAUDE.md"), GLOBAL_PROJECT)
    tops = tuple(dict.fromkeys((project.id, project.root)))
    projects = str(claude / "projects")
    for top in tops:
        for name in encode_directory(top):
            yield _AutoMemoryCandidate(os.path.join(projects, name, "memory"), project.id, projects, directory=True)
    for name in AUTO_MEMORY_FILES:
        # A linked worktree has a copy of the same file: use it only if the main one has none.
        top = next((directory for directory in tops if os.path.isfile(os.path.join(directory, name))), project.root)
        yield _AutoMemoryCandidate(os.path.join(top, name), project.id, top)


class IndexTargets(Struct, frozen=True):
    """The paths that a user named to be indexed."""

    paths: tuple[str, ...]
    """Files and directories; one that starts with `!` is excluded from the root that contains it."""
    project: str | None = None
    """Project to file them under; None chooses by location."""
    patterns: tuple[str, ...] = ()
    """gitignore-style patterns to exclude, remembered with the roots."""
    keep_empty: bool = False
    """Remember directories without Markdown files, too: somebody watches them."""


def select_named_roots(named: IndexTargets, workspace: Workspace, registered: Sequence[Root]) -> tuple[Root, ...]:
    """Return the named roots and the registered roots inside them, which keep their own project and exclusions."""
    paths = named.paths
    excluded = tuple(real_path(path[1:]) for path in paths if path.startswith("!"))
    included = [real_path(path) for path in paths if not path.startswith("!")]
    if not included:
        raise UsageError("every path is an exclusion", hint="name at least one path to index")
    for path in excluded:
        if not any(is_below(path, outer) for outer in included):
            raise UsageError(
                f"{path} is not inside any of the paths to index", hint="an exclusion is a path: '!notes/drafts'"
            )
    registered_by_path = {root.path: root for root in registered}
    selected = {
        path: Root(
            path,
            _choose_project(path, named.project, workspace, registered_by_path.get(path)),
            tuple(exclusion for exclusion in excluded if is_below(exclusion, path)),
            named.patterns,
        )
        for path in included
    }
    inside = {root.path: root for root in registered if any(is_below(root.path, path) for path in selected)}
    return tuple((inside | selected).values())


class WatchScope(Struct, frozen=True):
    roots: tuple[Root, ...]
    awaited: tuple[str, ...] = ()
    """Paths at which more roots may appear."""
    ignore_files: tuple[str, ...] = ()
    """Names of files whose rules change which other files are indexed."""


def find_journal_roots(workspace: Workspace) -> tuple[Root, ...]:
    """Return the folders of journals and the team's rules, as roots with real paths. One that leads out of its project is left out."""
    return tuple(
        Root(os.path.realpath(path), project)
        for path, within, project in _journal_folders(workspace)
        if not leads_out(path, within)
    )


def find_outside_links(workspace: Workspace) -> dict[str, str]:
    """Return the folders of journals that lead out of their project, and where: a repository must not choose what is read."""
    found = {path: leads_out(path, within) for path, within, _ in _journal_folders(workspace)}
    return {path: real for path, real in found.items() if real and os.path.lexists(real)}


def _journal_folders(workspace: Workspace) -> Iterator[tuple[str, str, str]]:
    """Yield each folder of journals: its path, the directory that must contain it, and its project."""
    yield str(workspace.journals), workspace.project.id, workspace.project.id
    yield str(workspace.team_rules), workspace.project.id, workspace.project.id
    yield str(workspace.global_journals), str(workspace.home), GLOBAL_PROJECT


def select_default_roots(
    workspace: Workspace, registered: Sequence[Root], *, required: bool = True
) -> tuple[Root, ...]:
    """Return the roots of an index run without arguments. Raise UsageError if there are none and `required` is set."""
    roots = select_project_roots(workspace, registered)
    journals = os.path.realpath(os.path.join(workspace.project.id, MEMSEARCH_FOLDER))
    # When the user asks, not by itself: a repository may bring such a folder. What Git tracks of it is shown as a quotation.
    is_inside = os.path.isdir(journals) and not leads_out(journals, workspace.project.id)
    if workspace.claude is not None and is_inside and not _is_covered(journals, roots):
        roots = (*roots, Root(journals, workspace.project.id, origin=AUTO_MEMORY_ORIGIN))
    if not roots and required:
        for path in find_outside_links(workspace):
            raise UsageError(
                f"nothing to index in {workspace.project.name}: {path} is a link that leads out of the project",
                hint="replace it with a directory, or name the files to index",
            )
        hint = 'name files or directories: lorelog index notes/ (or add a first memory: lorelog add "…")'
        raise UsageError(f"nothing to index yet in {workspace.project.name}", hint=hint)
    return roots


def select_project_roots(workspace: Workspace, registered: Sequence[Root]) -> tuple[Root, ...]:
    """Return the project's roots and the global ones: registered, configured, journals, and agent memory files."""
    roots = {
        root.path: root
        for root in registered
        if root.project in (workspace.project.id, GLOBAL_PROJECT)
        # A discovered root is skipped if discovery is off, or the file does not exist.
        and (not root.origin or (workspace.claude is not None and (root.exists() or root.is_gone_file())))
    }
    for path in workspace.configured_roots:
        roots.setdefault(path, Root(path, _choose_project(path, None, workspace, None)))
    for root in find_journal_roots(workspace):
        if os.path.exists(root.path):
            roots.setdefault(root.path, root)
    if workspace.claude is not None:
        chosen = [root for root in roots.values() if not root.origin]
        for root in find_auto_memory(workspace.project, workspace.claude):
            if not _is_covered(root.path, chosen):
                roots.setdefault(root.path, root)
    return tuple(roots.values())


def _is_covered(path: str, roots: Sequence[Root]) -> bool:
    """Return True if a root contains a path, and no name below the root is hidden: scans skip those."""
    return any(outer.holds(path) and "/." not in path[len(outer.path) :] for outer in roots)


def list_awaited_paths(workspace: Workspace) -> tuple[str, ...]:
    """Return the paths at which further roots of this project may appear."""
    discovered = () if workspace.claude is None else list_auto_memory_paths(workspace.project, workspace.claude)
    journals = (path for path, _, _ in _journal_folders(workspace))
    return (*workspace.configured_roots, *journals, *discovered)


def real_path(path: str) -> str:
    """Return a path as the index stores it: absolute, links resolved. Raise UsageError if it cannot be a path."""
    if not path:
        raise UsageError("the path is empty", hint="check for an unset variable; '.' is the current directory")
    try:
        path.encode()
        return os.path.realpath(os.path.expanduser(path))
    except ValueError:
        raise UsageError(f"{path!r} cannot be a path", hint="a path is UTF-8 without NUL characters") from None


def _choose_project(path: str, project: str | None, workspace: Workspace, registered: Root | None) -> str:
    """Return the project of a root: the one requested, else the registered one, else the one it is located in.

    Notes outside any repository and outside the current directory are global, so that they are found from everywhere.
    """
    if project is not None:
        return project
    if registered is not None:
        return registered.project
    enclosing = find_project(path)
    if enclosing.git:
        return enclosing.id
    return workspace.project.id if is_below(path, workspace.project.id) else GLOBAL_PROJECT


class RunRootRegistry:
    """The roots of one index run, and the tenant's list of roots that it updates."""

    def __init__(self, roots: Sequence[Root], registry: Roots, store: Store) -> None:
        self._roots = roots
        self._registry = registry
        self._store = store
        self._known = registry.all()
        excluded = [path for root in roots for path in root.exclude]
        self._left_out = {root.path for root in roots if any(is_below(root.path, path) for path in excluded)}
        self._registered_early: set[str] = set()

    @contextmanager
    def registered(self) -> Iterator[None]:
        """Register existing roots while a run lasts, and restore the previous list if it fails."""
        existing = [root for root in self._roots if root.exists() and root.path not in self._left_out]
        self._registry.remember(existing)
        self._registered_early = {root.path for root in existing}
        try:
            yield
        except BaseException:
            with suppress(LorelogError):  # the first error is the one to report
                self._revert(self._registered_early)
            raise

    def finish(self, bad: AbstractSet[str], *, named: bool) -> set[str]:
        """Update the list to the run's result; return the roots that another process removed meanwhile."""
        removed = self._registered_early - {root.path for root in self._registry.all()}
        unusable = self._registered_early | self._left_out | bad
        self._registry.remember(root for root in self._roots if root.exists() and root.path not in unusable)
        gone = set() if named else {root.path for root in self._known if root.is_gone_file()}
        self._registry.forget(self._left_out | gone)
        self._revert(self._registered_early & bad)
        return removed

    def format_replaced_exclusions(self) -> list[str]:
        """Return a note for each root that was named again with different exclusions."""
        before = {root.path: root for root in self._known}
        return [
            f"exclusions of {root.path} replaced (before: {', '.join((*old.exclude, *old.patterns)) or 'none'})"
            for root in self._roots
            if (old := before.get(root.path)) and (old.exclude, old.patterns) != (root.exclude, root.patterns)
        ]

    def _revert(self, paths: set[str]) -> None:
        """Restore the previous entries of roots; a root that was not registered stays only if it has documents."""
        listed = {root.path for root in self._registry.all()}
        self._registry.remember(root for root in self._known if root.path in paths & listed)
        indexed = {document.root for document in self._store.documents()}
        self._registry.forget(paths - indexed - {root.path for root in self._known})


def forget_roots(paths: Sequence[str], roots: Roots, store: Store, is_page: Callable[[str], bool]) -> int:
    """Remove the roots at and inside `paths` with their documents; return the number of documents.

    Raise NotFound if a path contains no root, before anything is removed. Record pages are not user roots: they stay as long as
    their records do.
    """
    indexed = {document.root for document in store.documents()}
    known = {root.path for root in roots.all()} | {root for root in indexed if not is_page(root)}
    selected: set[str] = set()
    for path in map(real_path, paths):
        inside = {root for root in known if is_below(root, path)}
        if not inside:
            raise NotFound(f"{path} is not an indexed path", hint="'lorelog index --list' lists the indexed paths")
        selected |= inside
    return drop_roots(selected, roots, store)


def drop_roots(paths: set[str], roots: Roots, store: Store) -> int:
    """Remove roots and their documents; return the number of documents.

    The list is changed first, so that a concurrent watcher sees that the root is gone.
    """
    with store.writer() as writer:
        roots.forget(paths)
        dropped = writer.remove([document.source for document in store.documents() if document.root in paths])
        writer.sweep()
    return dropped
