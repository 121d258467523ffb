"""Folders of Markdown notes as sources: Obsidian vaults, basic-memory, and instruction files of agents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from lorelog.ingest.importers import notes as note_files
from lorelog.ingest.importers.source import (
    ImportedItem,
    ImportSource,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    clean_type,
    text_of,
)
from lorelog.ingest.metadata import find_day

_LINK = re.compile(r"(?<!!)\[\[([^\]|#^\n]{1,300})(?:[#^][^\]|\n]*)?(?:\|[^\]\n]*)?\]\]")
_INLINE_TAG = re.compile(r"(?<![\w#&/`])#([^\W\d_][\w/-]{0,60})")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", 16)
_VAULTS = ("[!.]*", "Documents/[!.]*", "Obsidian/[!.]*", "Documents/Obsidian/[!.]*", "vaults/[!.]*", "notes/[!.]*")


class ObsidianSource(ImportSource):
    """An Obsidian vault: tags, aliases and wikilinks become tags of the entry, and its text stays as it is.

    `[[Target]]` becomes `link:<path of the note>` if exactly one note of the vault has that name. A link that several notes could
    answer is not guessed: it is reported. Daily notes, named by their day, are archive material. Nothing in `.obsidian` or `.trash` is read.
    """

    name = "obsidian"
    title = "Obsidian vault"
    in_home = _VAULTS

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield vaults in the usual folders of the home, one level deep."""
        yield from filter(self.accepts, (places.home,))
        yield from super().find(places)

    def accepts(self, path: Path) -> bool:
        return (path / ".obsidian").is_dir()

    def read(self, path: Path) -> Iterator[ImportedItem]:
        names: dict[str, list[str]] = {}
        for file in note_files.walk_files(path):
            if isinstance(file, Path):
                whole = file.relative_to(path).with_suffix("").as_posix() if file != path else file.stem
                for name in {whole.lower(), file.stem.lower()}:
                    names.setdefault(name, []).append(whole)
        yield from note_files.read_entries(note_files.read_notes(path), lambda note: _read_obsidian_note(note, names))


def _read_obsidian_note(note: note_files.MarkdownNote, names: Mapping[str, list[str]]) -> Iterator[ImportedItem]:
    is_daily = bool(find_day(note.path.stem))
    matter = note_files.matter_list(note.matter.get("tags")) + note_files.matter_list(note.matter.get("tag"))
    aliases = [
        f"alias:{alias}" for alias in note_files.matter_list(note.matter.get("aliases") or note.matter.get("alias"))
    ]
    for heading, text in note_files.split_note(note):
        prose = _CODE.sub(" ", text)
        links: list[str] = []
        for target in dict.fromkeys(found.strip().removesuffix(".md") for found in _LINK.findall(prose)):
            paths = names.get(target.lower(), [])
            if len(paths) > 1:
                reason = f"the link [[{target}]] could be several notes; the note is imported without it"
                yield SkippedItem(f"{note.name}, {heading}" if heading else note.name, reason)
            elif target:
                links.append(f"link:{paths[0] if paths else target}")
        title = text.lstrip().startswith("#") or heading
        yield note_files.make_entry(
            note,
            heading,
            text if title else f"**{note.path.stem}**\n\n{text}",
            kind="daily note" if is_daily else "note",
            type=clean_type(note.matter.get("type")) or "note",
            tags=clean_tags(*matter, *_INLINE_TAG.findall(prose), *aliases, *links),
            archive=is_daily,
        )


_OBSERVATION = re.compile(r"^\s*[-*] \[([^\]\n\[( ][^\]\n\[]{0,60})\] ", 8)
_CHECKBOXES = frozenset({"x", "X", "-", "/"})
_SAMPLE_FILES = 50


class BasicMemorySource(ImportSource):
    """Notes of basic-memory: Markdown with observations (`- [category] text #tag (context)`) and relations (`- uses [[Target]]`).

    A note is one entry, whole: its observations are about the note's subject. Categories and relations become tags, so that
    `--tag category:decision` and `--tag link:brewing-methods` find it. From the documented format.
    """

    name = "basic-memory"
    title = "basic-memory"
    in_home = ("basic-memory",)

    def accepts(self, path: Path) -> bool:
        notes = islice(note_files.read_notes(path), _SAMPLE_FILES) if path.is_dir() else ()
        return any(isinstance(note, note_files.MarkdownNote) and note.matter.get("permalink") for note in notes)

    def read(self, path: Path) -> Iterator[ImportedItem]:
        return note_files.read_entries(note_files.read_notes(path), _read_basic_note)


