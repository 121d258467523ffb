"""Reads an Obsidian vault: tags, aliases and wikilinks become tags of the entry, and its text stays as it is.

`[[Target]]` becomes `link:<path of the note>` if exactly one note of the vault has that name. A link that several notes could
answer is not guessed: it is reported. Daily notes, named by their day, are archive material. Nothing in `.obsidian` or `.trash` is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lorelog.ingest.importers.notes import MarkdownNote, matter_list, read_notes, split_note, walk_files
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    clean_type,
)
from lorelog.ingest.metadata import find_day

_LINK = re.compile(r"(?<!!)\[\[([^\]|#^\n]{1,300})(?:[#^][^\]|\n]*)?(?:\|[^\]\n]*)?\]\]")
_INLINE_TAG = re.compile(r"(?<![\w#&/`])#([^\W\d_][\w/-]{0,60})")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", 16)
_VAULT_FOLDERS = ("", "Documents", "Obsidian", "Documents/Obsidian", "vaults", "notes")


class ObsidianSource:
    """An Obsidian vault."""

    name = "obsidian"
    title = "Obsidian vault"
    is_personal = True

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield vaults in the usual folders of the home, one level deep."""
        seen: set[Path] = set()
        for folder in (places.home / name for name in _VAULT_FOLDERS):
            if not folder.is_dir():
                continue
            try:
                candidates = [folder, *sorted(path for path in folder.iterdir() if not path.name.startswith("."))]
            except OSError:
                continue
            for path in candidates:
                if path not in seen and (path / ".obsidian").is_dir():
                    seen.add(path)
                    yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a folder is a vault."""
        return (path / ".obsidian").is_dir()

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the notes."""
        names = _name_notes(path)
        for note in read_notes(path):
            if isinstance(note, SkippedItem):
                yield note
            elif note.text.strip():
                yield from _read_note(note, names)
            else:
                yield SkippedItem(note.name, "it has no text")


def _name_notes(root: Path) -> dict[str, list[str]]:
    """Return the paths of notes by the names that a link may use, in lower case."""
    names: dict[str, list[str]] = {}
    for path in walk_files(root):
        if isinstance(path, Path):
            whole = path.relative_to(root).with_suffix("").as_posix() if path != root else path.stem
            for name in {whole.lower(), path.stem.lower()}:
                names.setdefault(name, []).append(whole)
    return names


def _read_note(note: MarkdownNote, names: Mapping[str, list[str]]) -> Iterator[ImportedItem]:
    is_daily = bool(find_day(note.path.stem))
    matter = matter_list(note.matter.get("tags")) + matter_list(note.matter.get("tag"))
    aliases = [f"alias:{alias}" for alias in matter_list(note.matter.get("aliases") or note.matter.get("alias"))]
    for heading, text in split_note(note):
        prose = _CODE.sub(" ", text)
        links, ambiguous = _resolve_links(prose, names)
        place = f"{note.name}, {heading}" if heading else note.name
        for target in ambiguous:
            yield SkippedItem(place, f"the link [[{target}]] could be several notes; the note is imported without it")
        title = text.lstrip().startswith("#") or heading
        yield ImportedEntry(
            text=text if title else f"**{note.path.stem}**\n\n{text}",
            kind="daily note" if is_daily else "note",
            place=place,
            type=clean_type(note.matter.get("type")) or "note",
            tags=clean_tags(*matter, *_INLINE_TAG.findall(prose), *aliases, *links),
            at=note.at,
            key=f"{note.name}#{heading}",
            archive=is_daily,
        )


def _resolve_links(text: str, names: Mapping[str, list[str]]) -> tuple[list[str], list[str]]:
    """Return the tags of links, and the links that several notes could answer."""
    tags: list[str] = []
    ambiguous: list[str] = []
    for found in dict.fromkeys(_LINK.findall(text)):
        target = found.strip().removesuffix(".md")
        paths = names.get(target.lower(), [])
        if len(paths) > 1:
            ambiguous.append(target)
        elif target:
            tags.append(f"link:{paths[0] if paths else target}")
    return tags, ambiguous


SOURCE = ObsidianSource()
