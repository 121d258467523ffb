"""Who writes? The register of language models; each keeps the contract of `core.ports.LanguageModel`.

As with embedders, a provider's module is imported when it is opened and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lorelog.core.errors import ConfigError
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import LanguageModel

Load = Callable[[LanguageOptions, str, Mapping[str, str]], LanguageModel | None]
_AGENTS = ("claude", "codex")
"""Whose programs can be asked for work that is about no session, in this order."""


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known of a provider before it is opened."""

    load: Load
    window_tokens: int
    """What its models take at once, as a rule; the settings know better."""
    key_variables: tuple[str, ...] = ()
    """Hold its key where the settings name none; the first that is set counts."""
    url_variable: str = ""
    """Holds the address of a server where the settings name none, as for embeddings."""


def _openai(options: LanguageOptions, host: str, environment: Mapping[str, str]) -> LanguageModel:
    from lorelog.models.language_openai import OpenAILanguage

    return OpenAILanguage(options)


def _anthropic(options: LanguageOptions, host: str, environment: Mapping[str, str]) -> LanguageModel:
    from lorelog.models.language_anthropic import TONGUE
    from lorelog.models.language_remote import RemoteLanguage

    return RemoteLanguage(options, TONGUE)


def _gemini(options: LanguageOptions, host: str, environment: Mapping[str, str]) -> LanguageModel:
    from lorelog.models.language_gemini import TONGUE
    from lorelog.models.language_remote import RemoteLanguage

    return RemoteLanguage(options, TONGUE)


def _ollama(options: LanguageOptions, host: str, environment: Mapping[str, str]) -> LanguageModel:
    from lorelog.models.language_ollama import OllamaLanguage

    return OllamaLanguage(options)


def _command(options: LanguageOptions, host: str, environment: Mapping[str, str]) -> LanguageModel:
    from lorelog.models.language_command import CommandLanguage

    return CommandLanguage(options, environment)


def _host(options: LanguageOptions, host: str, environment: Mapping[str, str]) -> LanguageModel | None:
    """Return an agent's own model: the one whose session it is about, or else the one that is named or found.

    None for an agent that only its plugin can ask.
    """
    from lorelog.models.language_host import DIALECTS, HostLanguage, find_program

    if not host:
        named, _, model = options.model.partition("/")
        if named in DIALECTS:
            return HostLanguage(named, replace(options, model=model), environment)
        found = (one for one in _AGENTS if find_program(DIALECTS[one].program, environment))
        host = next(found, _AGENTS[0])
    return HostLanguage(host, options, environment) if host in DIALECTS else None


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "openai": Provider(_openai, 100_000, ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
        "anthropic": Provider(_anthropic, 180_000, ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
        "gemini": Provider(_gemini, 500_000, ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
        "ollama": Provider(_ollama, 8192, ("OLLAMA_API_KEY",), "OLLAMA_HOST"),
        "command": Provider(_command, 32_000),
        "host": Provider(_host, 100_000),
    }
)


def open_language(options: LanguageOptions, host: str, environment: Mapping[str, str]) -> LanguageModel | None:
    """Return the model that the options name, for work about this host's sessions; without one, about none.

    None where only the host itself can ask its model, from inside. Raise ConfigError when there is no such provider.
    """
    return _provider(options).load(settled(options, environment), host, environment)


def check_language(options: LanguageOptions, environment: Mapping[str, str]) -> str:
    """Return who would be asked, and for which model. Raise LorelogError where its key or program is missing; asks nobody."""
    model = open_language(options, "", environment)
    check = getattr(model, "check", None)
    if check is not None:
        check()
    return f"{model.provider}/{model.model}" if model is not None else options.provider


def settled(options: LanguageOptions, environment: Mapping[str, str]) -> LanguageOptions:
    """Return the options with what a provider's own variables and custom say, where the settings say nothing."""
    provider = _provider(options)
    variables = (options.key_variable,) if options.key_variable else provider.key_variables
    variable = next((one for one in variables if environment.get(one)), next(iter(variables), ""))
    secret: type[str] = type(options.api_key)  # one that does not show itself stays one
    return replace(
        options,
        api_key=options.api_key or secret(environment.get(variable, "")),
        key_variable=variable,
        base_url=options.base_url or environment.get(provider.url_variable, ""),
        window_tokens=options.window_tokens or provider.window_tokens,
    )


def _provider(options: LanguageOptions) -> Provider:
    provider = PROVIDERS.get(options.provider)
    if provider is None:
        raise ConfigError(
            f"unknown language model provider {options.provider!r}", hint=f"use one of: {', '.join(PROVIDERS)}"
        )
    return provider
