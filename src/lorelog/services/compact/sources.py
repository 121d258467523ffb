"""Select the chunks to summarize, and extract their sentences.

Sources are of one project, in order of time. Excluded are superseded and expired memories, derived texts that repeat their
sources (record pages, digests, earlier summaries), and chunks that an existing summary covers: each is summarized once. Equal
texts count once. Texts are redacted.

Extractive summaries without a model: the sentence of each text that covers most of their common subject.

A word's weight grows with the number of texts that use it. A sentence's weight is that of its words, more if it has exact names
or numbers, and less if it is a question, very short, or leads to the next one with a colon. Code, tables and lists of files and commands are
skipped. The best sentence of each text is taken unless earlier ones cover it. The result is deterministic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log2, sqrt
from operator import attrgetter

from msgspec import Struct

from lorelog.core.document import StoredChunk
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.core.record import is_digest_text
from lorelog.ingest.transcripts.note_text import flatten_markdown
from lorelog.language import lexicon
from lorelog.language.analyser import split_sentences
from lorelog.light.delivery_files import shorten_line
from lorelog.retrieval.dedupe import split_words
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

SUMMARY_PREFIX = "compact-"
"""Prefix of a summary's id."""
_MIN_LABEL_CHARS = 8


class SummarySource(Struct, frozen=True):
    """A chunk to be summarized."""

    id: str
    """Prefix of its content hash: cited by lines, and accepted by `expand`."""
    day: str
    text: str
    """Redacted."""
    stored: StoredChunk

    @property
    def hash(self) -> str:
        """Content hash, the same in every file."""
        return self.stored.chunk.content_hash


def select_sources(
    store: Store, project: str, filters: Filters, lifecycle: LifecycleIndex, clean: Callable[[str], str]
) -> tuple[list[SummarySource], int]:
    """Return the chunks of a project that match the filters and need a summary, oldest first, and how many have one."""
    selected: dict[str, tuple[StoredChunk, str]] = {}
    covered: set[str] = set()
    for stored in _matching_chunks(store, project, filters):
        chunk, anchor = stored.chunk, stored.chunk.anchor
        is_summary = anchor is not None and anchor.memory.startswith(SUMMARY_PREFIX)
        if is_summary or is_digest_text(chunk.content) or not lifecycle.is_shown(stored):
            continue
        if lifecycle.covered_by(stored):
            covered.add(chunk.content_hash)
        elif chunk.content_hash not in selected and (text := clean(chunk.matched_text).strip()):
            selected[chunk.content_hash] = (stored, text)
    labels = shorten_hashes(list(selected))
    sources = [
        SummarySource(labels[key], stored.chunk.date[:10], text, stored) for key, (stored, text) in selected.items()
    ]
    place = attrgetter("date", "source", "start_line", "content_hash")
    return sorted(sources, key=lambda source: place(source.stored.chunk)), len(covered)


def shorten_hashes(hashes: Sequence[str]) -> dict[str, str]:
    """Return for each hash the shortest prefix length that keeps all of them distinct."""
    length = _MIN_LABEL_CHARS
    while len({digest[:length] for digest in hashes}) < len(set(hashes)):
        length += 1
    return {digest: digest[:length] for digest in hashes}


def _matching_chunks(store: Store, project: str, filters: Filters) -> Iterator[StoredChunk]:
    for document in store.documents():
        is_named = not filters.source_prefix or is_below(document.source, filters.source_prefix)
        for stored in store.chunks_of(document.source) if document.project == project and is_named else ():
            day = stored.chunk.date[:10]
            if (not filters.since or day >= filters.since) and (not filters.until or "" < day <= filters.until):
                yield stored


