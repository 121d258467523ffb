"""Folders of Markdown notes as sources: Obsidian vaults, basic-memory, instruction files of agents, and memsearch and Loop with their settings.

A folder may come from anywhere. Links that lead out of it are not followed, special files are not opened, and a file that is
too large, not text, or has a name that is not text is named and left out.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from lorelog.core.document import Anchor
from lorelog.core.paths import leads_out
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    ImportedSetting,
    ImportSource,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    clean_type,
    link_problem,
    list_of,
    modification_time,
    object_of,
    parse_time,
    text_of,
)
from lorelog.ingest.markdown import collect_anchors
from lorelog.ingest.metadata import PartialDatetime, day_from_filename, find_day, front_matter_length
from lorelog.ingest.outline import read_outline, read_sections

_LINK = re.compile(r"(?<!!)\[\[([^\]|#^\n]{1,300})(?:[#^][^\]|\n]*)?(?:\|[^\]\n]*)?\]\]")
_INLINE_TAG = re.compile(r"(?<![\w#&/`])#([^\W\d_][\w/-]{0,60})")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", 16)
_VAULTS = ("[!.]*", "Documents/[!.]*", "Obsidian/[!.]*", "Documents/Obsidian/[!.]*", "vaults/[!.]*", "notes/[!.]*")


class ObsidianSource(ImportSource):
    """An Obsidian vault: tags, aliases and wikilinks become tags of the entry, and its text stays as it is.

    `[[Target]]` becomes `link:<path of the note>` if exactly one note of the vault has that name. A link that several notes could
    answer is not guessed: it is reported. Daily notes, named by their day, are archive material. Nothing in `.obsidian` or `.trash` is read.
    Tested with a vault written by hand.
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
        for file in walk_files(path):
            if isinstance(file, Path):
                whole = file.relative_to(path).with_suffix("").as_posix() if file != path else file.stem
                for name in {whole.lower(), file.stem.lower()}:
                    names.setdefault(name, []).append(whole)
        yield from read_entries(read_notes(path), lambda note: _read_obsidian_note(note, names))


