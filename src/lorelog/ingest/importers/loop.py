"""Reads Loop: the Markdown of its memory paths and of its channels, and the memory part of its settings (JSON with comments).

Loop indexes Markdown where it is; so can lorelog (`lorelog index`). Importing copies it, for a machine that leaves Loop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorelog.ingest.importers.notes import MAX_NOTE_BYTES, MarkdownNote, read_notes, split_note
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    ImportedSetting,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    list_of,
    object_of,
    text_of,
)
from lorelog.ingest.metadata import day_from_filename

_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[\]}])', 16)
"""Strings, which stay as they are, and comments and trailing commas, which do not."""
_CONFIG = "config.json"


class LoopSource:
    """Loop's folder in the home, or in a project."""

    name = "loop"
    title = "Loop"
    is_personal = False

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield the folders of the project and of the home."""
        yield from (base / ".loop" for base in (places.project, places.home) if (base / ".loop").is_dir())

    def accepts(self, path: Path) -> bool:
        """Return whether a path is Loop's folder, its settings, or a project with one."""
        return (
            path.name == ".loop" or (path / ".loop").is_dir() or (path.name == _CONFIG and path.parent.name == ".loop")
        )

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield notes and settings."""
        folder = path.parent if path.name == _CONFIG else path if path.name == ".loop" else path / ".loop"
        base = folder.parent
        memory, problem = _read_config(folder / _CONFIG)
        if problem:
            yield problem
        paths = [text for item in list_of(memory.get("paths")) if (text := text_of(item))]
        yield from _read_settings(memory, paths)
        excluded = [_resolve(base, text[1:]) for text in paths if text.startswith("!")]
        wanted = [_resolve(base, text) for text in paths if not text.startswith("!")] or [base / "memory"]
        for place in wanted:
            if not place.resolve().is_relative_to(base.resolve()):
                yield SkippedItem(str(place), f"it is outside of {base}: 'lorelog index' reads it where it is")
                continue
            yield from _read_folder(place, excluded, project="" if base == Path.home() else str(base))
        for channel in sorted(folder.glob("*/work/memory")):
            yield from _read_folder(channel, excluded, tag=f"channel:{channel.parent.parent.name}")


def _resolve(base: Path, text: str) -> Path:
    return base / Path(text).expanduser()


def _read_config(path: Path) -> tuple[dict[str, Any], SkippedItem | None]:
    """Return the memory part of a settings file, and what is wrong with the file."""
    if not path.is_file():
        return {}, None
    try:
        text = path.read_bytes()[:MAX_NOTE_BYTES].decode("utf-8-sig")
        plain = _TOKENS.sub(lambda match: match[0] if match[0].startswith('"') else "", text)
        values = object_of(json.loads(plain))
    except (OSError, ValueError, RecursionError) as error:
        return {}, SkippedItem(path.name, f"its settings cannot be read: {error}")
    memory = dict(object_of(values.get("memory")))
    memory.setdefault("embeddings", values.get("embeddings"))  # older files have it at the top
    return memory, None


def _read_settings(memory: dict[str, Any], paths: list[str]) -> Iterator[ImportedSetting]:
    embeddings = object_of(memory.get("embeddings"))
    relative = [text for text in paths if not text.startswith(("/", "~"))]
    pairs = (
        ("index.paths", ",".join(relative), "memory.paths"),
        ("chunking.max_chunk_size", memory.get("max_chunk_chars"), "memory.max_chunk_chars"),
        ("embedding.provider", embeddings.get("provider"), "memory.embeddings.provider"),
        ("embedding.model", embeddings.get("model"), "memory.embeddings.model"),
        ("embedding.base_url", embeddings.get("ollama_url"), "memory.embeddings.ollama_url"),
    )
    for key, value, place in pairs:
        if value:
            yield ImportedSetting(key, str(value), f"{_CONFIG}, {place}")


def _read_folder(folder: Path, excluded: list[Path], *, project: str = "", tag: str = "") -> Iterator[ImportedItem]:
    for note in read_notes(folder) if folder.exists() else ():
        if isinstance(note, SkippedItem):
            yield note
        elif not any(note.path.is_relative_to(other) for other in excluded):
            yield from _read_note(note, project, tag)


def _read_note(note: MarkdownNote, project: str, tag: str) -> Iterator[ImportedItem]:
    is_daily = bool(day_from_filename(str(note.path)))
    for heading, text in split_note(note):
        if text.strip():
            yield ImportedEntry(
                text=text,
                kind="daily note" if is_daily else "note",
                place=f"{note.name}, {heading}" if heading else note.name,
                type="note",
                tags=clean_tags(tag),
                at=note.at,
                project=project,
                is_users=not project and not tag,
                key=f"{tag}{note.name}#{heading}",
                archive=is_daily,
            )


SOURCE = LoopSource()
