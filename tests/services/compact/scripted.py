"""A project with notes to sum up, and a language model that says what a test wants of them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorelog.core.document import Chunk, StoredChunk
from lorelog.core.memory import CompactOptions, CompactReply
from lorelog.core.options import ChunkOptions, ScanOptions, SearchOptions
from lorelog.core.ports import Completion
from lorelog.core.query import Filters
from lorelog.engine import Engine
from lorelog.language.analyser import WordAnalyser
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.services.compact.sources import SummarySource
from lorelog.services.llm.metered import LlmBudget, MeteredLlm
from lorelog.services.llm.receipts import Receipts
from lorelog.services.pipeline.scope import EngineDefaults, EngineDeps
from lorelog.services.places.root_selection import IndexTargets
from lorelog.services.places.workspace import Workspace, find_project
from lorelog.stores.embedded import EmbeddedStore

Said = Callable[[str, str], str | BaseException]

_BLOCK = re.compile(r'<source-([0-9a-f]{12}) id="([0-9a-f]+)"[^>]*>\n(.*?)\n</source-\1>', re.DOTALL)


def quoted(text: str) -> dict[str, str]:
    return {found[2]: found[3] for found in _BLOCK.finditer(text)}


def is_merging(text: str) -> bool:
    return text.startswith("<lines-")


def honest(system: str, text: str) -> str:
    """Say how the last line of each source begins, or each line of a summary, as it stands."""
    if is_merging(text):
        return "\n".join(line for line in text.split("\n") if line.startswith("- "))
    lines = {item: body.splitlines()[-1] for item, body in quoted(text).items()}
    return "\n".join(f"- {textwrap.shorten(line, 80, placeholder='')} [{entry}]" for entry, line in lines.items())


class Scripted:
    """A language model that says what a function makes of the question."""

    provider = "scripted"
    model = "one"
    extra_tokens = 7

    def __init__(self, said: Said = honest, tokens: tuple[int, int] = (100, 20)) -> None:
        self.said = said
        self.tokens = tokens
        self.asked: list[tuple[str, str]] = []

    def complete(self, system: str, text: str, max_tokens: int) -> Completion:
        self.asked.append((system, text))
        answer = self.said(system, text)
        if isinstance(answer, BaseException):
            raise answer
        return Completion(answer, *self.tokens)


@dataclass
class Notebook:
    """A project whose notes are indexed."""

    folder: Path
    model: Scripted = field(default_factory=Scripted)
    daily_tokens: int = 10_000_000
    window_tokens: int = 0

    def __post_init__(self) -> None:
        self.project = self.folder / "app"
        (self.project / "notes").mkdir(parents=True, exist_ok=True)
        self.place = Workspace(find_project(str(self.project)), self.folder / "home", "default")

    def engine(self) -> Engine:
        """Return what sums up: a new one, as another process would have."""
        embedder = FakeEmbedder()
        store = EmbeddedStore(self.place.cache_folder, WordAnalyser(), provider=embedder.provider, model=embedder.model)
        return Engine(
            store=store,
            deps=EngineDeps(analyser=WordAnalyser(), embedder=embedder, language=lambda _: self.gate()),
            workspace=self.place,
            defaults=EngineDefaults(scan=ScanOptions(), chunking=ChunkOptions(), search=SearchOptions()),
        )

    def gate(self) -> MeteredLlm:
        """Return the way to the model."""
        terms = LlmBudget(self.daily_tokens, 60.0, self.window_tokens, self.place.project.id)
        return MeteredLlm(self.model, Receipts.of_tenant(self.place.tenant_folder), terms)

    def note(self, name: str, *sections: str) -> None:
        body = "".join(f"## Part {number}\n\n{text}\n\n" for number, text in enumerate(sections, 1))
        (self.project / "notes" / f"{name}.md").write_text(f"# {name}\n\n{body}", "utf-8")
        with self.engine() as engine:
            engine.maintenance().index(IndexTargets((str(self.project / "notes"),)))

    def compact(self, **given: Any) -> CompactReply:
        filters = {name: given.pop(name) for name in ("since", "until", "source_prefix") if name in given}
        with self.engine() as engine:
            options = CompactOptions(filters=engine.scoped(Filters(**filters), all_projects=True), **given)
            return engine.compactor(llm=options.llm).compact(options)

    def journals(self) -> str:
        return "".join(path.read_text("utf-8") for path in sorted(self.place.journals.glob("*.md")))


def source(number: int, text: str, day: str = "2026-03-05", place: str = "/p/a.md") -> SummarySource:
    """Return a source, as if it were in a store."""
    chunk = Chunk(place, "", 0, (), number, number, f"{text} #{number}", text, date=day)
    return SummarySource(
        chunk.content_hash, day, text, StoredChunk(number, f"id{number}", chunk, "/p", has_vector=False)
    )
