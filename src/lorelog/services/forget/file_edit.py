"""Take sections out of the text of a Markdown file, and leave every other byte as it is."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from lorelog.core.grammar import plural
from lorelog.core.options import ChunkOptions
from lorelog.core.patterns import lazy_pattern
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.outline import read_outline, read_sections
from lorelog.services.forget.forget_plan import ForgottenEntry
from lorelog.services.memory_state.tombstones import deletion_keys

_BOM = b"\xef\xbb\xbf"
_CITATION = lazy_pattern(r"\[([0-9a-f]{8,64}(?:, [0-9a-f]{8,64})*)\]\s*$")
_EXTRACTED = lazy_pattern(r"^(Summary of )(?:1 chunk|[\d,]+ chunks)(\b.*, in their own sentences\.)$", re.MULTILINE)
"""First line of a summary whose lines are sentences of one source each."""
_EMPTY_COVERS = "<!-- -->"
_HASH = lazy_pattern(r"\b[0-9a-f]{16,64}\b")


def take_out(
    data: bytes, entries: Sequence[ForgottenEntry], contents: Collection[str], chunking: ChunkOptions
) -> bytes:
    """Return the content of a file without some sections, and with some summaries reworded.

    Sections that the file no longer contains are ignored. `contents` are the hashes that summaries must not cover.
    """
    lines = data.split(b"\n")
    kept: list[bytes] = []
    position = 0
    for first, end, entry in _find_sections(data, entries, chunking):
        first = max(first, position)  # noqa: PLW2901  (chunks of several sections may share one)
        kept += lines[position:first]
        new = ""
        if entry.action == "reword":
            new = reword_summary(b"\n".join(lines[first:end]).decode("utf-8", "replace"), contents)
        if new:
            kept += new.encode().split(b"\n")
        elif end == len(lines):
            kept.append(b"")  # the line before keeps its end
        position = end
    result = b"\n".join([*kept, *lines[position:]])
    return _BOM + result if data.startswith(_BOM) and not result.startswith(_BOM) else result


def section_texts(data: bytes, entries: Sequence[ForgottenEntry], chunking: ChunkOptions) -> dict[str, str]:
    """Return the lines of sections, as they are in the file, by their keys."""
    lines = data.split(b"\n")
    return {
        entry.key: b"\n".join(lines[first:end]).decode("utf-8", "replace")
        for first, end, entry in _find_sections(data, entries, chunking)
    }


def _find_sections(
    data: bytes, entries: Sequence[ForgottenEntry], chunking: ChunkOptions
) -> list[tuple[int, int, ForgottenEntry]]:
    """Return the first line and the line after the end of sections, in order.

    A chunk beyond the limit of headings may consist of several sections.
    """
    keys = {entry.key: entry for entry in entries}
    text = data.removeprefix(_BOM).decode("utf-8", "replace").replace("\r\n", "\n")
    outline = read_outline(text)
    firsts = [section.first for section in read_sections(outline)]
    chunks = chunk_markdown(text, entries[0].source, chunking).chunks
    found: dict[int, tuple[int, int, ForgottenEntry]] = {}
    count = data.count(b"\n") + 1
    for chunk, key in zip(chunks, deletion_keys(chunks, entries[0].project), strict=True):
        if key in keys:
            index = bisect_right(firsts, chunk.start_line - 1) - 1
            following = bisect_right(firsts, chunk.end_line - 1)
            end = firsts[following] if following < len(firsts) else count
            found[firsts[index]] = (firsts[index], max(end, found.get(firsts[index], (0, 0))[1]), keys[key])
    return [found[first] for first in sorted(found)]


def reword_summary(text: str, contents: Collection[str]) -> str:
    """Return a summary of extracted sentences without those of forgotten sources; empty if none is left.

    Each line of such a summary is a sentence of the sources that it cites, so what is left is the summary of the others.
    A summary that a model worded may mix its sources in every line and cannot be reworded: it gives an empty text, too.
    """
    if not _EXTRACTED.search(text):
        return ""
    kept: list[str] = []
    cited = 0
    for line in text.split("\n"):
        match = _CITATION.search(line) if line.startswith("- ") else None
        labels = match[1].split(", ") if match else []
        if any(content.startswith(label) for label in labels for content in contents):
            continue
        cited += bool(labels)
        line = _without_covers(line, contents) if line.startswith("<!--") else line  # noqa: PLW2901
        if line != _EMPTY_COVERS:
            kept.append(line)
    if not cited:
        return ""
    left = len({covered for line in kept if line.startswith("<!--") for covered in _covered(line)})
    chunks = plural(left, "chunk")
    return _EXTRACTED.sub(lambda match: f"{match[1]}{chunks}{match[2]}", "\n".join(kept))


def _without_covers(line: str, contents: Collection[str]) -> str:
    """Return an anchor line without forgotten hashes."""
    if "covers:" not in line:
        return line
    before, _, rest = line.partition("covers:")
    hashes, space, end = rest.partition(" ")
    kept = [digest for digest in hashes.split(",") if digest not in contents]
    return f"{before}covers:{','.join(kept)}{space}{end}" if kept else f"{before.rstrip()}{space}{end}"


def _covered(line: str) -> list[str]:
    return _HASH.findall(line.partition("covers:")[2])


def group_by_file(entries: Sequence[ForgottenEntry]) -> Mapping[str, list[ForgottenEntry]]:
    """Return the entries of each file."""
    files: dict[str, list[ForgottenEntry]] = {}
    for entry in entries:
        files.setdefault(entry.source, []).append(entry)
    return files
