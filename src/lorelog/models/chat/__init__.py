"""Registry of chat model providers; every model implements `core.ports.LanguageModel`.

As with embedders, a provider's module is imported when its model is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import ConfigError
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import LanguageModel


class ChatProvider(Struct, frozen=True):
    """Registry entry of a provider, available without loading its module."""

    window_tokens: int
    """Usual context window of its models; the settings override it."""
    key_variables: tuple[str, ...] = ()
    """Environment variables for the key if the settings name none; the first that is set is used."""
    url_variable: str = ""
    """Environment variable for the base URL if the settings have none."""


CHAT_PROVIDERS: Mapping[str, ChatProvider] = {
    "openai": ChatProvider(100_000, ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "anthropic": ChatProvider(180_000, ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
    "gemini": ChatProvider(500_000, ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "ollama": ChatProvider(8192, ("OLLAMA_API_KEY",), "OLLAMA_HOST"),
    "command": ChatProvider(32_000),
    "host": ChatProvider(100_000),
}


_PLUGIN_HOSTS = frozenset({"opencode", "openclaw"})
"""Hosts whose plugin calls the model for notes: the session that they are about is still running then."""


def open_language_model(
    options: LanguageOptions, host: str, environment: Mapping[str, str], said_to: Sequence[str] = ()
) -> LanguageModel | None:
    """Return the model that the options select, for work about a session of `host`, or about no session if it is empty.

    With the provider `host`, work about no session is done by the agent that the model's name begins with; else by the first of
    `said_to` whose program is installed; else by the first agent that is. None if only the host itself can call its model,
    through its plugin. Raise ConfigError for an unknown provider.
    """
    options = resolve_language_options(options, environment)
    if options.provider == "host":
        from lorelog.models.chat.programs import AGENT_CLI_ADAPTERS, AgentCliLanguageModel, find_program

        agent, _, model = options.model.partition("/")
        if not host and agent in AGENT_CLI_ADAPTERS:  # named in the settings
            return AgentCliLanguageModel(agent, replace(options, model=model), environment)
        if host in _PLUGIN_HOSTS:
            return None
        known = [name for name in (*said_to, *AGENT_CLI_ADAPTERS) if name in AGENT_CLI_ADAPTERS]
        found = (name for name in known if find_program(name, environment))
        return AgentCliLanguageModel(host or next(found, known[0]), options, environment)
    if options.provider == "command":
        from lorelog.models.chat.programs import CommandLanguageModel

        return CommandLanguageModel(options, environment)
    if options.provider == "ollama":
        from lorelog.models.ollama import open_ollama_model

        return open_ollama_model(options)
    from lorelog.models.chat.remote import open_vendor_model

    return open_vendor_model(options)


def check_language_model(options: LanguageOptions, environment: Mapping[str, str]) -> str:
    """Return the name of the model that would be used. Raise LorelogError if its key or program is missing. Sends nothing."""
    model: Any = open_language_model(options, "", environment)
    model.check()
    return f"{model.provider}/{model.model}"


def resolve_language_options(options: LanguageOptions, environment: Mapping[str, str]) -> LanguageOptions:
    """Return the options with defaults from the provider and its environment variables where the settings have none."""
    provider = CHAT_PROVIDERS.get(options.provider)
    if provider is None:
        raise ConfigError(
            f"unknown language model provider {options.provider!r}", hint=f"use one of: {', '.join(CHAT_PROVIDERS)}"
        )
    variables = (options.key_variable,) if options.key_variable else provider.key_variables
    variable = next((name for name in variables if environment.get(name)), " or ".join(variables))
    secret: type[str] = type(options.api_key)  # keep a type whose repr hides the key
    return replace(
        options,
        api_key=options.api_key or secret(environment.get(variable, "")),
        key_variable=variable,
        base_url=options.base_url or environment.get(provider.url_variable, ""),
        window_tokens=options.window_tokens or provider.window_tokens,
    )