def _read_obsidian_note(note: MarkdownNote, names: Mapping[str, list[str]]) -> Iterator[ImportedItem]:
    is_daily = bool(find_day(note.path.stem))
    matter = matter_list(note.matter.get("tags")) + matter_list(note.matter.get("tag"))
    aliases = [f"alias:{alias}" for alias in matter_list(note.matter.get("aliases") or note.matter.get("alias"))]
    for heading, text in split_note(note):
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
        yield make_entry(
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
    `--tag category:decision` and `--tag link:brewing-methods` find it. Tested with the documented form.
    """

    name = "basic-memory"
    title = "basic-memory"
    in_home = ("basic-memory",)

    def accepts(self, path: Path) -> bool:
        notes = islice(read_notes(path), _SAMPLE_FILES) if path.is_dir() else ()
        return any(isinstance(note, MarkdownNote) and note.matter.get("permalink") for note in notes)

    def read(self, path: Path) -> Iterator[ImportedItem]:
        return read_entries(read_notes(path), _read_basic_note)


def _read_basic_note(note: MarkdownNote) -> Iterator[ImportedItem]:
    title = text_of(note.matter.get("title")) or note.path.stem
    for heading, text in split_note(note):
        categories = [
            f"category:{word}" for word in dict.fromkeys(_OBSERVATION.findall(text)) if word not in _CHECKBOXES
        ]
        links = [f"link:{target}" for target in dict.fromkeys(_LINK.findall(text))]
        yield make_entry(
            note,
            heading,
            text if text.lstrip().startswith("#") else f"**{title}**\n\n{text}",
            type=clean_type(note.matter.get("type")) or "note",
            tags=clean_tags(*matter_list(note.matter.get("tags")), *categories, *links, *_INLINE_TAG.findall(text)),
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
    Tested with files written by hand.
    """

    name = "rules"
    title = "CLAUDE.md, AGENTS.md, GEMINI.md and rules files"
    is_personal = False

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield the files and folders of the project and of the home."""
        for base, names in ((places.project, _IN_PROJECT), (places.home, _IN_HOME)):
            for path in (base / name for name in names):
                if any(True for _ in walk_files(path, _SUFFIXES, hidden=True)):
                    yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a path is such a file, a folder of rules, or a project that has some."""
        if path.is_file():
            return path.name.lower() in _NAMES or path.suffix == ".mdc"
        return path.is_dir() and (path.name == "rules" or any(_files_of(path)))

    def read(self, path: Path) -> Iterator[ImportedItem]:
        of_project = [] if path.is_file() else list(_files_of(path))
        files = of_project or walk_files(path, _SUFFIXES, hidden=True)
        # A path in an agent's folder of the home belongs to the user.
        agents = {Path.home() / Path(name).parts[0] for name in _IN_HOME}
        is_users = any(path.absolute().is_relative_to(folder) for folder in agents)
        notes = (file if isinstance(file, SkippedItem) else read_note(file, path) for file in files)
        yield from read_entries(notes, lambda note: _read_sections(note, is_users=is_users))


def _files_of(project: Path) -> Iterator[Path | SkippedItem]:
    for name in _IN_PROJECT:
        if (project / name).exists():
            yield from walk_files(project / name, _SUFFIXES, hidden=True, within=project)


def _read_sections(note: MarkdownNote, *, is_users: bool) -> Iterator[ImportedItem]:
    if "\n<!-- lorelog:rules " in note.text:  # our own copy of the rules
        return
    scope = ", ".join(matter_list(note.matter.get("globs") or note.matter.get("applyTo")))
    about = text_of(note.matter.get("description"))
    tags = clean_tags(f"file:{note.path.name}", *matter_list(note.matter.get("tags")))
    for heading, text in split_note(note, always=True):
        head = "\n\n".join(filter(None, (about if not heading else "", f"For files: {scope}" if scope else "")))
        whole = f"{text}\n\n{head}" if head else text
        yield make_entry(note, heading, whole, kind="rule", type="rule", tags=tags, is_users=is_users)


_SAME_SETTINGS = (
    *("embedding.provider", "embedding.model", "embedding.batch_size", "embedding.base_url"),
    *("chunking.max_chunk_size", "chunking.overlap_lines", "llm.provider", "llm.model", "llm.base_url"),
    *("prompts.compact", "prompts.summarize"),
)
_SETTINGS = dict(zip(_SAME_SETTINGS, _SAME_SETTINGS, strict=True)) | {
    "indexing.ignore_files": "index.ignore_files",
    "indexing.exclude": "index.exclude",
    "watch.debounce_ms": "watch.debounce_ms",
    "compact.llm_provider": "llm.provider",
    "compact.llm_model": "llm.model",
    "compact.base_url": "llm.base_url",
    "compact.prompt_file": "prompts.compact",
}
_SECRET_KEYS = ("embedding.api_key", "llm.api_key", "compact.api_key", "milvus.token")
_PROVIDER_NAMES = {"onnx": "", "native": ""}
"""Providers of memsearch that have no counterpart: the built-in model does the same without a download."""
_PLUGINS = {"claude-code": "claude", "codex": "codex", "opencode": "opencode", "openclaw": "openclaw"}
_PROFILES = ("PROJECT.md", "USER.md")
_MAX_SETTINGS_BYTES = 1_000_000


class MemsearchSource(ImportSource):
    """memsearch: the journals of a project, the profiles it writes, and its settings.

    `lorelog index .memsearch/memory` reads the same journals where they are. Importing copies them, for a project that leaves
    memsearch. Journals are archive material: sessions and transcripts stay linked, and nothing of them is shown by a hook. API keys are never imported.
    Tested with files in the form of its plugins.
    """

    name = "memsearch"
    title = "memsearch"
    is_personal = False

    in_project = (".memsearch/memory",)
    in_home = (".memsearch/config.toml",)

    def accepts(self, path: Path) -> bool:
        if path.is_file():
            return (path.parent.name == ".memsearch" and path.suffix == ".toml") or path.name == ".memsearch.toml"
        return ".memsearch" in path.parts[-2:] or (path / ".memsearch").is_dir()

    def read(self, path: Path) -> Iterator[ImportedItem]:
        if path.is_file() and path.suffix == ".toml":
            yield from _read_memsearch_settings(path)
            return
        folder = path if path.name == ".memsearch" or path.is_file() else path / ".memsearch"
        folder = path.parent if path.name == "memory" and path.parent.name == ".memsearch" else folder
        project = str(folder.parent) if folder.name == ".memsearch" else ""
        if path.is_file():
            yield from read_entries(read_notes(path), lambda note: _read_journal(note, project))
            return
        journals = read_notes(folder / "memory", folder.parent)
        yield from read_entries(journals, lambda note: _read_journal(note, project))
        profiles = (folder / name for name in _PROFILES if (folder / name).is_file())
        own = (note for file in profiles for note in read_notes(file, folder.parent))
        yield from read_entries(own, lambda note: _read_profile(note, project))
        for settings in (folder / "config.toml", folder.parent / ".memsearch.toml"):
            if settings.is_file():
                problem = link_problem(settings, folder.parent)
                yield from (SkippedItem(settings.name, problem),) if problem else _read_memsearch_settings(settings)


def _read_journal(note: MarkdownNote, project: str) -> Iterator[ImportedItem]:
    """Yield the entries of a journal: sections with a text of their own."""
    outline = read_outline("x\n\n" + note.text)
    sections = read_sections(outline)
    anchors = collect_anchors(outline, sections)
    comments = {comment.line for comment in outline.comments}
    times: list[PartialDatetime] = []
    for index, section in enumerate(sections):
        day = PartialDatetime(day_from_filename(str(note.path)))
        time = (times[section.parent] if section.parent >= 0 else day).refine(section.title)
        times.append(time)
        numbers = (number for number in range(max(section.body, 2), section.last + 1) if number not in comments)
        text = "\n".join(outline.lines[number] for number in numbers).strip()
        if not text:
            continue
        anchor = anchors.get(index, Anchor())
        fields = (("session", anchor.session), ("turn", anchor.turn), (anchor.dialect, anchor.transcript))
        yield ImportedEntry(
            text=text if time.time or not section.title else f"**{section.title}**\n\n{text}",
            kind="journal entry",
            place=f"{note.name}:{note.first_line + section.first - 2}",
            at=parse_time(time.to_iso("")) or note.at,
            project=project,
            anchor=tuple((key, value) for key, value in fields if key and value),
            archive=True,
        )


def _read_profile(note: MarkdownNote, project: str) -> Iterator[ImportedItem]:
    is_users = note.name == "USER.md"
    project = "" if is_users else project
    yield make_entry(note, "", note.text, kind="profile", key=note.name, project=project, is_users=is_users)


def _read_memsearch_settings(path: Path) -> Iterator[ImportedItem]:
    try:
        with path.open("rb") as stream:
            values = tomllib.loads(stream.read(_MAX_SETTINGS_BYTES).decode())
    except (OSError, ValueError, RecursionError) as error:
        yield SkippedItem(path.name, f"its settings cannot be read: {error}")
        return
    for name, ours in _SETTINGS.items():
        section, _, key = name.partition(".")
        value = object_of(values.get(section)).get(key)
        if value in (None, "", 0, []):
            continue
        if ours.endswith(".provider") and value in _PROVIDER_NAMES:
            yield SkippedItem(f"{path.name}, {name}", f"{value!r} is not needed here: the built-in model serves")
            continue
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        yield ImportedSetting(ours, text, f"{path.name}, {name}")
    yield from _read_store_and_plugins(values, path)


def _read_store_and_plugins(values: dict[str, Any], path: Path) -> Iterator[ImportedItem]:
    milvus = object_of(values.get("milvus"))
    is_server = str(milvus.get("uri")).startswith(("http://", "https://"))
    for key in filter(milvus.get, ("uri", "collection")):
        if is_server:
            yield ImportedSetting(f"store.{key}", str(milvus[key]), f"{path.name}, milvus.{key}")
        else:
            why = "the search index is a file of lorelog's own; 'store.uri' chooses Milvus"
            yield SkippedItem(f"{path.name}, milvus.{key}", why)
    for name in _SECRET_KEYS:
        section, _, key = name.partition(".")
        if object_of(values.get(section)).get(key):
            yield SkippedItem(f"{path.name}, {name}", "keys and tokens are never imported; set them yourself")
    models: list[str] = []
    for plugin, settings in object_of(values.get("plugins")).items():
        summarize = object_of(object_of(settings).get("summarize"))
        place = f"{path.name}, plugins.{plugin}"
        if plugin not in _PLUGINS:
            yield SkippedItem(place, "lorelog has no such host")
        elif summarize.get("enabled") is False:
            yield SkippedItem(place, "summaries by a model are off here unless 'summarize.provider' is set")
            continue
        elif summarize.get("provider") not in (None, "", "native"):
            yield ImportedSetting("summarize.provider", str(summarize["provider"]), f"{place}.summarize.provider")
        elif summarize.get("model"):
            yield SkippedItem(place, "its own model writes notes only once 'summarize.provider' is 'host'")
        if plugin in _PLUGINS and summarize.get("model"):
            models.append(f"{_PLUGINS[plugin]}={summarize['model']}")
    if models:
        yield ImportedSetting("summarize.models", ",".join(models), f"{path.name}, plugins.….summarize.model")


_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[\]}])', 16)
"""Strings, which stay as they are, and comments and trailing commas, which do not."""
_CONFIG = "config.json"


