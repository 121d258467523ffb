"""The settings about language models: who writes, within which limits, and what it is told.

None of it is a project's choice: it decides where text and keys are sent, what is run on this machine, and what it costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lorelog.config.setting import ADDRESS, Kind, Setting
from lorelog.core.options import LANGUAGE_PROVIDERS

RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "compact.llm_provider": "llm.provider",
        "compact.llm_model": "llm.model",
        "compact.base_url": "llm.base_url",
        "compact.api_key": "llm.api_key",
        "compact.prompt_file": "prompts.compact",
    }
)
"""Keys that a settings file may still have from memsearch, and what each is now."""

LLM_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "llm.provider",
        Kind.TEXT,
        "none",
        "Who writes where something is to be written (`compact`): `openai` is any server that speaks its chat dialect, "
        "`anthropic` and `gemini` are those vendors, `ollama` a server of your own, `command` any program, `host` an "
        "agent's own program (`claude`, else `codex`), `none` nobody (docs/llm.md).",
        choices=LANGUAGE_PROVIDERS,
    ),
    Setting(
        "llm.model",
        Kind.TEXT,
        "",
        "The provider's model; empty takes the provider's default. For `host`, `codex/NAME` asks Codex.",
    ),
    Setting(
        "llm.base_url",
        Kind.TEXT,
        "",
        "Address of a compatible server; empty takes the provider's own.",
        pattern=ADDRESS,
        expected="an http:// or https:// address without user, password or query",
        repeatable=False,
    ),
    Setting(
        "llm.api_key",
        Kind.TEXT,
        "",
        "`env:NAME` reads the key from the variable NAME; empty takes the provider's own (OPENAI_API_KEY, "
        "ANTHROPIC_API_KEY, GEMINI_API_KEY or GOOGLE_API_KEY).",
        pattern=r"(env:[A-Za-z_][A-Za-z0-9_]*)?",
        expected="a reference such as env:ANTHROPIC_API_KEY, never the key itself",
        secret=True,
        repeatable=False,
    ),
    Setting(
        "llm.command",
        Kind.TEXT,
        "",
        "For `llm.provider = command`: a program with its arguments. It is given the question on its input and says the "
        "answer; no shell is involved.",
    ),
    Setting(
        "llm.timeout_s",
        Kind.NUMBER,
        120.0,
        "Seconds that one answer may take, with all that is tried again.",
        minimum=1,
        maximum=3600,
    ),
    Setting(
        "llm.daily_tokens",
        Kind.WHOLE,
        500_000,
        "Tokens a day that may be spent; a call that might exceed it is not begun. Notes of sessions are not counted: they "
        "have `summarize.daily_tokens`.",
        minimum=0,
        maximum=1_000_000_000,
    ),
    Setting(
        "llm.window_tokens",
        Kind.WHOLE,
        0,
        "Tokens that the model takes at once, question and answer together; 0 takes what is usual for the provider.",
        minimum=0,
        maximum=10_000_000,
    ),
    Setting(
        "prompts.compact",
        Kind.TEXT,
        "",
        "A file whose text tells the model how to summarize memories (`compact`), in the place of the built-in one.",
    ),
    Setting(
        "prompts.summarize",
        Kind.TEXT,
        "",
        "A file whose text tells the model how to write notes, where `summarize.prompt` names none.",
    ),
)
