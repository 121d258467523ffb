"""Who is wired to whom, where models write or are paid for? Settings become the way to a language model here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lorelog.config import Settings
from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.options import LANGUAGE_PROVIDERS, EmbedOptions, LanguageOptions
from lorelog.core.ports import Embedder, LanguageModel
from lorelog.services.place import Place

if TYPE_CHECKING:
    from lorelog.services.gate import Gate
    from lorelog.services.session.summarize import Summarizer


def summarizer(settings: Settings, home: Path, environment: Mapping[str, str], place: Place) -> Summarizer | None:
    """Return who words notes of sessions, or None where sentences are taken out.

    Whoever asks may be a hook whose environment was not sent along: keys and programs are those of this process, then.
    """
    environment = {**os.environ, **environment}
    options = settings.summarizing(environment)
    if options.provider == "none":
        return None
    from lorelog.ingest.redact import redact
    from lorelog.models.language import open_language
    from lorelog.services.session.host_summaries import PluginLanguage, folder_of
    from lorelog.services.session.summarize import Summarizer

    patterns = settings.capturing().patterns

    def gate_for(host: str, session: str) -> Gate:
        chosen = _settled(options, home, environment)
        asked = open_language(chosen, host, environment)
        model = asked or PluginLanguage(folder_of(home), host, session, chosen.timeout_s)
        return _gate(model, chosen, place, host)

    return Summarizer(gate_for, prompt_file(home, options.prompt), lambda text: redact(text, patterns).text)


def language(
    settings: Settings, home: Path, environment: Mapping[str, str], place: Place, named: str = ""
) -> Gate | None:
    """Return the way to the language model that the settings choose for all but notes; None where nobody is asked.

    `named` is a provider, or a provider and a model with a stroke between them, that is asked instead.
    """
    environment = {**os.environ, **environment}
    options = _named(named, settings.language(environment))
    if options.provider == "none":
        return None
    from lorelog.models.language import open_language

    options = _settled(options, home, environment)
    return _gate(cast("LanguageModel", open_language(options, "", environment)), options, place)


def check_language(
    settings: Settings, home: Path, environment: Mapping[str, str]
) -> Iterator[tuple[str, str, LorelogError | None]]:
    """Yield each setting that chooses who writes, who that is, and what it lacks: a key, or a program. Asks nobody."""
    environment = {**os.environ, **environment}
    for setting, options in (
        ("llm.provider", settings.language(environment)),
        ("summarize.provider", settings.summarizing(environment)),
    ):
        if options.provider == "none" or (setting, options.provider) == ("summarize.provider", "host"):
            continue  # notes of a session are then worded by whichever agent's it is
        from lorelog.models.language import check_language as check

        try:
            yield setting, check(_settled(options, home, environment), environment), None
        except LorelogError as error:
            yield setting, options.provider, error


def prompt_file(home: Path, path: str) -> str:
    """Return where a file lies that tells a model how to write; relative paths start at the home. Empty stays empty."""
    return os.path.join(home, os.path.expanduser(path)) if path else ""  # noqa: PTH111, PTH118


def counted(embedder: Embedder | None, options: EmbedOptions, place: Place) -> Embedder | None:
    """Return an embedder that writes down what it costs, where a server computes."""
    if embedder is None:
        return None
    from lorelog.models import is_remote

    if not is_remote(options):
        return embedder
    from lorelog.services.counted import CountedEmbedder
    from lorelog.services.receipts import Receipts

    return CountedEmbedder(embedder, Receipts.of(place.tenant_folder), place.project.id)


def _named(named: str, options: LanguageOptions) -> LanguageOptions:
    """Return the options with another provider and model. Address and key of one provider are not for another."""
    if not named:
        return options
    provider, _, model = named.partition("/")
    if provider not in LANGUAGE_PROVIDERS:
        raise UsageError(f"there is no provider {provider!r}", hint=f"one of {', '.join(LANGUAGE_PROVIDERS)}")
    if provider == options.provider:
        return replace(options, model=model or options.model)
    own = LanguageOptions(provider, model, command=options.command, ollama=options.ollama)
    return replace(own, timeout_s=options.timeout_s, daily_tokens=options.daily_tokens)


def _gate(model: LanguageModel, options: LanguageOptions, place: Place, host: str = "") -> Gate:
    from lorelog.services.gate import Gate, Terms
    from lorelog.services.receipts import Receipts

    terms = Terms(options.daily_tokens, options.timeout_s, options.window_tokens, place.project.id, host)
    return Gate(model, Receipts.of(place.tenant_folder), terms)


def _settled(options: LanguageOptions, home: Path, environment: Mapping[str, str]) -> LanguageOptions:
    """Return the options with what the provider's own variables say, and where processes of a home agree on a container."""
    from lorelog.models.language import settled

    return settled(replace(options, ollama=replace(options.ollama, folder=str(home / "ollama"))), environment)
