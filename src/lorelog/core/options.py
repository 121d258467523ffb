"""Every knob, typed and frozen, on one screen. Where values come from is the business of `config/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lorelog.core.query import Filters, Fusion, Lane, Trusted


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """How Markdown is cut."""

    max_chunk_size: int = 1500
    overlap_lines: int = 2

    @property
    def recipe(self) -> str:
        """Name these rules; whoever changes what the same text and options give raises the number in front."""
        return f"2 {self.max_chunk_size} {self.overlap_lines}"


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Which files under the roots are read."""

    exclude: tuple[str, ...] = ()
    """gitignore-style patterns, relative to each root."""
    exclude_paths: tuple[str, ...] = ()
    """Absolute paths; each takes everything below it with it."""
    ignore_files: tuple[str, ...] = (".gitignore", ".lorelogignore")
    max_file_bytes: int = 10_000_000
    exclude_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further patterns for single roots, by real path."""
    unruled: frozenset[str] = frozenset()
    """Roots in which ignore files do not count: journals are remembered even where Git is told to pass them over."""


PROVIDERS = (
    "builtin",
    "openai",
    "google",
    "voyage",
    "jina",
    "mistral",
    "ollama",
    "local",
    "onnx",
    "fake",
    "none",
)
"""Names a setting may choose; `none` leaves it at words. Each of the others has a file in `models/`."""


AUTO = "auto"
"""What a setting says that leaves it to the model: nothing that could itself stand in front of a text."""


@dataclass(frozen=True, slots=True)
class OllamaOptions:
    """Whether and how an Ollama server is run in a container when none answers."""

    manage: bool = False
    image: str = "ollama/ollama:latest"
    container: str = "lorelog-ollama"
    volume: str = "lorelog-ollama"
    idle_s: float = 300.0
    """Seconds after the last use after which the container goes; 0 keeps it."""
    folder: str = ""
    """Where processes agree on who starts it and note when it was last used."""


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """Which model embeds, and how hard it may work."""

    provider: str = "builtin"
    model: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    """Resolved secret; never shown, logged or stored."""
    key_variable: str = ""
    """The environment variable that was to hold it, when the settings name one."""
    batch_size: int = 0
    threads: int = 0
    timeout_s: float = 60.0
    dimensions: int = 0
    """How many numbers a vector has; 0 leaves it to the model."""
    query_prefix: str = AUTO
    document_prefix: str = AUTO
    """What stands in front of a question and of a text."""
    ollama: OllamaOptions = OllamaOptions()


RERANKERS = ("onnx", "local")
"""Names a setting may choose for who runs a cross-encoder; each has a file in `models/`."""


@dataclass(frozen=True, slots=True)
class RerankOptions:
    """Which cross-encoder looks at the first candidates once more, and how long it may; none where no model is named."""

    provider: str = "onnx"
    model: str = ""
    candidates: int = 20
    timeout_s: float = 2.0
    threads: int = 0


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What to return and how to rank it."""

    k: int = 5
    lane: Lane = Lane.HYBRID
    fusion: Fusion = Fusion.CONVEX
    filters: Filters = field(default_factory=Filters)
    token_budget: int = 0
    """Tokens that the answer may cost its reader; 0 packs nothing."""
    min_relevance: float = 0.0
    """Hits that are less likely to be relevant than this are left out."""
    recency_weight: float = 0.0
    """What a text of today gains over one that is old."""
    half_life_days: float = 30.0
    """Days after which half of that is left."""
    trust: Trusted = Trusted.ANY
    """What a hit must be worth."""
    include_superseded: bool = False
    include_expired: bool = False
    freshness: bool = True
    """Whether the code that hits name is looked at."""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which of the memories are listed."""

    include_superseded: bool = False
    include_expired: bool = False
    due: bool = False
    """Only those that should be looked at again by now."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """In whose name records are written."""

    agent: str = ""
    """Who writes them where nobody is named."""
    identity: str = ""
    """Whose key signs them; empty signs none."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Where what finds things is kept: beside the catalog, or in a Milvus."""

    uri: str = ""
    """Empty: beside the catalog. A path that ends in `.db`: Milvus Lite. An address: a Milvus server, or Zilliz Cloud."""
    token: str = ""
    per_project: bool = True
    """One collection for each project, else one for all of a tenant's."""
    shared: bool = False
    """Whether other machines' rows of the same tenant and projects are found here, and ours there."""
    patience_s: float = 20.0
    """How long a Milvus that does not answer is asked again."""

    @property
    def is_file(self) -> bool:
        """Whether a file of Milvus Lite is meant."""
        return bool(self.uri) and "://" not in self.uri


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """What a process that answers many questions keeps between them."""

    answers: bool = True
    answers_entries: int = 512
    answers_ttl_s: float = 2700.0
    similar: float = 0.0
    """The cosine from which a question of the same wording is answered like the other; 0 answers only the same question."""
    hot: bool = False
    hot_bytes: int = 16_000_000