_BULLET = re.compile(
    r"^\s*(?:[-*+]|\d{1,3}[.)])\s+|^#{1,6}\s+|^(?:>\s?)+|^(?:User asked|Outcome|Found|Went on with):\s*"
)
_BLOCK_START = re.compile(r"\s*(?:[-*+>|]\s|\d{1,3}[.)]\s|#{1,6}\s|\||<|:::|\[[^\]]+\]:)")
"""A line that does not continue the one before."""
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_NOT_A_SENTENCE = re.compile(
    r"(?:Commands|Files|Tools|Errors):.*|`[^`]+`\W*|\S*://\S+|[^|]*\|[^|]*\|.*|<[^>]+>\W*|[^<]*=\"[^\"]*\"\s*/?>.*",
    re.DOTALL,
)
"""The lists of a session note, a single command, a table row, a tag or the rest of one."""
_INLINE_CODE = re.compile(r"`[^`]*`")
_SPECIFICS = re.compile(r"`[^`]+`|\w+[./_]\w+|\b\d")
_MAX_SENTENCE_CHARS = 240
_MAX_OVERLAP = 0.8
"""Share of a sentence's words in earlier sentences from which it adds nothing."""
_MIN_WORDS = 4


class Sentence(Struct, frozen=True):
    """The selected sentence of one text."""

    position: int
    """Index of the text."""
    text: str
    weight: float


def extract_sentences(texts: Sequence[str]) -> list[Sentence]:
    """Return one sentence of each text, in order, unless it has none or the sentence adds nothing."""
    cut = [_split_sentences(text) for text in texts]
    full = [list(filter(_is_sentence, sentences)) for sentences in cut]
    # If all of them are lists of commands, a command is better than nothing.
    return _choose_sentences(full) or _choose_sentences(cut)


def content_words(text: str) -> set[str]:
    return {word for word in split_words(text) if word not in lexicon("stop_words") and any(map(str.isalnum, word))}


def _choose_sentences(cut: Sequence[Sequence[str]]) -> list[Sentence]:
    used: Counter[str] = Counter()
    for sentences in cut:
        used.update({word for sentence in sentences for word in content_words(sentence)})
    covered: set[str] = set()
    chosen: list[Sentence] = []
    for position, sentences in enumerate(cut):
        weights = [_weight(text, used) * (1.15 if not number else 1.0) for number, text in enumerate(sentences)]
        best = max(range(len(sentences)), key=weights.__getitem__, default=None)  # the first of equals
        words = content_words(sentences[best]) if best is not None else set()
        if best is not None and (not words or len(words & covered) < _MAX_OVERLAP * len(words)):
            chosen.append(Sentence(position, shorten_line(sentences[best], _MAX_SENTENCE_CHARS), weights[best]))
            covered |= words
    return chosen


def _weight(sentence: str, used: Mapping[str, int]) -> float:
    words = content_words(sentence)
    weight = sum(log2(1 + used[word]) for word in words) / sqrt(len(words) + 4)
    weight *= 1.2 if _SPECIFICS.search(sentence) else 1.0
    weight *= 0.4 if sentence.endswith((":", "?", "\uff1f", "\uff1a")) else 1.0
    return weight * (0.3 if len(words) < _MIN_WORDS else 1.0)


def _split_sentences(text: str) -> list[str]:
    """Return the sentences of a text; of a turn those of the outcome, or of the request if there is no outcome."""
    request: list[str] = []
    outcome: list[str] = []
    for line in _unwrap_lines(text.partition("\n")[2] if text.startswith("#") and "\n" in text else text):
        cut = (_strip_markers(part) for part in split_sentences(line))
        (request if line.lstrip(" \t-*+").startswith("User asked:") else outcome).extend(
            part for part in cut if any(map(str.isalnum, part))
        )
    return outcome if any(map(_is_sentence, outcome)) else request + outcome


def _is_sentence(sentence: str) -> bool:
    """Return whether it is more than a command, a list of files or a table row."""
    return not _NOT_A_SENTENCE.fullmatch(sentence) and " | " not in _INLINE_CODE.sub("", sentence)


def _unwrap_lines(text: str) -> Iterator[str]:
    """Yield paragraphs and list items, each in one line, without code blocks."""
    paragraph, fence = "", ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if fence or mark or not line.strip() or _BLOCK_START.match(line):
            if paragraph:
                yield paragraph
            paragraph = "" if fence or mark else line
        else:
            paragraph = f"{paragraph} {line.strip()}" if paragraph else line
    if paragraph:
        yield paragraph


def _strip_markers(sentence: str) -> str:
    bare = sentence.strip()
    while (stripped := _BULLET.sub("", bare, count=1)) != bare:
        bare = stripped
    return flatten_markdown(bare)
