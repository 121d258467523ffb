"""The settings of one run: every value with its origin, and the options built from them.

Also converts and validates values: `coerce_value` takes typed values (TOML, flags), `parse_value` takes text
(environment, `config set`). Both are strict and raise ConfigError with the accepted values: a boolean is not a number
and a text is not a one-entry list, because a guess here shows up much later as a search without results. `place` names
the origin of the value in messages, after "in"; empty for a value just typed.

A secret is resolved from its `env:NAME` reference only here, at the last moment and into the options alone, so nothing
that shows, stores or compares settings ever holds it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import fields, replace

from lorelog.config.schema import RENAMED_KEYS, SECTIONS, SETTINGS, SETTINGS_BY_KEY
from lorelog.config.setting import Setting, SettingKind, SettingValue
from lorelog.core.errors import ConfigError
from lorelog.core.grammar import nearest_name
from lorelog.core.options import (
    CacheOptions,
    CaptureOptions,
    ChunkOptions,
    DaemonOptions,
    EmbedOptions,
    HttpOptions,
    LanguageOptions,
    OllamaOptions,
    RecordOptions,
    RerankOptions,
    ScanOptions,
    SearchOptions,
    SessionOptions,
    SpendOptions,
    StoreOptions,
    SummarizeOptions,
    TraceOptions,
    WatchOptions,
)
from lorelog.core.query import Fusion, Lane

CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
LIST_HINT = "`lorelog config list` shows every setting"
BOOLEAN_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def find_setting(key: str, place: str = "") -> Setting:
    """Return the setting of this key; raise ConfigError with the nearest key if there is none."""
    if key in SETTINGS_BY_KEY:
        return SETTINGS_BY_KEY[key]
    where = f" in {place}" if place else ""
    if key in RENAMED_KEYS:
        raise ConfigError(f"{key!r}{where} is now {RENAMED_KEYS[key]}", hint=f"use {RENAMED_KEYS[key]}")
    section, _, field = key.partition(".")
    if key in SECTIONS:
        fields = ", ".join(name for name in SETTINGS_BY_KEY if name.startswith(f"{key}."))
        raise ConfigError(f"{key!r}{where} is a section, not a setting", hint=f"its settings are {fields}")
    if field and section not in SECTIONS:
        hint = format_suggestion(key, SETTINGS_BY_KEY) or format_suggestion(section, SECTIONS)
        raise ConfigError(f"unknown section {section!r} of {key!r}{where}", hint=hint or LIST_HINT)
    raise ConfigError(f"unknown setting {key!r}{where}", hint=format_suggestion(key, SETTINGS_BY_KEY) or LIST_HINT)


def closest_name(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the most similar known name, or an empty text."""
    names = list(names)
    same_field = next((full for full in names if full.endswith(f".{name}")), "")
    return same_field or nearest_name(name.lower(), names, cutoff=cutoff)


def format_suggestion(name: str, names: Iterable[str]) -> str:
    """Return "did you mean …?", or an empty text."""
    near = closest_name(name, names)
    return f"did you mean {near}?" if near else ""


def coerce_value(setting: Setting, raw: object, place: str) -> SettingValue:
    """Return the validated value of a typed input."""
    value = _coerce_type(setting, raw)
    if value is None:
        raise_invalid_value(setting, raw, place)
    if isinstance(value, tuple):
        for entry in value:
            _check_text(setting, entry, place)
    elif isinstance(value, str):
        _check_text(setting, value, place)
    elif not isinstance(value, bool) and not setting.minimum <= value <= setting.maximum:
        raise_invalid_value(setting, raw, place)
    return value


def parse_value(setting: Setting, text: str, place: str = "") -> SettingValue:
    """Return the validated value of a text."""
    if setting.kind is SettingKind.TEXT:
        return coerce_value(setting, text, place)
    text = text.strip()
    raw: object = None
    if setting.kind is SettingKind.SWITCH:
        raw = BOOLEAN_WORDS.get(text.lower())
    elif setting.kind is SettingKind.WHOLE:
        raw = int(text) if WHOLE_NUMBER.fullmatch(text) else None
    elif setting.kind is SettingKind.NUMBER:
        raw = _parse_number(text)
    else:
        raw = _parse_list(text)
    if raw is None:
        raise_invalid_value(setting, text, place)
    return coerce_value(setting, raw, place)