WARM = ("auto", "off", "required")
"""Whether commands go through the daemon: where they can, never, or not without it."""


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """How long the warm daemon stays, and what it does beside answering."""

    warm: str = "auto"
    idle_s: float = 1800.0
    """Seconds without a call after which it leaves; 0 stays."""
    model_idle_s: float = 600.0
    """Seconds without an embedding after which it lets the model go."""
    http: bool = False
    """Whether it also serves HTTP."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How files are followed as they change."""

    enabled: bool = True
    """Whether the daemon watches the roots."""
    debounce_ms: int = 1500
    """Milliseconds of quiet after a change before it is indexed."""
    reconcile_s: float = 300.0
    """Seconds between two passes that repair what events missed; 0 makes none."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Where HTTP is served, and who may ask."""

    host: str = "127.0.0.1"
    port: int = 8222
    token: str = field(default="", repr=False)
    """Resolved secret; never shown, logged or stored."""
    max_body_bytes: int = 10_000_000


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """What is kept of agents' sessions."""

    enabled: bool = True
    patterns: tuple[str, ...] = ()
    """Regular expressions of texts that no note may hold, beside those that are always taken out."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a session is shown unasked."""

    inject_bytes: int = 2000
    hits: int = 0
    hits_relevance: float = 0.5
    hits_wait_ms: int = 80


LANGUAGE_PROVIDERS = ("none", "openai", "anthropic", "gemini", "ollama", "command", "host")
"""Names a setting may choose for who writes; `none` asks nobody. Each of the others has a file in `models/`."""
SUMMARIZERS = (*LANGUAGE_PROVIDERS, "llm")
"""Names a setting may choose for who words notes; `none` takes sentences out, `llm` asks whom the section [llm] names."""


@dataclass(frozen=True, slots=True)
class LanguageOptions:
    """Which language model writes, and what that may cost."""

    provider: str = "none"
    model: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    """Resolved secret; never shown, logged or stored."""
    key_variable: str = ""
    """Where the key was looked for; empty takes the provider's own."""
    command: str = ""
    """A program and its arguments, for the provider `command`."""
    timeout_s: float = 120.0
    daily_tokens: int = 500_000
    window_tokens: int = 0
    """What question and answer may hold together; 0 takes what is usual for the provider."""
    ollama: OllamaOptions = field(default_factory=OllamaOptions)


@dataclass(frozen=True, slots=True)
class SummarizeOptions(LanguageOptions):
    """Who words the notes of a session, and what that may cost."""

    timeout_s: float = 60.0
    daily_tokens: int = 200_000
    prompt: str = ""
    """A file that tells the model how to write, in the place of the built-in text."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Whether calls and errors are traced, and how much of that is kept."""

    enabled: bool = True
    days: int = 30
    megabytes: int = 64


@dataclass(frozen=True, slots=True)
class SpendOptions:
    """Tokens a day that language models may cost."""

    notes: int = 200_000
    others: int = 500_000
    """For everything but notes."""
