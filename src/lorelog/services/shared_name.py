"""What a project is called on every machine: by the Git remote that its clones share.

A project's id is a directory of one machine. Where several machines keep their rows in one Milvus, that is no name: the same
path may be another project elsewhere, and the same project lies elsewhere at another path. The address of its remote is the
same for all clones; a name alone ("docs", "app") is not, so what has no remote is known to its own machine only.
"""

from __future__ import annotations

import re
from os import path

from lorelog.core.document import GLOBAL
from lorelog.services.worktree import find_worktree, git_folders, read_start

# As in `worktree`: asked about odd paths, `os.path` answers no, where pathlib raises.
# ruff: noqa: PTH118

EVERYWHERE = "global"
"""What memories of no project are filed under: they are seen from every project, and so from every machine."""

_SECTION = re.compile(r'^\s*\[\s*remote\s+"(?P<name>[^"\n]*)"\s*\]', re.IGNORECASE)
_URL = re.compile(r"^\s*url\s*=\s*\"?(?P<url>[^\"\s]+)", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://)(?:[^/@]*@)?(?P<host>[^/:@]+)(?::\d+)?/(?P<path>.+)", re.IGNORECASE)
_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[^/:@]{2,}):(?!//)(?P<path>.+)")
_LONGEST = 1000


def shared_name(project: str) -> str:
    """Return what a project is called on every machine; empty where it has no name beyond this one.

    Read anew each time it is asked: a remote may be added or moved.
    """
    if project == GLOBAL:
        return EVERYWHERE
    _, root, git = find_worktree(project)
    if not git:
        return ""
    address = _address(_remote(read_start(path.join(git_folders(root)[1], "config"))))
    if not address:
        return ""
    # A scope file may make a project of a directory inside a repository.
    inside = path.relpath(path.realpath(project), root)
    below = "" if inside == "." or inside.startswith("..") else f"//{inside}"
    name = f"git:{address}{below}"
    return name if len(name) <= _LONGEST and name.isprintable() else ""


def _remote(config: str) -> str:
    """Return the address of `origin`, or of the only remote."""
    urls: dict[str, str] = {}
    section = ""
    for line in config.splitlines():
        if line.lstrip().startswith("["):
            named = _SECTION.match(line)
            section = named["name"] if named else ""
        elif section and (found := _URL.match(line)):
            urls.setdefault(section, found["url"])
    if "origin" in urls:
        return urls["origin"]
    return next(iter(urls.values())) if len(urls) == 1 else ""


def _address(url: str) -> str:
    """Return host and path, the same however it is reached: neither user, password, port nor ending count.

    A path of this machine is no address: it says nothing to another.
    """
    if url.lower().startswith("file:"):
        return ""
    found = _ADDRESS.fullmatch(url) or (None if "://" in url else _SCP.fullmatch(url))
    if found is None:
        return ""
    place = found["path"].strip("/").removesuffix(".git").strip("/")
    return f"{found['host'].lower()}/{place}" if place else ""