class LoopSource(ImportSource):
    """Loop: the Markdown of its memory paths and of its channels, and the memory part of its settings (JSON with comments).

    Loop indexes Markdown where it is; so can lorelog (`lorelog index`). Importing copies it, for a machine that leaves Loop.
    Tested with files in the form of its source code.
    """

    name = "loop"
    title = "Loop"
    is_personal = False
    in_project = in_home = (".loop",)

    def accepts(self, path: Path) -> bool:
        """Return whether a path is Loop's folder, its settings, or a project with one."""
        return (
            path.name == ".loop" or (path / ".loop").is_dir() or (path.name == _CONFIG and path.parent.name == ".loop")
        )

    def read(self, path: Path) -> Iterator[ImportedItem]:
        folder = path.parent if path.name == _CONFIG else path if path.name == ".loop" else path / ".loop"
        base = folder.parent
        if link := link_problem(folder, base) or link_problem(folder / _CONFIG, base):
            yield SkippedItem(folder.name, link)
            return
        memory, problem = _read_config(folder / _CONFIG)
        if problem:
            yield problem
        paths = [text for item in list_of(memory.get("paths")) if (text := text_of(item))]
        yield from _read_loop_settings(memory, paths)
        excluded = [_resolve(base, text[1:]) for text in paths if text.startswith("!")]
        wanted = [_resolve(base, text) for text in paths if not text.startswith("!")] or [base / "memory"]
        for place in wanted:
            if leads_out(place, base):
                yield SkippedItem(str(place), f"it is outside of {base}: 'lorelog index' reads it where it is")
                continue
            yield from _read_folder(place, base, excluded, project="" if base == Path.home() else str(base))
        for channel in sorted(folder.glob("*/work/memory")):
            yield from _read_folder(channel, base, excluded, tag=f"channel:{channel.parent.parent.name}")


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


