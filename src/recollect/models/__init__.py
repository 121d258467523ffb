"""Who computes? One file per provider; each keeps the contract of `core.ports.Embedder`.

This file is the register of providers. A provider's module is imported when it is opened and not before, so naming
providers, checking a setting or printing help costs neither numpy nor onnxruntime nor an HTTP client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from recollect.core.errors import ConfigError
from recollect.core.options import EmbedOptions
from recollect.core.ports import Embedder


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known of a provider without loading it."""

    default_model: str
    batch_size: int
    """How many texts are handed over at once when the settings do not say."""
    load: Callable[[EmbedOptions], Embedder]
    any_model: bool = False
    """Whether model names are the server's business; otherwise the default model is the only one."""
    key_variable: str = ""
    url_variable: str = ""
    """Variables that hold a key and an address where the settings name none."""


def _builtin(options: EmbedOptions) -> Embedder:
    from recollect.models.builtin import BuiltinEmbedder

    return BuiltinEmbedder(options)


def _openai(options: EmbedOptions) -> Embedder:
    from recollect.models.openai import OpenAIEmbedder

    return OpenAIEmbedder(options)


def _fake(options: EmbedOptions) -> Embedder:
    from recollect.models.fake import FakeEmbedder

    return FakeEmbedder()


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "builtin": Provider("e5-small-v2", 32, _builtin),
        "openai": Provider(
            "text-embedding-3-small",
            256,
            _openai,
            any_model=True,
            key_variable="OPENAI_API_KEY",
            url_variable="OPENAI_BASE_URL",
        ),
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
    return provider.load(options)


def _suggest(name: str, valid: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name.lower(), valid, n=2, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"use one of: {', '.join(valid)}"
