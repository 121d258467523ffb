"""Options of the services. `config/` fills them from settings."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.query import Filters, Fusion, Lane, TrustFilter


def _repr_without(value: Struct, secret: str) -> str:
    """Return the representation of a value without a field that must not be logged."""
    shown = ", ".join(f"{name}={getattr(value, name)!r}" for name in value.__struct_fields__ if name != secret)
    return f"{type(value).__name__}({shown})"


class ChunkOptions(Struct, frozen=True):
    """How Markdown is split into chunks."""

    max_chunk_size: int = 1500
    overlap_lines: int = 2

    @property
    def recipe(self) -> str:
        """Name of the chunking rules. Raise the leading number when the same text and options give other chunks."""
        return f"3 {self.max_chunk_size} {self.overlap_lines}"


MARKDOWN_SUFFIXES = (".md", ".markdown")
TEXT_SUFFIXES = (".txt", ".rst", ".adoc", ".org")
"""Plain text that is read only if `index.extensions` names it."""


MAX_FILE_BYTES = 10_000_000


class ScanOptions(Struct, frozen=True):
    """Which files under the roots are read."""

    extensions: tuple[str, ...] = ()
    """Of `TEXT_SUFFIXES`, those that are read besides Markdown."""

    exclude: tuple[str, ...] = ()
    """gitignore-style patterns, relative to each root."""
    exclude_paths: tuple[str, ...] = ()
    """Absolute paths; each excludes everything below it."""
    ignore_files: tuple[str, ...] = (".gitignore", ".lorelogignore")
    max_file_bytes: int = MAX_FILE_BYTES
    exclude_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further patterns for single roots, by real path."""
    journals: frozenset[str] = frozenset()
    """Roots of journals: neither ignore files nor settings, which a repository brings, keep a memory out of the index."""

    def size_limit(self, root: str) -> int:
        return max(self.max_file_bytes, MAX_FILE_BYTES) if root in self.journals else self.max_file_bytes

    def reads(self, name: str) -> bool:
        """Return whether a file is read, by its name or path."""
        return name.lower().endswith((*MARKDOWN_SUFFIXES, *self.extensions))


EMBEDDING_PROVIDERS = tuple("builtin openai google voyage jina mistral ollama local onnx fake none".split())
"""Accepted values; `none` means the lexical lane only. The others are in `models/embed`."""


AUTO_PROVIDER = "auto"
"""Leave the choice to the model; not a value that could itself prefix a text."""


class OllamaOptions(Struct, frozen=True):
    """Whether and how an Ollama server is run in a container when none answers."""

    manage: bool = False
    image: str = "ollama/ollama:latest"
    container: str = "lorelog-ollama"
    volume: str = "lorelog-ollama"
    idle_s: float = 300.0
    """Seconds after the last use until the container is stopped; 0 keeps it."""
    folder: str = ""
    """Folder in which processes coordinate its start and record its last use."""


class EmbedOptions(Struct, frozen=True):
    """Which model embeds, and its limits."""

    provider: str = "builtin"
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    """Resolved secret; never shown, logged or stored."""
    key_variable: str = ""
    """The environment variable named in the settings, if any."""
    batch_size: int = 0
    threads: int = 0
    timeout_s: float = 60.0
    dimensions: int = 0
    """Length of a vector; 0 means the model's own."""
    query_prefix: str = AUTO_PROVIDER
    document_prefix: str = AUTO_PROVIDER
    """Prefixes of a query and of a document."""
    ollama: OllamaOptions = OllamaOptions()
    cache_folder: str = ""
    """Folder for a copy of the built-in model that loads faster; empty: none is kept."""

    def __repr__(self) -> str:
        return _repr_without(self, "api_key")


RERANK_PROVIDERS = ("onnx", "local")
"""Accepted values for the cross-encoder's runtime."""


class RerankOptions(Struct, frozen=True):
    """Which cross-encoder reranks the first candidates, and its time limit; none if `model` is empty."""

    provider: str = "onnx"
    model: str = ""
    candidates: int = 20
    timeout_s: float = 2.0
    threads: int = 0


class SearchOptions(Struct, frozen=True):
    """What to return and how to rank it."""

    k: int = 5
    lane: Lane = Lane.HYBRID
    fusion: Fusion = Fusion.CONVEX
    filters: Filters = field(default_factory=Filters)
    token_budget: int = 0
    """Maximum tokens of the reply; 0 disables packing."""
    min_relevance: float = 0.0
    """Minimum probability that a hit is relevant."""
    trust: TrustFilter = TrustFilter.ANY
    """Minimum trust of a hit."""
    include_superseded: bool = False
    include_expired: bool = False
    freshness: bool = True
    """Whether the code that hits mention is checked."""
    one_per_memory: bool = False
    """Whether only the best chunk of a memory is returned."""


class ListOptions(Struct, frozen=True):
    """Which memories are listed."""

    include_superseded: bool = False
    include_expired: bool = False
    due: bool = False
    """Only memories that are due for review."""