def format_toml(value: SettingValue) -> str:
    """Format a value as TOML."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(format_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # a JSON text is a TOML basic string


def raise_invalid_value(setting: Setting, raw: object, place: str, hint: str = "") -> NoReturn:
    """Raise ConfigError for a value that the setting does not accept."""
    shown = f" is {_format_raw(raw)}" if setting.repeatable else " is not valid"
    if not hint and setting.choices and isinstance(raw, str):
        hint = format_suggestion(raw, setting.choices)
    if not hint and setting.secret:
        hint = "put the key into an environment variable and refer to it as env:NAME"
    where = f" in {place}" if place else ""
    raise ConfigError(f"{setting.key}{shown}{where}: expected {setting.accepts}", hint=hint)


def _coerce_type(setting: Setting, raw: object) -> SettingValue | None:
    kind = setting.kind
    if isinstance(raw, bool):  # a bool is an int in Python, but not here
        return raw if kind is SettingKind.SWITCH else None
    if isinstance(raw, str):
        return str(raw) if kind is SettingKind.TEXT else None  # a StrEnum becomes plain text
    if isinstance(raw, list | tuple):
        entries = tuple(str(entry) for entry in raw if isinstance(entry, str))
        return entries if kind is SettingKind.LIST and len(entries) == len(raw) else None
    if isinstance(raw, int) and abs(raw) < 1 << 53:  # larger integers are not exact as floats
        return {SettingKind.WHOLE: raw, SettingKind.NUMBER: float(raw)}.get(kind)
    return raw if isinstance(raw, float) and kind is SettingKind.NUMBER else None


def _check_text(setting: Setting, text: str, place: str) -> None:
    if CONTROL_CHARACTERS.search(text):
        raise_invalid_value(setting, text, place)
    if setting.choices and text not in setting.choices:
        raise_invalid_value(setting, text, place)
    if setting.pattern and not re.fullmatch(setting.pattern, text):
        raise_invalid_value(setting, text, place)


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _parse_list(text: str) -> list[object] | None:
    """Parse a JSON array, or else comma-separated entries."""
    if not text.startswith("["):
        return [entry.strip() for entry in text.split(",") if entry.strip()]
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entries if isinstance(entries, list) else None


def _format_raw(raw: object) -> str:
    if isinstance(raw, dict):
        return "a table"
    if isinstance(raw, str | int | float | list | tuple):
        text = json.dumps(raw, ensure_ascii=False, default=str)
    else:
        text = str(raw)
    return text if len(text) <= 80 else f"{text[:77]}…"


DEFAULT_ORIGIN = "default"
OptionsType = TypeVar("OptionsType")


class ChosenValue(Struct, frozen=True):
    """A value and the layer that chose it."""

    key: str
    value: SettingValue
    origin: str
    """`default`, `user: PATH`, `project: PATH`, `environment: NAME` or `flag`."""


class Secret(str):
    """A text whose repr hides it in tracebacks and logs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


