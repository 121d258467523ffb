"""The settings of one run: every value with where it came from, and the options that services take.

A key is resolved from its `env:NAME` reference only in `embedding`, at the last moment and into the options alone, so
nothing that shows, stores or compares settings ever holds it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from lorelog.config.schema import SETTINGS, Value
from lorelog.config.values import find_setting
from lorelog.core.errors import ConfigError
from lorelog.core.options import (
    CacheOptions,
    CaptureOptions,
    ChunkOptions,
    DaemonOptions,
    EmbedOptions,
    HttpOptions,
    LanguageOptions,
    OllamaOptions,
    RecordOptions,
    RerankOptions,
    ScanOptions,
    SearchOptions,
    SessionOptions,
    SpendOptions,
    StoreOptions,
    SummarizeOptions,
    TraceOptions,
    WatchOptions,
)
from lorelog.core.query import Fusion, Lane

DEFAULT_ORIGIN = "default"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value and the layer that chose it."""

    key: str
    value: Value
    origin: str
    """`default`, `user: PATH`, `project: PATH`, `environment: NAME` or `flag`."""


class Secret(str):
    """A text that does not show itself in tracebacks, logs and representations of what holds it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


@dataclass(frozen=True, slots=True)
class Settings:
    """What was chosen. Layers above the defaults are in `choices`; `base` is where relative paths start."""

    base: str
    choices: Mapping[str, Chosen] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """What a person should know of how they chose it: keys that have another name now."""

    def value(self, key: str) -> Value:
        """Return a setting's value; raise ConfigError with the nearest key when there is no such setting."""
        setting = find_setting(key)
        return self.choices[key].value if key in self.choices else setting.default

    def origin(self, key: str) -> str:
        """Return which layer chose the value."""
        find_setting(key)
        return self.choices[key].origin if key in self.choices else DEFAULT_ORIGIN

    def __iter__(self) -> Iterator[Chosen]:
        """Yield every setting in the order of the documentation."""
        for setting in SETTINGS:
            yield Chosen(setting.key, self.value(setting.key), self.origin(setting.key))

    def tenant(self) -> str:
        """Return whose memories are meant."""
        return cast("str", self.value("scope.tenant"))

    def tenants(self) -> tuple[str, ...]:
        """Return the tenants that a scope file may name."""
        return cast("tuple[str, ...]", self.value("scope.tenants"))

    def all_projects(self) -> bool:
        """Return whether a search looks beyond the current project."""
        return cast("bool", self.value("search.all_projects"))

    def roots(self) -> tuple[str, ...]:
        """Return the files and directories to index, as real paths."""
        return tuple(self._locate(entry) for entry in self._paths() if not entry.startswith("!"))

    def chunking(self) -> ChunkOptions:
        """Return how Markdown is cut."""
        return ChunkOptions(
            max_chunk_size=cast("int", self.value("chunking.max_chunk_size")),
            overlap_lines=cast("int", self.value("chunking.overlap_lines")),
        )

    def scan(self) -> ScanOptions:
        """Return which files are read; the `!` entries of index.paths become its excluded paths."""
        return ScanOptions(
            exclude=cast("tuple[str, ...]", self.value("index.exclude")),
            exclude_paths=tuple(self._locate(entry[1:]) for entry in self._paths() if entry.startswith("!")),
            ignore_files=cast("tuple[str, ...]", self.value("index.ignore_files")),
            max_file_bytes=cast("int", self.value("index.max_file_bytes")),
        )

    def embedding(self, environment: Mapping[str, str]) -> EmbedOptions:
        """Return which model embeds, with its key read from the environment when one is referred to."""
        return EmbedOptions(
            provider=cast("str", self.value("embedding.provider")),
            model=cast("str", self.value("embedding.model")),
            base_url=cast("str", self.value("embedding.base_url")),
            api_key=Secret(environment.get(self._key_variable(), "")),
            key_variable=self._key_variable(),
            batch_size=cast("int", self.value("embedding.batch_size")),
            threads=cast("int", self.value("embedding.threads")),
            timeout_s=cast("float", self.value("embedding.timeout_s")),
            dimensions=cast("int", self.value("embedding.dimensions")),
            query_prefix=self._prefix("embedding.query_prefix"),
            document_prefix=self._prefix("embedding.document_prefix"),
            ollama=self._ollama(),
        )

    def search(self) -> SearchOptions:
        """Return what to return and how to rank it; the caller adds the filters."""
        return SearchOptions(
            k=cast("int", self.value("search.k")),
            lane=Lane(cast("str", self.value("search.lane"))),
            fusion=Fusion(cast("str", self.value("search.fusion"))),
            token_budget=cast("int", self.value("search.token_budget")),
            min_relevance=cast("float", self.value("search.min_relevance")),
            recency_weight=cast("float", self.value("search.recency_weight")),
            half_life_days=cast("float", self.value("search.half_life_days")),
            freshness=cast("bool", self.value("search.freshness")),
        )

    def reranking(self) -> RerankOptions:
        """Return which cross-encoder reranks, if any; it shares the processors that the embedder may use."""
        return RerankOptions(
            provider=cast("str", self.value("rerank.provider")),
            model=cast("str", self.value("rerank.model")),
            candidates=cast("int", self.value("rerank.candidates")),
            timeout_s=cast("float", self.value("rerank.timeout_s")),
            threads=cast("int", self.value("embedding.threads")),
        )

    def caching(self) -> CacheOptions:
        """Return what is kept between questions."""
        return CacheOptions(
            answers=cast("bool", self.value("cache.answers")),
            answers_entries=cast("int", self.value("cache.answers_entries")),
            answers_ttl_s=cast("float", self.value("cache.answers_ttl_s")),
            similar=cast("float", self.value("cache.similar")),
            hot=cast("bool", self.value("cache.hot")),
            hot_bytes=cast("int", self.value("cache.hot_bytes")),
        )

    def auto_memory(self) -> bool:
        """Return whether a host's own memory files are indexed unasked."""
        return cast("bool", self.value("index.auto_memory"))

    def daemon(self) -> DaemonOptions:
        """Return how long the daemon stays, and what it does."""
        return DaemonOptions(
            warm=cast("str", self.value("daemon.warm")),
            idle_s=cast("float", self.value("daemon.idle_s")),
            model_idle_s=cast("float", self.value("daemon.model_idle_s")),
            http=cast("bool", self.value("daemon.http")),
        )

    def watching(self) -> WatchOptions:
        """Return how files are followed."""
        return WatchOptions(
            enabled=cast("bool", self.value("watch.enabled")),
            debounce_ms=cast("int", self.value("watch.debounce_ms")),
            reconcile_s=cast("float", self.value("watch.reconcile_s")),
        )

    def serving(self, environment: Mapping[str, str]) -> HttpOptions:
        """Return where HTTP is served, with its token read from the environment when one is referred to."""
        variable = cast("str", self.value("http.token")).removeprefix("env:")
        token = environment.get(variable, "") if variable else ""
        if variable and not token:
            raise ConfigError(f"http.token refers to {variable}, which is not set", hint=f"export {variable}=…")
        return HttpOptions(
            host=cast("str", self.value("http.host")),
            port=cast("int", self.value("http.port")),
            token=Secret(token),
            max_body_bytes=cast("int", self.value("http.max_body_bytes")),
        )

    def recording(self) -> RecordOptions:
        """Return in whose name records are written."""
        return RecordOptions(
            agent=cast("str", self.value("records.agent")), identity=cast("str", self.value("records.identity"))
        )

    def storing(self, environment: Mapping[str, str], home: str) -> StoreOptions:
        """Return where words and vectors are kept, with the token read from the environment when one is referred to.

        A relative path starts at the home of all indexes: whose index it is does not depend on where one stands.
        """
        uri = cast("str", self.value("store.uri"))
        variable = cast("str", self.value("store.token")).removeprefix("env:")
        return StoreOptions(
            uri if not uri or "://" in uri else locate(home, uri),
            Secret(environment.get(variable, "")),
            cast("bool", self.value("store.per_project")),
            cast("bool", self.value("store.shared")),
        )

    def capturing(self) -> CaptureOptions:
        """Return what is kept of agents' sessions; a project may ask to be left out, not to be taken in."""
        return CaptureOptions(
            enabled=bool(self.value("capture.enabled")) and not self.value("capture.skip"),
            patterns=cast("tuple[str, ...]", self.value("redact.patterns")),
        )

    def session(self) -> SessionOptions:
        """Return what a session is shown unasked."""
        return SessionOptions(
            inject_bytes=cast("int", self.value("session.inject_bytes")),
            hits=cast("int", self.value("session.hits")),
            hits_relevance=cast("float", self.value("session.hits_relevance")),
            hits_wait_ms=cast("int", self.value("session.hits_wait_ms")),
        )

    def language(self, environment: Mapping[str, str]) -> LanguageOptions:
        """Return which language model writes, with its key read from the environment when one is referred to."""
        variable = cast("str", self.value("llm.api_key")).removeprefix("env:")
        return LanguageOptions(
            provider=cast("str", self.value("llm.provider")),
            model=cast("str", self.value("llm.model")),
            base_url=cast("str", self.value("llm.base_url")),
            api_key=Secret(environment.get(variable, "")),
            key_variable=variable,
            command=cast("str", self.value("llm.command")),
            timeout_s=cast("float", self.value("llm.timeout_s")),
            daily_tokens=cast("int", self.value("llm.daily_tokens")),
            window_tokens=cast("int", self.value("llm.window_tokens")),
            ollama=self._ollama(),
        )

    def summarizing(self, environment: Mapping[str, str]) -> SummarizeOptions:
        """Return who words notes, with the key read from the environment.

        What is said of notes goes first. What is not said is as for `llm`, where that is who words them: another
        provider's address, or the key for another address, would be the wrong one.
        """
        usual = self.language(environment)
        provider = cast("str", self.value("summarize.provider"))
        provider = usual.provider if provider == "llm" else provider
        usual = usual if usual.provider == provider else LanguageOptions(provider, ollama=usual.ollama)
        if self.value("summarize.base_url") not in {"", usual.base_url}:
            usual = replace(usual, api_key=Secret(""), key_variable="")
        variable = cast("str", self.value("summarize.api_key")).removeprefix("env:")
        return SummarizeOptions(
            provider=provider,
            model=cast("str", self.value("summarize.model")) or usual.model,
            base_url=cast("str", self.value("summarize.base_url")) or usual.base_url,
            api_key=Secret(environment.get(variable, "")) if variable else usual.api_key,
            key_variable=variable or usual.key_variable,
            command=cast("str", self.value("llm.command")),
            timeout_s=cast("float", self.value("summarize.timeout_s")),
            daily_tokens=cast("int", self.value("summarize.daily_tokens")),
            window_tokens=usual.window_tokens,
            ollama=usual.ollama,
            prompt=cast("str", self.value("summarize.prompt") or self.value("prompts.summarize")),
        )

    def spending(self) -> SpendOptions:
        """Return how many tokens a day language models may cost."""
        return SpendOptions(
            notes=cast("int", self.value("summarize.daily_tokens")), others=cast("int", self.value("llm.daily_tokens"))
        )

    def tracing(self) -> TraceOptions:
        """Return whether calls and errors are traced, and how much of that is kept."""
        return TraceOptions(
            enabled=cast("bool", self.value("traces.enabled")),
            days=cast("int", self.value("traces.days")),
            megabytes=cast("int", self.value("traces.megabytes")),
        )

    def compact_prompt(self) -> str:
        """Return the file that tells a model how to summarize memories, as it was written."""
        return cast("str", self.value("prompts.compact"))

    def _ollama(self) -> OllamaOptions:
        return OllamaOptions(
            manage=cast("bool", self.value("ollama.manage")),
            image=cast("str", self.value("ollama.image")),
            container=cast("str", self.value("ollama.container")),
            volume=cast("str", self.value("ollama.volume")),
            idle_s=cast("float", self.value("ollama.idle_s")),
        )

    def _paths(self) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self.value("index.paths"))

    def _locate(self, path: str) -> str:
        return locate(self.base, path)

    def _prefix(self, key: str) -> str:
        return cast("str", self.value(key)).replace("\\n", "\n")  # no setting holds a line's end itself

    def _key_variable(self) -> str:
        return cast("str", self.value("embedding.api_key")).removeprefix("env:")


def locate(base: str, path: str) -> str:
    """Return the real path of an entry of index.paths."""
    return os.path.realpath(os.path.join(base, os.path.expanduser(path)))  # noqa: PTH111, PTH118  # one call, no Path