DEFAULT_COLLECTION = "lorelog"


class StoreOptions(Struct, frozen=True):
    """Where the lanes are kept: next to the catalog, or in Milvus."""

    uri: str = ""
    """Empty: next to the catalog. A path ending in `.db`: Milvus Lite. A URL: a Milvus server or Zilliz Cloud."""
    token: str = ""
    per_project: bool = True
    """One collection for each project, else one for each tenant."""
    shared: bool = False
    """Share rows with other machines of the same tenant and projects."""
    collection: str = DEFAULT_COLLECTION
    """What the names of collections begin with."""
    retry_s: float = 20.0
    """Seconds to retry a Milvus server that does not answer."""

    @property
    def is_file(self) -> bool:
        """True for a Milvus Lite file."""
        return bool(self.uri) and "://" not in self.uri


class CacheOptions(Struct, frozen=True):
    """Caches of a process that answers many queries."""

    answers: bool = True
    answers_entries: int = 512
    """Not a setting."""


WARM_MODES = ("auto", "off", "required")
"""Whether commands use the daemon: when possible, never, or always."""
HOLD_MODES = ("unseen", "always", "off")
SUBAGENT_MODES = ("rules", "none", "all")
"""When a rule of the user stops a matching tool call once."""


class DaemonOptions(Struct, frozen=True):
    """How long the daemon stays, and its additional services."""

    warm: str = "auto"
    idle_s: float = 1800.0
    """Seconds without a call until it exits; 0 never exits."""
    model_idle_s: float = 600.0
    """Seconds without embedding until it unloads the model, and without any call until it restarts."""
    http: bool = False
    """Whether it also serves HTTP."""


class WatchOptions(Struct, frozen=True):
    """How file changes are followed."""

    enabled: bool = True
    """Whether the daemon watches the roots."""
    debounce_ms: int = 1500
    """Milliseconds without a change before indexing."""
    reconcile_s: float = 300.0
    """Seconds between full passes that repair missed events; 0 disables them."""


class HttpOptions(Struct, frozen=True):
    """HTTP address and credentials."""

    host: str = "127.0.0.1"
    port: int = 8222
    token: str = ""
    """Resolved secret; never logged."""
    require_token: bool = True
    """Whether the home's own token is required if none is configured."""
    max_body_bytes: int = 10_000_000
    channels: tuple[str, ...] = ()
    """Project directories of Loop's channels, as `CHANNEL_ID=/path`."""

    def __repr__(self) -> str:
        return _repr_without(self, "token")


class CaptureOptions(Struct, frozen=True):
    """What is captured from agents' sessions."""

    enabled: bool = True
    patterns: tuple[str, ...] = ()
    """Regular expressions of texts to redact, in addition to the built-in ones."""
    session_headings: bool = False
    """Whether the entries of each session have a heading of their own."""


class SessionOptions(Struct, frozen=True):
    """What a session is shown without asking."""

    budget: int = 600
    hits: int = 2
    hits_relevance: float = 0.1


LANGUAGE_PROVIDERS = ("none", "openai", "anthropic", "gemini", "ollama", "command", "host")
"""Accepted values; `none` disables language models. The others are in `models/chat`."""
SUMMARY_PROVIDERS = (*LANGUAGE_PROVIDERS, "llm")
"""Accepted values for notes; `none` extracts sentences, `llm` uses the provider of section [llm]."""


class LanguageOptions(Struct, frozen=True):
    """Which language model writes, and its limits."""

    provider: str = "none"
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    """Resolved secret; never shown, logged or stored."""
    key_variable: str = ""
    """Variable that holds the key; empty means the provider's own."""
    command: str = ""
    """A program and its arguments, for the provider `command`."""
    timeout_s: float = 120.0
    daily_tokens: int = 500_000
    window_tokens: int = 0
    """Tokens of input and output together; 0 means the provider's usual window."""
    ollama: OllamaOptions = field(default_factory=OllamaOptions)

    def __repr__(self) -> str:
        return _repr_without(self, "api_key")


class SummarizeOptions(LanguageOptions, frozen=True):
    """Which model writes session notes, and its limits."""

    timeout_s: float = 60.0
    daily_tokens: int = 200_000
    prompt: str = ""
    """File with instructions that replace the built-in prompt."""
    models: tuple[str, ...] = ()
    """Models of single hosts, as `HOST=MODEL`."""

    def for_host(self, host: str) -> SummarizeOptions:
        """Return the options with the model of a host's notes."""
        model = next((entry.partition("=")[2] for entry in self.models if entry.partition("=")[0] == host), "")
        return replace(self, model=model) if model else self


class TraceOptions(Struct, frozen=True):
    """Whether calls and errors are traced, and how much is kept."""

    enabled: bool = True
    days: int = 30
    megabytes: int = 64


class SpendOptions(Struct, frozen=True):
    """Daily token limits of language models."""

    notes: int = 200_000
    others: int = 500_000
    """For everything except notes."""
