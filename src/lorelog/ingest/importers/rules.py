"""Reads the instruction files of coding agents: CLAUDE.md, AGENTS.md, GEMINI.md, rules of Cursor, Windsurf, Cline and Copilot, and
the memories that Codex and Serena keep as Markdown.

Each section is an entry, with its headings. It is text from a file, not the user's word to lorelog: the origin `import` stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lorelog.ingest.importers.notes import MarkdownNote, matter_list, read_note, split_note, walk_files
from lorelog.ingest.importers.source import ImportedEntry, ImportedItem, MachinePlaces, SkippedItem, clean_tags, text_of

_PROJECT_FILES = (
    *("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md", "QWEN.md"),
    *(".cursorrules", ".windsurfrules", ".clinerules", ".github/copilot-instructions.md", "MEMORY.md"),
)
_PROJECT_FOLDERS = (
    *(".cursor/rules", ".windsurf/rules", ".clinerules", ".claude/rules", ".github/instructions", ".serena/memories"),
)
_HOME_FILES = (".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md", ".qwen/QWEN.md")
_HOME_FOLDERS = (".codex/memories",)
_SUFFIXES = (".md", ".mdc", ".txt")
_NAMES = frozenset(Path(name).name.lower() for name in (*_PROJECT_FILES, *_HOME_FILES))


class RulesSource:
    """Instruction files of a project, or of the user."""

    name = "rules"
    title = "CLAUDE.md, AGENTS.md, GEMINI.md and rules files"
    is_personal = False

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield the files and folders of the project and of the home."""
        folders = (
            (places.project, (*_PROJECT_FILES, *_PROJECT_FOLDERS)),
            (places.home, (*_HOME_FILES, *_HOME_FOLDERS)),
        )
        for base, names in folders:
            for name in names:
                path = base / name
                is_file = name in (_PROJECT_FILES if base == places.project else _HOME_FILES) and path.is_file()
                if is_file or (path.is_dir() and any(True for _ in walk_files(path, _SUFFIXES, hidden=True))):
                    yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a path is such a file, a folder of rules, or a project that has some."""
        if path.is_file():
            return path.name.lower() in _NAMES or path.suffix == ".mdc"
        return path.is_dir() and (path.name == "rules" or any(_files_of(path)))

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the sections of a file, of all files in a folder of rules, or of a project."""
        whole = not path.is_file() and any(_files_of(path))
        for file in _files_of(path) if whole else walk_files(path, _SUFFIXES, hidden=True):
            if isinstance(file, SkippedItem):
                yield file
                continue
            if file.is_symlink() and not file.resolve().is_relative_to(path.resolve()):
                yield SkippedItem(file.name, "it is a link that leads out of the folder")
                continue
            note = read_note(file, path)
            if isinstance(note, SkippedItem):
                yield note
            else:
                yield from _read_sections(note, is_users=_is_users(path))


def _files_of(project: Path) -> Iterator[Path | SkippedItem]:
    for name in _PROJECT_FILES:
        if (project / name).is_file():
            yield project / name
    for name in _PROJECT_FOLDERS:
        if (project / name).is_dir():
            yield from walk_files(project / name, _SUFFIXES, hidden=True)


def _is_users(path: Path) -> bool:
    """Return whether a path is in an agent's folder of the home, and so belongs to the user."""
    return any(
        path.absolute().is_relative_to(Path.home() / Path(name).parts[0]) for name in (*_HOME_FILES, *_HOME_FOLDERS)
    )


def _read_sections(note: MarkdownNote, *, is_users: bool) -> Iterator[ImportedItem]:
    scope = ", ".join(matter_list(note.matter.get("globs") or note.matter.get("applyTo")))
    about = text_of(note.matter.get("description"))
    found = False
    for heading, text in split_note(note, always=True):
        found = True
        head = "\n\n".join(filter(None, (about if not heading else "", f"For files: {scope}" if scope else "")))
        yield ImportedEntry(
            text=f"{text}\n\n{head}" if head else text,
            kind="rule",
            place=f"{note.name}, {heading}" if heading else note.name,
            type="rule",
            tags=clean_tags(f"file:{note.path.name}", *matter_list(note.matter.get("tags"))),
            at=note.at,
            key=f"{note.name}#{heading}",
            is_users=is_users,
        )
    if not found:
        yield SkippedItem(note.name, "it has no text")


SOURCE = RulesSource()