class Settings(Struct, frozen=True):
    """The effective settings. Layers above the defaults are in `choices`; relative paths start at `base`."""

    base: str
    choices: Mapping[str, ChosenValue] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Messages about deprecated keys."""

    def value(self, key: str) -> SettingValue:
        """Return a setting's value; raise ConfigError with the nearest key if there is no such setting."""
        setting = find_setting(key)
        return self.choices[key].value if key in self.choices else setting.default

    def origin(self, key: str) -> str:
        """Return the layer that chose the value."""
        find_setting(key)
        return self.choices[key].origin if key in self.choices else DEFAULT_ORIGIN

    def __iter__(self) -> Iterator[ChosenValue]:
        """Yield every setting in the order of the documentation."""
        for setting in SETTINGS:
            yield ChosenValue(setting.key, self.value(setting.key), self.origin(setting.key))

    def tenant(self) -> str:
        """Return the tenant whose memories are used."""
        return self._text("scope.tenant")

    def allowed_tenants(self) -> tuple[str, ...]:
        """Return the tenants that a scope file may name."""
        return self._texts("scope.tenants")

    def all_projects(self) -> bool:
        """Return whether a search covers all projects."""
        return bool(self.value("search.all_projects"))

    def auto_memory(self) -> bool:
        """Return whether a host's own memory files are indexed automatically."""
        return bool(self.value("index.auto_memory"))

    def compact_prompt(self) -> str:
        """Return the prompt file for summaries, as written."""
        return self._text("prompts.compact")

    def roots(self) -> tuple[str, ...]:
        """Return the files and directories to index, as real paths."""
        paths = self._texts("index.paths")
        return tuple(resolve_path(self.base, path) for path in paths if not path.startswith("!"))

    def remote_folders(self) -> tuple[str, ...]:
        """Return the directories in which remote clients may have new projects indexed, as real paths."""
        channels = (entry.partition("=")[2] for entry in self._texts("http.channels"))
        return tuple(resolve_path("/", path) for path in (*self._texts("index.remote_projects"), *channels))

    def chunk_options(self) -> ChunkOptions:
        """Return how Markdown is split."""
        return self._fill(ChunkOptions, "chunking")

    def scan_options(self) -> ScanOptions:
        """Return which files are read; the `!` entries of index.paths become excluded paths."""
        excluded = (path[1:] for path in self._texts("index.paths") if path.startswith("!"))
        return self._fill(ScanOptions, "index", exclude_paths=tuple(resolve_path(self.base, path) for path in excluded))

    def embed_options(self, environment: Mapping[str, str]) -> EmbedOptions:
        """Return which model embeds, with its key from the environment."""
        key_variable, api_key = self._secret("embedding.api_key", environment)
        return self._fill(
            EmbedOptions,
            "embedding",
            api_key=api_key,
            key_variable=key_variable,
            # A setting cannot contain a line break, so `\n` is written for one.
            query_prefix=self._text("embedding.query_prefix").replace("\\n", "\n"),
            document_prefix=self._text("embedding.document_prefix").replace("\\n", "\n"),
            ollama=self._ollama_options(),
        )

    def search_options(self) -> SearchOptions:
        """Return what to return and how to rank it; the caller adds the filters."""
        lane, fusion = Lane(self._text("search.lane")), Fusion(self._text("search.fusion"))
        return self._fill(SearchOptions, "search", lane=lane, fusion=fusion)

    def rerank_options(self) -> RerankOptions:
        """Return which cross-encoder reranks, if any; it shares the embedder's thread limit."""
        return self._fill(RerankOptions, "rerank", threads=self.value("embedding.threads"))

    def cache_options(self) -> CacheOptions:
        """Return what is cached between queries."""
        return self._fill(CacheOptions, "cache")

    def daemon_options(self) -> DaemonOptions:
        """Return how long the daemon stays, and its additional services."""
        return self._fill(DaemonOptions, "daemon")

    def watch_options(self) -> WatchOptions:
        """Return how file changes are followed."""
        return self._fill(WatchOptions, "watch")

    def http_options(self, environment: Mapping[str, str]) -> HttpOptions:
        """Return the HTTP address, with the token from the environment. Raise ConfigError if its variable is not set."""
        variable, token = self._secret("http.token", environment)
        if variable and not token:
            raise ConfigError(f"http.token refers to {variable}, which is not set", hint=f"export {variable}=…")
        return self._fill(HttpOptions, "http", token=token)

    def record_options(self) -> RecordOptions:
        """Return the writer of new records."""
        return self._fill(RecordOptions, "records")

    def store_options(self, environment: Mapping[str, str], home: str) -> StoreOptions:
        """Return where the lanes are kept, with the token from the environment.

        A relative path starts at the home of all indexes: the index does not depend on the current directory.
        """
        uri = self._text("store.uri")
        return self._fill(
            StoreOptions,
            "store",
            uri=uri if not uri or "://" in uri else resolve_path(home, uri),
            token=self._secret("store.token", environment)[1],
        )

    def capture_options(self) -> CaptureOptions:
        """Return what is captured from sessions; a project may opt out, but not opt in."""
        enabled = bool(self.value("capture.enabled")) and not self.value("capture.skip")
        return self._fill(CaptureOptions, "capture", enabled=enabled, patterns=self._texts("redact.patterns"))

    def session_options(self) -> SessionOptions:
        """Return what a session is shown without asking."""
        return self._fill(SessionOptions, "session")

    def language_options(self, environment: Mapping[str, str]) -> LanguageOptions:
        """Return which language model writes, with its key from the environment."""
        key_variable, api_key = self._secret("llm.api_key", environment)
        return self._fill(
            LanguageOptions, "llm", api_key=api_key, key_variable=key_variable, ollama=self._ollama_options()
        )

    def summarize_options(self, environment: Mapping[str, str]) -> SummarizeOptions:
        """Return which model writes session notes, with its key from the environment.

        Settings that section [summarize] leaves empty are taken from [llm] if the provider is the same, or if [llm] names
        none. Another provider's address, or the key for another address, would be the wrong one.
        """
        fallback = self.language_options(environment)
        provider = self._text("summarize.provider")
        provider = fallback.provider if provider == "llm" else provider
        if fallback.provider not in {provider, "none"}:
            fallback = LanguageOptions(provider, ollama=fallback.ollama)
        if self.value("summarize.base_url") not in {"", fallback.base_url}:
            fallback = replace(fallback, api_key=Secret(""), key_variable="")
        key_variable, api_key = self._secret("summarize.api_key", environment)
        return self._fill(
            SummarizeOptions,
            "summarize",
            provider=provider,
            model=self.value("summarize.model") or fallback.model,
            base_url=self.value("summarize.base_url") or fallback.base_url,
            api_key=api_key if key_variable else fallback.api_key,
            key_variable=key_variable or fallback.key_variable,
            command=self.value("llm.command"),
            window_tokens=fallback.window_tokens,
            ollama=fallback.ollama,
            prompt=self.value("summarize.prompt") or self.value("prompts.summarize"),
        )

    def spend_options(self) -> SpendOptions:
        """Return the daily token limits of language models."""
        limits = self.value("summarize.daily_tokens"), self.value("llm.daily_tokens")
        return SpendOptions(*cast("tuple[int, int]", limits))

    def trace_options(self) -> TraceOptions:
        """Return whether calls and errors are traced, and how much is kept."""
        return self._fill(TraceOptions, "traces")

    def _ollama_options(self) -> OllamaOptions:
        return self._fill(OllamaOptions, "ollama")

    def _fill(self, options: Callable[..., OptionsType], section: str, **values: object) -> OptionsType:
        """Return options with each field set to the section's setting of the same name, unless given in `values`."""
        for option in fields(cast("Any", options)):
            key = f"{section}.{option.name}"
            if option.name not in values and key in _KEYS:
                values[option.name] = self.value(key)
        return options(**values)

    def _text(self, key: str) -> str:
        return cast("str", self.value(key))

    def _texts(self, key: str) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self.value(key))

    def _secret(self, key: str, environment: Mapping[str, str]) -> tuple[str, Secret]:
        """Return the variable that a setting refers to, and its value; both empty if the setting is empty."""
        variable = self._text(key).removeprefix("env:")
        return variable, Secret(environment.get(variable, ""))


_KEYS = frozenset(setting.key for setting in SETTINGS)


def resolve_path(base: str, path: str) -> str:
    """Return the real path of an entry of index.paths."""
    return os.path.realpath(os.path.join(base, os.path.expanduser(path)))  # noqa: PTH111, PTH118  # one call, no Path
