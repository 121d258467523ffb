"""What a host keeps for a project without being told to: Claude Code's own memory, and its CLAUDE.md and AGENTS.md files.

They are found by name, so nobody needs to configure them. A repository is someone else's work: its files are taken only
where they really lie in it, and nothing is followed out of Claude Code's projects. What the person linked from their own
`~/.claude` is theirs to choose.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from os import path
from pathlib import Path

from lorelog.core.document import GLOBAL
from lorelog.core.paths import is_below
from lorelog.services.roots import Root
from lorelog.services.scope import Project

# `os.path` rather than pathlib, as in scope: asked about a path that may not be looked at, it answers no.
# ruff: noqa: PTH112, PTH113, PTH118

ORIGIN = "claude"
"""What a root found here says of where it comes from."""
FILES = ("CLAUDE.md", "AGENTS.md", "CLAUDE.local.md", path.join(".claude", "CLAUDE.md"))
"""Below a project's top, in the order in which they are looked for."""

_SUFFIXES = (".md", ".markdown")
_ENCODINGS = (re.compile("[^a-zA-Z0-9]"), re.compile("[/.]"), re.compile("/"))
"""What is written as `-` in the name of a project's directory: today, and by two earlier versions."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: str
    project: str
    within: str = ""
    """Where it must really lie; empty where the person may have put it anywhere."""
    directory: bool = False


def find_auto_memory(project: Project, claude: Path) -> tuple[Root, ...]:
    """Return what there is for a project, and for all projects, as real paths; `claude` is Claude Code's directory."""
    roots: dict[str, Root] = {}
    for one in _candidates(project, claude):
        real = path.realpath(one.path)
        there = path.isdir(real) if one.directory else path.isfile(real) and real.lower().endswith(_SUFFIXES)
        if there and (not one.within or is_below(real, path.realpath(one.within))) and _is_text(real):
            roots.setdefault(real, Root(real, one.project, origin=ORIGIN))
    return tuple(roots.values())


def auto_memory_places(project: Project, claude: Path) -> tuple[str, ...]:
    """Return where such files may appear, whether or not there are any."""
    return tuple(one.path for one in _candidates(project, claude))


def encodings(directory: str) -> tuple[str, ...]:
    """Return the names under which Claude Code may keep what it knows of a directory, today's first."""
    return tuple(dict.fromkeys(pattern.sub(_dashes, directory) for pattern in _ENCODINGS))


def _candidates(project: Project, claude: Path) -> Iterator[_Candidate]:
    yield _Candidate(str(claude / "CLAUDE.md"), GLOBAL)
    tops = tuple(dict.fromkeys((project.id, project.root)))
    projects = str(claude / "projects")
    for top in tops:
        for name in encodings(top):
            yield _Candidate(path.join(projects, name, "memory"), project.id, projects, directory=True)
    for name in FILES:
        # A linked worktree has the same file once more; only what the main one lacks is taken from it.
        top = next((one for one in tops if path.isfile(path.join(one, name))), project.root)
        yield _Candidate(path.join(top, name), project.id, top)


def _dashes(match: re.Match[str]) -> str:
    """Return one dash for each UTF-16 unit, which is what JavaScript counts as a character."""
    return "-" * (len(match[0].encode("utf-16-le", "surrogatepass")) // 2)


def _is_text(real: str) -> bool:
    return os.fsencode(real).decode("utf-8", "replace") == real
