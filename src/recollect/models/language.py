"""Who writes? The register of language models; each keeps the contract of `core.ports.LanguageModel`.

As with embedders, a provider's module is imported when it is opened and not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from recollect.core.errors import ConfigError
from recollect.core.options import SummarizeOptions
from recollect.core.ports import LanguageModel

PROVIDERS = ("host", "openai")
URL_VARIABLE = "OPENAI_BASE_URL"
"""Holds the address of a server where the settings name none, as for embeddings."""


def open_language(options: SummarizeOptions, host: str, environment: Mapping[str, str]) -> LanguageModel | None:
    """Return the model that the options name, for work about this host's sessions.

    None where only the host itself can ask its model, from inside. Raise ConfigError when there is no such provider.
    """
    if options.provider == "openai":
        from recollect.models.language_openai import OpenAILanguage

        return OpenAILanguage(replace(options, base_url=options.base_url or environment.get(URL_VARIABLE, "")))
    if options.provider == "host":
        from recollect.models.language_host import DIALECTS, HostLanguage

        return HostLanguage(host, options, environment) if host in DIALECTS else None
    raise ConfigError(
        f"unknown language model provider {options.provider!r}", hint=f"use one of: {', '.join(PROVIDERS)}"
    )
