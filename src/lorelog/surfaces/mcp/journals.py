"""A project's journals as resources: one a day, newest first.

They are read through operations, not from disk: what is out of scope or was deleted stays out here too, and it does not
matter in which process the index lives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorelog.core.errors import NotFound
from lorelog.operations.dispatch import Caller
from lorelog.services.place import JOURNALS
from lorelog.surfaces.mcp.calls import Ask
from lorelog.wiring import standpoint

PREFIX = "lorelog://journal/"
TEMPLATE = PREFIX + "{day}"
_MOST_JOURNALS = 100
_MOST_ENTRIES = 200
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def list_journals(caller: Caller, ask: Ask) -> list[Mapping[str, Any]]:
    """Return the documents that are journals, each with its `day`, newest first."""
    asked = {"documents": True, "source": str(_directory(caller)), "limit": _MOST_JOURNALS}
    found = ask("memory.list", asked)["documents"]
    days = [{**one, "day": Path(one["source"]).stem} for one in found]
    return sorted((one for one in days if _DAY.fullmatch(one["day"])), key=lambda one: one["day"], reverse=True)


def read_journal(uri: str, caller: Caller, ask: Ask) -> str:
    """Return a day's journal as Markdown. Raise NotFound."""
    day = uri.removeprefix(PREFIX)
    if not uri.startswith(PREFIX) or not _DAY.fullmatch(day):
        raise NotFound(f"there is no resource {uri[:200]}", hint=f"journals are {TEMPLATE}, as in {PREFIX}2026-03-05")
    source = str(_directory(caller) / f"{day}.md")
    entries = ask("memory.list", {"source": source, "limit": _MOST_ENTRIES})["memories"]
    entries = sorted((one for one in entries if one["source"] == source), key=lambda one: one["start_line"])
    if not entries:
        raise NotFound(f"there is no journal of {day}", hint="resources/list names those there are")
    return f"# {day}\n\n" + "\n\n".join(_sections(entries, ask)) + "\n"


def _sections(entries: list[dict[str, Any]], ask: Ask) -> list[str]:
    """Return each entry in full, up to where the next one begins: a section also holds those below it."""
    following = [one["start_line"] for one in entries[1:]]
    texts = []
    for entry, end in zip(entries, [*following, None], strict=True):
        section = ask("memory.expand", {"id": entry["id"]})
        lines = section["content"].splitlines()
        if end is not None:
            lines = lines[: max(0, end - section["start_line"])]
        texts.append("\n".join(lines).strip())
    return texts


def _directory(caller: Caller) -> Path:
    here = standpoint(home=caller.home, directory=caller.directory, environment=caller.environment)
    return Path(here.project.id) / JOURNALS