def _read_basic_note(note: note_files.MarkdownNote) -> Iterator[ImportedItem]:
    title = text_of(note.matter.get("title")) or note.path.stem
    for heading, text in note_files.split_note(note):
        categories = [
            f"category:{word}" for word in dict.fromkeys(_OBSERVATION.findall(text)) if word not in _CHECKBOXES
        ]
        links = [f"link:{target}" for target in dict.fromkeys(_LINK.findall(text))]
        yield note_files.make_entry(
            note,
            heading,
            text if text.lstrip().startswith("#") else f"**{title}**\n\n{text}",
            type=clean_type(note.matter.get("type")) or "note",
            tags=clean_tags(
                *note_files.matter_list(note.matter.get("tags")), *categories, *links, *_INLINE_TAG.findall(text)
            ),
            key=f"{text_of(note.matter.get('permalink')) or note.name}#{heading}",
        )


_PROJECT_FILES = (
    *("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md", "QWEN.md"),
    *(".cursorrules", ".windsurfrules", ".clinerules", ".github/copilot-instructions.md", "MEMORY.md"),
)
_PROJECT_FOLDERS = (
    *(".cursor/rules", ".windsurf/rules", ".clinerules", ".claude/rules", ".github/instructions", ".serena/memories"),
)
_HOME_FILES = (".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md", ".qwen/QWEN.md")
_IN_PROJECT = tuple(dict.fromkeys((*_PROJECT_FILES, *_PROJECT_FOLDERS)))
_IN_HOME = (*_HOME_FILES, ".codex/memories")
_SUFFIXES = (".md", ".mdc", ".txt")
_NAMES = frozenset(Path(name).name.lower() for name in (*_PROJECT_FILES, *_HOME_FILES))


class RulesSource(ImportSource):
    """Instruction files of coding agents: CLAUDE.md, AGENTS.md, GEMINI.md, rules of Cursor, Windsurf, Cline and Copilot, and the memories that Codex and Serena keep as Markdown.

    Each section is an entry, with its headings. It is text from a file, not the user's word to lorelog: the origin `import` stays.
    """

    name = "rules"
    title = "CLAUDE.md, AGENTS.md, GEMINI.md and rules files"
    is_personal = False

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield the files and folders of the project and of the home."""
        for base, names in ((places.project, _IN_PROJECT), (places.home, _IN_HOME)):
            for path in (base / name for name in names):
                if any(True for _ in note_files.walk_files(path, _SUFFIXES, hidden=True)):
                    yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a path is such a file, a folder of rules, or a project that has some."""
        if path.is_file():
            return path.name.lower() in _NAMES or path.suffix == ".mdc"
        return path.is_dir() and (path.name == "rules" or any(_files_of(path)))

    def read(self, path: Path) -> Iterator[ImportedItem]:
        of_project = [] if path.is_file() else list(_files_of(path))
        files = of_project or note_files.walk_files(path, _SUFFIXES, hidden=True)
        # A path in an agent's folder of the home belongs to the user.
        agents = {Path.home() / Path(name).parts[0] for name in _IN_HOME}
        is_users = any(path.absolute().is_relative_to(folder) for folder in agents)
        notes = (file if isinstance(file, SkippedItem) else note_files.read_note(file, path) for file in files)
        yield from note_files.read_entries(notes, lambda note: _read_sections(note, is_users=is_users))


def _files_of(project: Path) -> Iterator[Path | SkippedItem]:
    for name in _IN_PROJECT:
        if (project / name).exists():
            yield from note_files.walk_files(project / name, _SUFFIXES, hidden=True, within=project)


def _read_sections(note: note_files.MarkdownNote, *, is_users: bool) -> Iterator[ImportedItem]:
    scope = ", ".join(note_files.matter_list(note.matter.get("globs") or note.matter.get("applyTo")))
    about = text_of(note.matter.get("description"))
    tags = clean_tags(f"file:{note.path.name}", *note_files.matter_list(note.matter.get("tags")))
    for heading, text in note_files.split_note(note, always=True):
        head = "\n\n".join(filter(None, (about if not heading else "", f"For files: {scope}" if scope else "")))
        whole = f"{text}\n\n{head}" if head else text
        yield note_files.make_entry(note, heading, whole, kind="rule", type="rule", tags=tags, is_users=is_users)