def _read_loop_settings(memory: dict[str, Any], paths: list[str]) -> Iterator[ImportedSetting]:
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


def _read_folder(
    folder: Path, base: Path, excluded: list[Path], *, project: str = "", tag: str = ""
) -> Iterator[ImportedItem]:
    for note in read_notes(folder, base) if folder.exists() else ():
        if isinstance(note, SkippedItem):
            yield note
        elif not any(note.path.is_relative_to(other) for other in excluded):
            is_daily = bool(day_from_filename(str(note.path)))
            for heading, text in split_note(note):
                if text.strip():
                    yield make_entry(
                        note,
                        heading,
                        text,
                        kind="daily note" if is_daily else "note",
                        tags=clean_tags(tag),
                        project=project,
                        is_users=not project and not tag,
                        key=f"{tag}{note.name}#{heading}",
                        archive=is_daily,
                    )


MAX_NOTE_BYTES = 4_000_000
MAX_FILES = 100_000
_LONG_NOTE_CHARS = 6_000
"""A note up to this length is one entry; a longer one is an entry per section."""
_HIDDEN_FOLDERS = frozenset({"node_modules", "__pycache__"})
_KEY = re.compile(r"""(["']?)([\w.@-]+)\1[ \t]*:(?:[ \t]+(.*)|[ \t]*)$""")
_MAX_MATTER_LINES = 500


