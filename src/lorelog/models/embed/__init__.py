"""Registry of embedding providers, one module each; every embedder implements `core.ports.Embedder`.

A provider's module is imported when its embedder is opened: listing providers, checking a setting or printing help must
not load numpy, onnxruntime or an HTTP client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import ConfigError
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Embedder, TokenReportingEmbedder, Vector


class EmbeddingProvider(Struct, frozen=True, kw_only=True):
    """Registry entry of a provider, available without loading its module."""

    default_model: str
    batch_size: int
    """Texts per request unless the settings say otherwise."""
    accepts_any_model: bool = False
    """Whether any model name is passed to the server; otherwise only the default model exists."""
    accepts_folder: bool = False
    """Whether an absolute path may name a copy of the default model."""
    parallel_batches: int = 1
    """Batches in flight at a time."""
    key_variable: str = ""
    url_variable: str = ""
    """Environment variables for the key and the base URL if the settings have none."""


_VENDOR_MODELS = {
    "openai": ("text-embedding-3-small", 256),
    "google": ("gemini-embedding-001", 100),
    "voyage": ("voyage-3-lite", 128),
    "jina": ("jina-embeddings-v4", 128),
    "mistral": ("mistral-embed", 64),
}
"""Default model and batch size of the providers whose adapters are in `remote`."""


PROVIDERS: Mapping[str, EmbeddingProvider] = {
    "builtin": EmbeddingProvider(default_model="lorelog-2", batch_size=32, accepts_folder=True),
    **{
        name: EmbeddingProvider(
            default_model=model,
            batch_size=batch_size,
            accepts_any_model=True,
            parallel_batches=4,
            key_variable=f"{name.upper()}_API_KEY",
            url_variable="OPENAI_BASE_URL" if name == "openai" else "",
        )
        for name, (model, batch_size) in _VENDOR_MODELS.items()
    },
    "ollama": EmbeddingProvider(
        default_model="nomic-embed-text",
        batch_size=512,
        accepts_any_model=True,
        key_variable="OLLAMA_API_KEY",
        url_variable="OLLAMA_HOST",
    ),
    "local": EmbeddingProvider(default_model="all-MiniLM-L6-v2", batch_size=512, accepts_any_model=True),
    "onnx": EmbeddingProvider(default_model="gpahal/bge-m3-onnx-int8", batch_size=32, accepts_any_model=True),
    "fake": EmbeddingProvider(default_model="fake-64", batch_size=256),
}


def resolve_embed_options(options: EmbedOptions, environment: Mapping[str, str]) -> EmbedOptions:
    """Return the options with key and base URL filled in from the provider's environment variables.

    `environment` is the caller's: a daemon's own environment differs.
    """
    provider = PROVIDERS.get(options.provider)
    if provider is None or not provider.key_variable:
        return options
    if options.provider == "google" and environment.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in {"1", "true"}:
        # Texts would go to a different Google service than the configured one.
        raise ConfigError(
            "GOOGLE_GENAI_USE_VERTEXAI selects Vertex AI, which is not supported: only the Gemini API is",
            hint="unset the variable, or choose another embedding.provider",
        )
    variable = options.key_variable or provider.key_variable
    secret: type[str] = type(options.api_key)  # keep a type whose repr hides the key
    return replace(
        options,
        api_key=options.api_key or secret(environment.get(variable, "")),
        key_variable=variable,
        base_url=options.base_url or environment.get(provider.url_variable, ""),
    )


def open_embedder(options: EmbedOptions) -> Embedder:
    """Return the embedder that the options select. Raise ConfigError for an unknown provider or model."""
    provider = PROVIDERS.get(options.provider)
    if provider is None:
        raise ConfigError(
            f"unknown embedding provider {options.provider!r}", hint=_suggest(options.provider, list(PROVIDERS))
        )
    is_own = options.model in {"", provider.default_model} or (
        provider.accepts_folder and Path(options.model).is_absolute()
    )
    if not is_own and not provider.accepts_any_model:
        raise ConfigError(
            f"the provider {options.provider!r} has no model {options.model!r}",
            hint=_suggest(options.model, [provider.default_model]),
        )
    plain = EmbedOptions()
    for name in () if provider.accepts_any_model else ("dimensions", "query_prefix", "document_prefix"):
        if getattr(options, name) != getattr(plain, name):
            raise ConfigError(
                f"embedding.{name} cannot be set for the provider {options.provider!r}: its model is fixed",
                hint=f"lorelog config unset embedding.{name}, or choose another embedding.provider",
            )
    options = replace(
        options,
        model=options.model or provider.default_model,
        batch_size=options.batch_size or provider.batch_size,
        key_variable=options.key_variable or provider.key_variable,
    )
    if options.provider == "fake":
        from lorelog.models.embed.fake import FakeEmbedder

        return FakeEmbedder()
    if options.provider == "builtin":
        from lorelog.models.embed.builtin import BuiltinEmbedder

        return BuiltinEmbedder(options)
    if options.provider in _VENDOR_MODELS:
        from lorelog.models.embed.remote import ADAPTERS, RemoteEmbedder

        return RemoteEmbedder(options, ADAPTERS[options.provider], provider.parallel_batches)
    if options.provider == "ollama":
        from lorelog.models.ollama import open_ollama_embedder

        return open_ollama_embedder(options, provider.parallel_batches)
    from lorelog.models.embed.custom import LocalEmbedder, OnnxEmbedder

    return LocalEmbedder(options) if options.provider == "local" else OnnxEmbedder(options)


def check_ready(options: EmbedOptions) -> str:
    """Return a description of the embedder. Raise ConfigError or ModelUnavailable if a key, package or file is missing.

    It raises the error of the first call as far as that can be determined without opening a connection or loading a model.
    """
    embedder = open_embedder(options)
    try:
        check = getattr(embedder, "check", None)
        location = check() if check is not None else ""
    finally:
        embedder.close()
    return f"{embedder.provider}/{embedder.model}{location}"


def max_texts_in_flight(options: EmbedOptions) -> int:
    """Return how many texts to pass to one `embed_documents` call: all that can be in flight at a time."""
    provider = PROVIDERS[options.provider]
    return (options.batch_size or provider.batch_size) * provider.parallel_batches


def is_remote(options: EmbedOptions) -> bool:
    """Return True if texts are sent to a server, local or remote."""
    return bool(PROVIDERS[options.provider].key_variable)


def _suggest(name: str, valid: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name.lower(), valid, n=2, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"use one of: {', '.join(valid)}"


class SharedEmbedder:
    """An embedder shared by several callers that unloads its model after a period without calls."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._lock = Lock()
        self._users = 0
        self._used: float | None = None
        self.provider = inner.provider
        self.model = inner.model

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        with self._in_use():
            return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return self.embed_query_with_usage(text).vectors[0]

    def embed_query_with_usage(self, text: str) -> EmbeddedTexts:
        """Embed a query; include its token count if the model reports one."""
        with self._in_use():
            if isinstance(self._inner, TokenReportingEmbedder):
                return self._inner.embed_query_with_usage(text)
            return EmbeddedTexts((self._inner.embed_query(text),))

    def close_if_idle(self, idle_s: float) -> bool:
        """Unload the model unless it is in use or was used within `idle_s`; return True if it is unloaded."""
        with self._lock:
            if self._used is None:
                return True
            if self._users or monotonic() - self._used < idle_s:
                return False
            self._used = None
            self._inner.close()
            return True

    def close(self) -> None:
        self._inner.close()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            self._used = monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                self._used = monotonic()
