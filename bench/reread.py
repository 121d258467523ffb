"""Would it pay to tell an agent that reads a file what earlier sessions used of it? Real sessions, no model.

    python -m bench.reread TEAM_FOLDER...

For each file that a session of Claude Code reads and an earlier session had read: the ranges offered are those around the lines that earlier sessions
edited, found again in the text that is read now. Counted are the bytes of the offered ranges against those read, and the
session's later edits of the file that lie inside them. Beside it: ranges of the same length at the start of the file, and at random places.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.delivery.timeline import read_team
from bench.result import format_table

_AROUND = 10
"""Lines offered on each side of an earlier edit."""
_MAX_TOKENS = 120
_NUMBERED = re.compile(r"^\s*(\d+)[→\t](.*)$")


@dataclass
class Reread:
    """A file that was read again, and what was edited in it afterwards."""

    lines: list[str]
    offered: set[int]
    edits: list[int] = field(default_factory=list)


def rereads(folder: Path) -> Iterator[Reread]:
    """Yield the rereads of a team, in order of time."""
    edited: dict[str, list[str]] = defaultdict(list)
    """The first line of each text that an earlier session wrote, by file."""
    read_before: set[str] = set()
    for session in read_team(folder):
        open_reads: dict[str, Reread] = {}
        wrote: dict[str, list[str]] = defaultdict(list)
        for path, kind, text, new in _calls(session.lines, session.directory):
            if kind == "read" and path in read_before and path not in open_reads:
                lines = [found[2] for line in text.splitlines() if (found := _NUMBERED.match(line))]
                open_reads[path] = Reread(lines, _around(lines, edited[path]))
            elif kind == "edit":
                if path in open_reads:
                    open_reads[path].edits += _find(open_reads[path].lines, text)
                wrote[path].append(new)
        yield from (one for one in open_reads.values() if len(one.lines) > 2 * _AROUND)
        read_before |= set(open_reads) | {
            path for path, kind, *_ in _calls(session.lines, session.directory) if kind == "read"
        }
        for path, texts in wrote.items():
            edited[path] += texts


def _calls(lines: Sequence[str], directory: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield reads with their result and edits with their old and new text, by path in the project."""
    waiting: dict[str, str] = {}
    for line in lines:
        try:
            content = (json.loads(line).get("message") or {}).get("content")
        except (ValueError, AttributeError):
            continue
        for part in content if isinstance(content, list) else ():
            given = part.get("input") if isinstance(part, dict) else None
            path = str(given.get("file_path") or "").removeprefix(directory) if isinstance(given, dict) else ""
            if isinstance(given, dict) and part.get("name") == "Read" and path:
                waiting[str(part.get("id"))] = path
            elif isinstance(given, dict) and part.get("name") in ("Edit", "MultiEdit") and path:
                for edit in given.get("edits") or [given]:
                    yield path, "edit", str(edit.get("old_string") or ""), str(edit.get("new_string") or "")
            elif isinstance(part, dict) and part.get("type") == "tool_result" and part.get("tool_use_id") in waiting:
                text = part.get("content")
                text = "\n".join(str(one.get("text") or "") for one in text) if isinstance(text, list) else str(text)
                yield waiting.pop(part["tool_use_id"]), "read", text, ""


def _find(lines: Sequence[str], text: str) -> list[int]:
    """Return the place of a text's longest line."""
    longest = max((line.strip() for line in text.splitlines()), key=len, default="")
    return [number for number, line in enumerate(lines) if len(longest) > 8 and line.strip() == longest][:1]


def _around(lines: Sequence[str], texts: Sequence[str]) -> set[int]:
    """Return the lines around the newest of these texts, as many as may be named."""
    found: set[int] = set()
    for text in reversed(texts):
        for place in _find(lines, text):
            found |= set(range(max(0, place - _AROUND), min(len(lines), place + _AROUND + 1)))
    return found


def _elsewhere(one: Reread, seed: int) -> set[int]:
    """Return ranges of the same length at a random place."""
    start = random.Random(seed).randrange(len(one.lines))
    return {(start + step) % len(one.lines) for step in range(len(one.offered))}


def main() -> int:
    """Print the figures of each team."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teams", nargs="+", type=Path, metavar="TEAM_FOLDER")
    rows = []
    for folder in parser.parse_args().teams:
        found = list(rereads(folder))
        offered = [one for one in found if one.offered]
        edits = [(one, place, number) for number, one in enumerate(offered) for place in one.edits]

        def share(hits: Sequence[bool]) -> str:
            return f"{sum(hits)} of {len(hits)}" + (f", {sum(hits) / len(hits):.0%}" if hits else "")

        size = sum(len(line) + 1 for one in offered for line in one.lines)
        part = sum(len(one.lines[number]) + 1 for one in offered for number in one.offered)
        rows.append([
            folder.name.replace("+", "/"), str(len(found)), share([bool(one.offered) for one in found]), share([bool(one.edits) for one in offered]),
            f"{part / max(1, size):.0%}", share([place in one.offered for one, place, _ in edits]),
            share([place < len(one.offered) for one, place, _ in edits]), share([place in _elsewhere(one, number) for one, place, number in edits]),
        ])  # fmt: skip
    head = [
        "team",
        "read again",
        "with an earlier edit in it",
        "… and edited later",
        "bytes offered of bytes read",
        "edits inside",
        "at the start",
        "at random",
    ]
    print(format_table(head, rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