class MarkdownNote(Struct, frozen=True):
    """A Markdown file: its front matter and its text."""

    path: Path
    name: str
    """Path below the folder, with slashes."""
    matter: Mapping[str, Any]
    text: str
    first_line: int
    """Number of the text's first line in the file."""

    @property
    def at(self) -> datetime | None:
        """When it was written: by its front matter, its name, or its modification time."""
        for name in ("date", "created", "created_at", "updated", "modified", "timestamp"):
            if time := parse_time(self.matter.get(name)):
                return time
        return parse_time(day_from_filename(str(self.path))) or modification_time(self.path)


def walk_files(
    root: Path, suffixes: Sequence[str] = (".md",), *, hidden: bool = False, within: Path | None = None
) -> Iterator[Path | SkippedItem]:
    """Yield the regular files below a folder in a stable order, or the file itself, and what is left out and why.

    No link is followed out of the folder, nor out of `within`, if the folder or file is said to be in it.
    """
    problem = link_problem(root, within) if within else ""
    if problem or root.is_file():
        problem = problem or _file_problem(root, root)
        yield SkippedItem(root.name, problem) if problem else root
        return
    count = 0
    for folder, names, files in os.walk(root, followlinks=False):
        names[:] = sorted(
            name for name in names if (hidden or not name.startswith(".")) and name not in _HIDDEN_FOLDERS
        )
        for link in (path for name in names if (path := Path(folder, name)).is_symlink()):
            if problem := link_problem(link, root):
                yield SkippedItem(os.path.relpath(link, root), problem)
        for name in sorted(files):
            if not name.lower().endswith(tuple(suffixes)) or (name.startswith(".") and not hidden):
                continue
            path = Path(folder, name)
            shown = os.path.relpath(path, root).encode("utf-8", "replace").decode()
            problem = _file_problem(path, root)
            count += 1
            if count > MAX_FILES:
                yield SkippedItem(str(root), f"it has more than {MAX_FILES:,} files; the rest is left out")
                return
            yield SkippedItem(shown, problem) if problem else path


def _file_problem(path: Path, root: Path) -> str:
    """Return why a file is not read; empty if it is."""
    if str(path).encode("utf-8", "replace").decode() != str(path):
        return "its name is not UTF-8"
    try:
        if problem := link_problem(path, root):
            return problem
        status = path.stat()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    return f"it is larger than {MAX_NOTE_BYTES:,} bytes" if status.st_size > MAX_NOTE_BYTES else ""


def read_note(path: Path, root: Path) -> MarkdownNote | SkippedItem:
    """Read a Markdown file below a folder."""
    name = path.name if path == root else Path(os.path.relpath(path, root)).as_posix()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(MAX_NOTE_BYTES + 1)
    except OSError as error:
        return SkippedItem(name, f"it cannot be read: {error.strerror}")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return SkippedItem(name, "it is not UTF-8 text")
    if len(data) > MAX_NOTE_BYTES or "\0" in text:
        return SkippedItem(name, "it is not text of a reasonable size")
    lines = text.split("\n")
    length = front_matter_length(lines) if lines else 0
    matter = parse_matter(lines[1 : length - 1]) if length else {}
    return MarkdownNote(path, name, matter, "\n".join(lines[length:]).strip("\n"), length + 1)


