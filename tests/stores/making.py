"""Small documents, chunks and vectors for store tests, and what fills and asks a store."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

from lorelog.core.document import Anchor, Chunk, Document, FileStamp
from lorelog.core.ports import Analyser, DocumentUpdate, Store, Vector
from lorelog.core.query import Filters, Term
from lorelog.stores.embedded import EmbeddedStore


class PlainAnalyser:
    """Splits at spaces, which separates the behaviour of a store from that of an analyser."""

    version = "plain 1"

    def words(self, text: str) -> list[str]:
        return text.lower().split()


class TemporaryStore(EmbeddedStore):
    """An embedded store whose folder is deleted with it."""

    def __init__(self, analyser: Analyser, *, provider: str, model: str) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="store-")), analyser, provider=provider, model=model)

    def __del__(self) -> None:
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def kill_while_writing(script: str, place: Path, argument: int, lines: int, pause_s: float) -> None:
    """Run a script that writes to a store at a place and prints lines; kill it after so many of them and a pause."""
    source = script.format(path=[p for p in sys.path if p], place=str(place))
    with subprocess.Popen(
        [sys.executable, "-c", source, str(argument)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        time.sleep(pause_s)
        process.kill()


def vector(*numbers: float) -> Vector:
    length = math.sqrt(math.fsum(n * n for n in numbers)) or 1.0
    return array("f", [n / length for n in numbers]).tobytes()


def chunk(source: str, text: str, line: int = 1, **more: object) -> Chunk:
    fields: dict[str, object] = {
        "heading": "",
        "heading_level": 0,
        "heading_path": (),
        "date": "2026-03-02",
        "content": text,
        "end_line": line,
    }
    fields |= more
    return Chunk(source=source, start_line=line, text=text, **fields)  # type: ignore[arg-type]


def update(source: str, texts: Sequence[str | Chunk], *, project: str = "/p", size: int = 1) -> DocumentUpdate:
    chunks = tuple(
        text if isinstance(text, Chunk) else chunk(source, text, line) for line, text in enumerate(texts, start=1)
    )
    document = Document(
        source, "/root", project, FileStamp(size, 1, 1), f"hash {size}", "title", "2026-03-02", "2026-03-02"
    )
    return DocumentUpdate(document, chunks)


def anchored(memory: str) -> Anchor:
    return Anchor(session="s1", turn="t1", transcript="/t/a b.jsonl", dialect="transcript", memory=memory, tags=("x",))


ALL = Filters()
OPENED: list[Store] = []
"""Stores that are closed after the test."""


def fill(store: Store, *texts: str | Chunk, source: str = "/a.md", project: str = "/p") -> None:
    with store.writer() as writer:
        writer.put([update(source, texts, project=project)])
        writer.put_vectors({pending.vector_key: vector(1, len(pending.text)) for pending in store.pending(1000)})


def search_texts(store: Store, word: str, filters: Filters = ALL) -> list[str]:
    candidates = store.propose([Term(word)], None, filters, 100)[0]
    chunks = store.fetch([candidate.key for candidate in candidates])
    return sorted(chunks[candidate.key].chunk.text for candidate in candidates if candidate.key in chunks)
