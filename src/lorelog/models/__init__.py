"""Who computes? One file per provider; each keeps the contract of `core.ports.Embedder`.

This file is the register of providers. A provider's module is imported when it is opened and not before, so naming
providers, checking a setting or printing help costs neither numpy nor onnxruntime nor an HTTP client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

from lorelog.core.errors import ConfigError
from lorelog.core.options import AUTO, EmbedOptions
from lorelog.core.ports import Embedder


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known of a provider without loading it."""

    default_model: str
    batch_size: int
    """How many texts are handed over at once when the settings do not say."""
    load: Callable[[EmbedOptions], Embedder]
    any_model: bool = False
    """Whether model names are the server's business; otherwise the default model is the only one, and as it is."""
    at_once: int = 1
    """How many batches are under way at a time; so many are handed over together."""
    key_variable: str = ""
    url_variable: str = ""
    """Variables that hold a key and an address where the settings name none."""


_HERE = ("builtin", "fake")
"""Providers that need neither a server nor a package."""


def _builtin(options: EmbedOptions) -> Embedder:
    from lorelog.models.builtin import BuiltinEmbedder

    return BuiltinEmbedder(options)


def _remote(name: str) -> Callable[[EmbedOptions], Embedder]:
    """Return what opens the provider whose dialect stands in the module of its name."""

    def load(options: EmbedOptions) -> Embedder:
        from importlib import import_module

        from lorelog.models.remote import RemoteEmbedder

        dialect = import_module(f"lorelog.models.{name}").DIALECT
        return RemoteEmbedder(options, dialect, PROVIDERS[name].at_once)

    return load


def _ollama(options: EmbedOptions) -> Embedder:
    from lorelog.models.ollama import OllamaEmbedder

    return OllamaEmbedder(options, PROVIDERS["ollama"].at_once)


def _local(options: EmbedOptions) -> Embedder:
    from lorelog.models.local import LocalEmbedder

    return LocalEmbedder(options)


def _onnx(options: EmbedOptions) -> Embedder:
    from lorelog.models.onnx import OnnxEmbedder

    return OnnxEmbedder(options)


def _fake(options: EmbedOptions) -> Embedder:
    from lorelog.models.fake import FakeEmbedder

    return FakeEmbedder()


def _vendor(name: str, model: str, batch_size: int, url_variable: str = "") -> Provider:
    key_variable = f"{name.upper()}_API_KEY"
    return Provider(model, batch_size, _remote(name), True, 4, key_variable, url_variable)


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "builtin": Provider("e5-small-v2", 32, _builtin),
        "openai": _vendor("openai", "text-embedding-3-small", 256, "OPENAI_BASE_URL"),
        "google": _vendor("google", "gemini-embedding-001", 100),
        "voyage": _vendor("voyage", "voyage-3-lite", 128),
        "jina": _vendor("jina", "jina-embeddings-v4", 128),
        "mistral": _vendor("mistral", "mistral-embed", 64),
        "ollama": Provider(
            "nomic-embed-text",
            512,
            _ollama,
            any_model=True,
            key_variable="OLLAMA_API_KEY",
            url_variable="OLLAMA_HOST",
        ),
        "local": Provider("all-MiniLM-L6-v2", 512, _local, any_model=True),
        "onnx": Provider("gpahal/bge-m3-onnx-int8", 32, _onnx, any_model=True),
        "fake": Provider("fake-64", 256, _fake),
    },
)


def settled(options: EmbedOptions, environment: Mapping[str, str]) -> EmbedOptions:
    """Return the options with the key and address that a provider's own variables hold, where the settings name none.

    Of the environment of whoever asks: a daemon has another.
    """
    provider = PROVIDERS.get(options.provider)
    if provider is None or not provider.key_variable:
        return options
    if options.provider == "google" and environment.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in {"1", "true"}:
        # Texts would go to another service of Google's than the one that was chosen for them.
        raise ConfigError(
            "GOOGLE_GENAI_USE_VERTEXAI asks for Vertex AI, which is not spoken here: only the Gemini API is",
            hint="unset it, or choose another embedding.provider",
        )
    variable = options.key_variable or provider.key_variable
    secret: type[str] = type(options.api_key)  # one that does not show itself stays one
    return replace(
        options,
        api_key=options.api_key or secret(environment.get(variable, "")),
        key_variable=variable,
        base_url=options.base_url or environment.get(provider.url_variable, ""),
    )


def open_embedder(options: EmbedOptions) -> Embedder:
    """Return the embedder that the options name. Raise ConfigError when there is none such."""
    provider = PROVIDERS.get(options.provider)
    if provider is None:
        raise ConfigError(
            f"unknown embedding provider {options.provider!r}",
            hint=_suggest(options.provider, list(PROVIDERS)),
        )
    if options.model not in {"", provider.default_model} and not provider.any_model:
        raise ConfigError(
            f"the provider {options.provider!r} has no model {options.model!r}",
            hint=_suggest(options.model, [provider.default_model]),
        )
    if not provider.any_model:
        _check_plain(options)
    return provider.load(
        replace(
            options,
            model=options.model or provider.default_model,
            batch_size=options.batch_size or provider.batch_size,
            key_variable=options.key_variable or provider.key_variable,
        )
    )


def former_embedder(options: EmbedOptions, name: str) -> Embedder | None:
    """Return the embedder that vectors of a name (`provider/model`) were made with, or None where it is not to be asked.

    Only a provider that computes here, or the one that is chosen now, at its address and with its key: texts do not go to
    a server that nobody chooses any more.
    """
    provider, _, model = name.partition("/")
    if provider == options.provider:
        plain, _, _ = model.partition("+")
        named, _, size = plain.rpartition("@")
        dimensions = int(size) if named and size.isdecimal() else 0
        chosen = replace(options, model=named if dimensions else plain, dimensions=dimensions)
    elif provider in _HERE:
        chosen = EmbedOptions(provider, model)
    else:
        return None
    for tried in (chosen, replace(chosen, query_prefix=AUTO, document_prefix=AUTO)):
        with suppress(ConfigError):
            embedder = open_embedder(tried)
            if embedder.model == model:
                return embedder
    return None


def texts_at_once(options: EmbedOptions) -> int:
    """Return how many texts an embedder is handed together: as many as it has under way at a time."""
    provider = PROVIDERS[options.provider]
    return (options.batch_size or provider.batch_size) * provider.at_once


def is_remote(options: EmbedOptions) -> bool:
    """Say whether a server embeds, here or elsewhere."""
    return bool(PROVIDERS[options.provider].key_variable)


def _check_plain(options: EmbedOptions) -> None:
    """Raise ConfigError where settings would shape the vectors of a model that has one shape only."""
    chosen = {
        "embedding.dimensions": options.dimensions != 0,
        "embedding.query_prefix": options.query_prefix != AUTO,
        "embedding.document_prefix": options.document_prefix != AUTO,
    }
    for key, is_chosen in chosen.items():
        if is_chosen:
            raise ConfigError(
                f"{key} does not go with the provider {options.provider!r}, whose model is as it is",
                hint=f"lorelog config unset {key}, or choose another embedding.provider",
            )


def _suggest(name: str, valid: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name.lower(), valid, n=2, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"use one of: {', '.join(valid)}"
