"""What `init` writes into a project: a scope file, and a block in the files that tell agents how to work there.

All of it is thought out before anything is written, so that one file that cannot be changed leaves the others as they were.
A scope file is written only where it changes nothing but what was asked for: a tenant, or that a directory inside a
repository is a project of its own. In a linked worktree it must not say that: what is remembered there belongs to the
repository, and would be lost with the worktree.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from lorelog.core.errors import ConfigError, UsageError
from lorelog.core.paths import is_below
from lorelog.services.context.blocks import with_block, without_block
from lorelog.services.installing.writing import read_file, remove_file, replace_file
from lorelog.services.project_folder import found_folder
from lorelog.services.scope import find_project
from lorelog.services.scope_file import NAME, find_scope

AGENT_FILES = ("AGENTS.md", "CLAUDE.md")
"""Those that are there get the block; the first is made where none is."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file as it is, and as it is to be; None is no file."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def kind(self) -> str:
        """What becomes of it: `unchanged`, `create`, `update` or `delete`."""
        if self.before == self.after:
            return "unchanged"
        return "create" if self.before is None else "delete" if self.after is None else "update"

    def apply(self) -> None:
        """Do it, unless the file is another by now."""
        if self.before == self.after:
            return
        if self.after is None:
            remove_file(self.path, self.before)
        else:
            replace_file(self.path, self.before, self.after)


def plan(directory: str, *, tenant: str = "", agent_files: bool = True) -> list[Change]:
    """Return what is to be written into a project. Raise ConfigError where a file is not as it should be."""
    changes = [_scope(directory, tenant)]
    names = [name for name in AGENT_FILES if os.path.lexists(Path(directory, name))] or [AGENT_FILES[0]]
    for path in _targets(directory, names if agent_files else []):
        before = read_file(path)
        changes.append(Change(path, before, with_block(before, path.name)))
    return [one for one in changes if one.before is not None or one.after is not None]


def plan_removal(directory: str) -> list[Change]:
    """Return how the block is taken out of a project's files again."""
    changes = []
    for path in _targets(directory, AGENT_FILES):
        before = read_file(path)
        if before is not None:
            changes.append(Change(path, before, without_block(before, path.name)))
    return changes


def carry_out(directory: str, changes: list[Change]) -> None:
    """Write what was planned."""
    project = find_project(directory)
    for change in changes:
        if change.path.name == Path(NAME).name and change.kind != "unchanged":
            found_folder(directory, git=project.git)
        change.apply()


def _scope(directory: str, tenant: str) -> Change:
    file = Path(directory, NAME)
    if os.path.realpath(os.path.expanduser("~")) == directory:  # noqa: PTH111
        raise UsageError("your home directory is no project", hint="go to the project, or name it: --project-dir")
    if not is_below(os.path.realpath(file), directory):
        raise ConfigError(f"{file} leads out of the project", hint="make it a file of the project")
    if os.path.lexists(file):
        known = find_scope(directory)  # raises where it cannot be understood
        before = read_file(file)
        if tenant and known is not None and known.tenant != tenant:
            named = f"names the tenant {known.tenant!r}" if known.tenant else "names no tenant"
            raise ConfigError(f"{file} {named}", hint="change it by hand; memories stay with the tenant they have")
        return Change(file, before, before)
    project = find_project(directory)
    entry = {"tenant": tenant} if tenant else {}
    if directory == project.id or directory != project.root:
        entry["project"] = "."
    return Change(file, None, (json.dumps(entry) + "\n").encode() if entry else None)


def _targets(directory: str, names: tuple[str, ...] | list[str]) -> list[Path]:
    """Return the files that names lead to, each once: one is often a link to the other. None may lie elsewhere."""
    found: dict[Path, None] = {}
    for name in names:
        target = Path(os.path.realpath(Path(directory, name)))
        if not is_below(str(target), directory):
            raise ConfigError(
                f"{Path(directory, name)} is a link to {target}, outside the project",
                hint="lorelog follows no link out of a project; --no-agent-files leaves these files alone",
            )
        found[target] = None
    return list(found)