def read_notes(root: Path, within: Path | None = None) -> Iterator[MarkdownNote | SkippedItem]:
    """Yield the Markdown files below a folder, and those that cannot be read; see `walk_files`."""
    for path in walk_files(root, within=within):
        yield path if isinstance(path, SkippedItem) else read_note(path, root)


def read_entries(
    notes: Iterable[MarkdownNote | SkippedItem], read: Callable[[MarkdownNote], Iterable[ImportedItem]]
) -> Iterator[ImportedItem]:
    """Yield what `read` returns for each note with text, and what is left out and why."""
    for note in notes:
        if isinstance(note, SkippedItem):
            yield note
        elif note.text.strip():
            yield from read(note)
        else:
            yield SkippedItem(note.name, "it has no text")


def make_entry(note: MarkdownNote, heading: str, text: str, *, kind: str = "note", **fields: Any) -> ImportedEntry:
    place = f"{note.name}, {heading}" if heading else note.name
    defaults = {"type": "note", "at": note.at, "key": f"{note.name}#{heading}"}
    return ImportedEntry(text=text, kind=kind, place=place, **(defaults | fields))


def split_note(note: MarkdownNote, *, always: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (heading path, text) of a note: whole if it is short, else by section. The text includes its headings."""
    if not always and len(note.text) <= _LONG_NOTE_CHARS:
        yield "", note.text
        return
    outline = read_outline("x\n\n" + note.text)  # the lines in front keep a leading `---` from being front matter
    lines = list(outline.lines)
    for section in read_sections(outline):
        first = section.first if section.level else max(section.first, 2)
        body = "\n".join(lines[(section.body if section.level else first) : section.last + 1]).strip("\n")
        if body.strip() and section.last >= 2:
            title = " > ".join(section.path)
            yield title, f"**{title}**\n\n{body}" if title else body


def parse_matter(lines: Sequence[str]) -> dict[str, Any]:
    """Parse front matter: texts, lists of texts, in block or flow style, and flat objects in block style. Anything else is left out.

    A subset of YAML without anchors, tags and types: a full parser on untrusted files is a risk for nothing.
    """
    values: dict[str, Any] = {}
    lines = [line.rstrip() for line in lines[:_MAX_MATTER_LINES] if line.strip() and not line.lstrip().startswith("#")]
    position = 0
    while position < len(lines):
        match = _KEY.match(lines[position])
        position += 1
        if match is None:
            continue
        start = position
        while position < len(lines) and (lines[position][:1] in " \t" or lines[position].startswith("- ")):
            position += 1
        if match[3] or start == position:
            values[match[2]] = parse_flow((match[3] or "").strip())
            continue
        block = list(map(str.strip, lines[start:position]))
        items = [parse_flow(line[1:].strip()) for line in block if line.startswith("- ") or line == "-"]
        values[match[2]] = items or {
            key[2]: parse_flow((key[3] or "").strip()) for key in map(_KEY.match, block) if key
        }
    return values


def parse_flow(text: str) -> Any:
    """Parse a value on one line: a text, JSON, or a list `[a, b]`."""
    if text[:1] in '[{"':
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    if text.startswith("[") and text.endswith("]"):
        return [parse_flow(part) for part in _split_flow(text[1:-1]) if part]
    if text[:1] in "\"'" and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    return text.split(" #", 1)[0].strip()


def _split_flow(text: str) -> list[str]:
    """Split at the commas that are not inside quotes."""
    parts = [""]
    for piece in text.split(","):
        if parts[-1][:1] in {'"', "'"} and (len(parts[-1]) == 1 or parts[-1][-1] != parts[-1][0]):
            parts[-1] += f",{piece.rstrip()}"
        else:
            parts.append(piece.strip())
    return parts


def matter_list(value: object) -> list[str]:
    """Return the texts of a front matter value: a list, or a text with commas."""
    if isinstance(value, str):
        return [word for part in value.split(",") if (word := part.strip().lstrip("#"))]
    return [text for item in (value if isinstance(value, list) else ()) if (text := str(item).strip().lstrip("#"))]
