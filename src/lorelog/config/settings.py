"""The settings of one run: the five layers they come from, every value with its origin, and the options built from them.

The layers are defaults < user file < project file < environment < flags. Each is validated on its own, so that an error names the
file or variable that contains it even if a higher layer overrides the value. A list in a higher layer replaces the lower one.

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
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.config.schema import SECTIONS, SETTINGS, SETTINGS_BY_KEY, Setting, SettingKind, SettingValue
from lorelog.core.errors import ConfigError, nearest_name
from lorelog.core.ids import sha256
from lorelog.core.options import (
    CacheOptions,
    CaptureOptions,
    ChunkOptions,
    DaemonOptions,
    EmbedOptions,
    HttpOptions,
    LanguageOptions,
    OllamaOptions,
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
from lorelog.core.paths import join_path
from lorelog.core.query import Fusion, Lane

USER_FILE = "config.toml"
PROJECT_FILE = ".lorelog.toml"
VARIABLE_PREFIX = "LORELOG_"
RESERVED_VARIABLES = frozenset(
    {
        *("LORELOG_HOME", "LORELOG_PROJECT", "LORELOG_DEBUG", "LORELOG_HOOKS", "LORELOG_HOOK_TIMEOUT_S"),
        *("LORELOG_ENCODER_DIR", "LORELOG_IDENTITY_PASSPHRASE", "LORELOG_TOKEN"),
    }
)
"""Variables that are no settings and are read elsewhere. They may resemble a setting's: LORELOG_SESSION_TOOL_HOOKS."""
MAX_FILE_BYTES = 1_000_000
"""A larger settings file is a mistake or an attack."""

Table = dict[str, object]
_CAPTURE_SKIP = "capture.skip"
_MEMSEARCH_SECTIONS = frozenset({"compact", "milvus", "plugins", "memsearch"})
"""Sections of memsearch that have no counterpart of the same name."""
_CONTROL_CHARACTERS = frozenset(map(chr, (*range(0x20), 0x7F)))
_WHOLE_NUMBER = r"[+-]?[0-9]{1,18}"
LIST_HINT = "`lorelog config list` shows every setting"
BOOLEAN_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def find_setting(key: str, place: str = "") -> Setting:
    """Return the setting of this key; raise ConfigError with the nearest key if there is none."""
    if key in SETTINGS_BY_KEY:
        return SETTINGS_BY_KEY[key]
    where = f" in {place}" if place else ""
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
    if isinstance(value, str | tuple):
        for text in (value,) if isinstance(value, str) else value:
            is_chosen = text in setting.choices if setting.choices else _CONTROL_CHARACTERS.isdisjoint(text)
            if not is_chosen or (setting.pattern and not re.fullmatch(setting.pattern, text)):
                raise_invalid_value(setting, text, place)
    elif not isinstance(value, bool) and not setting.limits[0] <= value <= setting.limits[1]:
        raise_invalid_value(setting, raw, place)
    return value


def parse_value(setting: Setting, text: str, place: str = "") -> SettingValue:
    if setting.kind is SettingKind.TEXT:
        return coerce_value(setting, text, place)
    text = text.strip()
    raw: object = None
    with suppress(ValueError, RecursionError):
        if setting.kind is SettingKind.SWITCH:
            raw = BOOLEAN_WORDS.get(text.lower())
        elif setting.kind is SettingKind.WHOLE:
            raw = int(text) if re.fullmatch(_WHOLE_NUMBER, text) else None
        elif setting.kind is SettingKind.NUMBER:
            raw = float(text)
        elif text.startswith("["):
            raw = json.loads(text)
        else:
            raw = [entry.strip() for entry in text.split(",") if entry.strip()]
    return coerce_value(setting, text if raw is None else raw, place)


def format_toml(value: SettingValue) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(format_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # a JSON text is a TOML basic string


def raise_invalid_value(setting: Setting, raw: object, place: str) -> NoReturn:
    """Raise ConfigError for a value that the setting does not accept."""
    text = "a table" if isinstance(raw, dict) else json.dumps(raw, ensure_ascii=False, default=str)
    shown = f" is {text if len(text) <= 80 else f'{text[:77]}…'}" if setting.repeatable else " is not valid"
    hint = format_suggestion(raw, setting.choices) if setting.choices and isinstance(raw, str) else ""
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

    def text(self, key: str) -> str:
        return cast("str", self.value(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the value of a setting that is a list."""
        return cast("tuple[str, ...]", self.value(key))

    def options(self, kind: type[OptionsType]) -> OptionsType:
        return self._fill(kind, _PLAIN_SECTIONS[kind])

    def tenant(self) -> str:
        return self.text("scope.tenant")

    def roots(self) -> tuple[str, ...]:
        """Return the files and directories to index, as real paths."""
        paths = self.texts("index.paths")
        return tuple(resolve_path(self.base, path) for path in paths if not path.startswith("!"))

    def remote_folders(self) -> tuple[str, ...]:
        """Return the directories in which remote clients may have new projects indexed, as real paths."""
        channels = (entry.partition("=")[2] for entry in self.texts("http.channels"))
        return tuple(resolve_path("/", path) for path in (*self.texts("index.remote_projects"), *channels))

    def scan_options(self) -> ScanOptions:
        """Return which files are read; the `!` entries of index.paths become excluded paths."""
        excluded = (path[1:] for path in self.texts("index.paths") if path.startswith("!"))
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
            query_prefix=self.text("embedding.query_prefix").replace("\\n", "\n"),
            document_prefix=self.text("embedding.document_prefix").replace("\\n", "\n"),
            ollama=self.options(OllamaOptions),
        )

    def search_options(self) -> SearchOptions:
        """Return what to return and how to rank it; the caller adds the filters."""
        lane, fusion = Lane(self.text("search.lane")), Fusion(self.text("search.fusion"))
        return self._fill(SearchOptions, "search", lane=lane, fusion=fusion)

    def rerank_options(self) -> RerankOptions:
        """Return which cross-encoder reranks, if any; it shares the embedder's thread limit."""
        return self._fill(RerankOptions, "rerank", threads=self.value("embedding.threads"))

    def http_options(self, environment: Mapping[str, str]) -> HttpOptions:
        """Return the HTTP address, with the token from the environment. Raise ConfigError if its variable is not set."""
        variable, token = self._secret("http.token", environment)
        if variable and not token:
            raise ConfigError(f"http.token refers to {variable}, which is not set", hint=f"export {variable}=…")
        return self._fill(HttpOptions, "http", token=token)

    def store_options(self, environment: Mapping[str, str], home: str) -> StoreOptions:
        """Return where the lanes are kept, with the token from the environment.

        A relative path starts at the home of all indexes: the index does not depend on the current directory.
        """
        uri = self.text("store.uri")
        return self._fill(
            StoreOptions,
            "store",
            uri=uri if not uri or "://" in uri else resolve_path(home, uri),
            token=self._secret("store.token", environment)[1],
        )

    def capture_options(self) -> CaptureOptions:
        """Return what is captured from sessions; a project may opt out, but not opt in."""
        enabled = bool(self.value("capture.enabled")) and not self.value("capture.skip")
        return self._fill(CaptureOptions, "capture", enabled=enabled, patterns=self.texts("redact.patterns"))

    def language_options(self, environment: Mapping[str, str]) -> LanguageOptions:
        """Return which language model writes, with its key from the environment."""
        key_variable, api_key = self._secret("llm.api_key", environment)
        return self._fill(
            LanguageOptions, "llm", api_key=api_key, key_variable=key_variable, ollama=self.options(OllamaOptions)
        )

    def summarize_options(self, environment: Mapping[str, str]) -> SummarizeOptions:
        """Return which model writes session notes, with its key from the environment.

        Settings that section [summarize] leaves empty are taken from [llm] if the provider is the same, or if [llm] names
        none. Another provider's address, or the key for another address, would be the wrong one.
        """
        fallback = self.language_options(environment)
        provider = self.text("summarize.provider")
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
            prompt=self.value("prompts.summarize"),
        )

    def spend_options(self) -> SpendOptions:
        limits = self.value("summarize.daily_tokens"), self.value("llm.daily_tokens")
        return SpendOptions(*cast("tuple[int, int]", limits))

    def _fill(self, options: Callable[..., OptionsType], section: str, **values: object) -> OptionsType:
        """Return options with each field set to the section's setting of the same name, unless given in `values`."""
        names = cast("Any", options).__struct_fields__  # `fields` would inspect the types
        for name in names:
            if name not in values and (key := f"{section}.{name}") in SETTINGS_BY_KEY:
                values[name] = self.value(key)
        return options(**values)

    def _secret(self, key: str, environment: Mapping[str, str]) -> tuple[str, Secret]:
        """Return the variable that a setting refers to, and its value; both empty if the setting is empty."""
        variable = self.text(key).removeprefix("env:")
        return variable, Secret(environment.get(variable, ""))


_PLAIN_SECTIONS: Mapping[type, str] = {
    CacheOptions: "cache",
    ChunkOptions: "chunking",
    DaemonOptions: "daemon",
    OllamaOptions: "ollama",
    SessionOptions: "session",
    TraceOptions: "traces",
    WatchOptions: "watch",
}


def resolve_path(base: str, path: str) -> str:
    """Return the real path of an entry of index.paths."""
    return os.path.realpath(join_path(base, path))


def load_settings(
    home: Path, project_dir: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Load all layers. Flags are keyed like settings; None means not given."""
    base = os.path.realpath(project_dir or ".")
    chosen = _user_layer(home / USER_FILE)
    if project_dir is not None:
        project = _project_layer(project_dir / PROJECT_FILE)
        if _CAPTURE_SKIP in chosen and chosen[_CAPTURE_SKIP].value:
            project.pop(_CAPTURE_SKIP, None)  # a clone may opt out of capture, but not opt in
        chosen.update(project)
    chosen.update(_environment_layer(environment))
    chosen.update(_flag_layer(flags))
    return Settings(base, chosen)


def read_table(path: Path) -> tuple[str, Table]:
    """Return a settings file's text and its parsed table; both empty if the file is absent."""
    text = _read_text(path)
    if not text:
        return "", {}
    import tomllib  # most runs have no file to read

    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", hint="correct that line, or remove the file") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply") from None


def _read_text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"cannot read settings from {path}: it is not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise ConfigError(f"cannot read settings from {path}: it is larger than {MAX_FILE_BYTES:,} bytes")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot read settings from {path}: {reason}", hint="check its owner and permissions"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} is not UTF-8 text (line {line})", hint="save the file as UTF-8") from None


def check_project_value(setting: Setting, value: SettingValue, path: Path) -> None:
    """Raise ConfigError unless a project file may set this value."""
    if not setting.project_allowed:
        raise ConfigError(
            f"{path} sets {setting.key}, which a project file may not set, because a clone may come from anyone",
            hint=f"set it in your own {USER_FILE} (`lorelog config set {setting.key} …`), "
            f"in {setting.variable} or by a flag, and remove it from {path.name}",
        )
    if setting.key == "index.paths" and isinstance(value, tuple):
        base = os.path.realpath(path.parent)
        for entry in value:
            place = resolve_path(base, entry.removeprefix("!"))
            if os.path.commonpath((base, place)) != base:
                raise ConfigError(
                    f"index.paths in {path} names {entry!r}, which is outside the project",
                    hint=f"a project file may only name paths inside its directory; others belong in your own {USER_FILE}",
                )


def _user_layer(path: Path) -> dict[str, ChosenValue]:
    return {
        key: ChosenValue(key, coerce_value(find_setting(key, str(path)), raw, str(path)), f"user: {path}")
        for key, raw in _flatten(read_table(path)[1], path)
        if raw != "" or key != "llm.provider"  # memsearch writes all keys: an empty one chooses nothing
    }


def _project_layer(path: Path) -> dict[str, ChosenValue]:
    chosen = {}
    for key, raw in _flatten(read_table(path)[1], path):
        setting = find_setting(key, str(path))
        if not setting.project_allowed:
            # Before its value is validated: the error is that it is set here at all.
            check_project_value(setting, "", path)
        value = coerce_value(setting, raw, str(path))
        check_project_value(setting, value, path)
        chosen[setting.key] = ChosenValue(setting.key, value, f"project: {path}")
    return chosen


_SETTINGS_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


def _environment_layer(environment: Mapping[str, str]) -> dict[str, ChosenValue]:
    chosen = {}
    for name in sorted(environment):
        setting = _SETTINGS_BY_VARIABLE.get(name)
        if setting is None:
            _check_variable(name)
        elif environment[name]:  # scripts export an empty variable to unset it
            value = parse_value(setting, environment[name], f"the environment variable {name}")
            chosen[setting.key] = ChosenValue(setting.key, value, f"environment: {name}")
    return chosen


def _check_variable(name: str) -> None:
    """Raise ConfigError if an unknown variable resembles one of ours; hosts and plugins have their own."""
    if not name.startswith(VARIABLE_PREFIX) or name in RESERVED_VARIABLES:
        return
    ours = any(name.startswith(f"{VARIABLE_PREFIX}{section.upper()}_") for section in SECTIONS)
    # Compare without the common prefix, which would make all of them similar.
    by_tail = {other.removeprefix(VARIABLE_PREFIX).lower(): other for other in _SETTINGS_BY_VARIABLE}
    near = closest_name(name.removeprefix(VARIABLE_PREFIX), by_tail, cutoff=0.5 if ours else 0.8)
    # LORELOG_TENANT for LORELOG_SCOPE_TENANT: a variable without its section must not be ignored silently.
    tail = "_" + name.removeprefix(VARIABLE_PREFIX).lower()
    near = near or next((other for other in by_tail if other.endswith(tail)), "")
    if ours or near:
        hint = f"did you mean {by_tail[near]}?" if near else "'lorelog docs configuration' lists the variables"
        raise ConfigError(f"unknown environment variable {name}", hint=hint)


def _flag_layer(flags: Mapping[str, object]) -> dict[str, ChosenValue]:
    chosen = {}
    for key, raw in flags.items():
        if raw is None:
            continue
        setting = find_setting(key, "a flag")
        written = isinstance(raw, str) and setting.kind is not SettingKind.TEXT
        value = parse_value(setting, str(raw), "a flag") if written else coerce_value(setting, raw, "a flag")
        chosen[key] = ChosenValue(key, value, "flag")
    return chosen


def _flatten(table: Table, path: Path) -> list[tuple[str, object]]:
    """Return `section.field` keys with their raw values; raise ConfigError for any other structure."""
    flat: list[tuple[str, object]] = []
    for section, content in table.items():
        if isinstance(content, dict) and section in SECTIONS:
            flat += [(f"{section}.{field}", raw) for field, raw in content.items()]
        elif isinstance(content, dict):
            hint = format_suggestion(section, SECTIONS) or "the sections are " + ", ".join(SECTIONS)
            if section in _MEMSEARCH_SECTIONS:
                hint = "it is memsearch's: 'lorelog import memsearch --settings' translates its settings"
            raise ConfigError(f"unknown section {section!r} in {path}", hint=hint)
        elif section in SECTIONS:
            raise ConfigError(
                f"{section} in {path} must be a section", hint=f"write [{section}] on a line of its own, settings below"
            )
        else:
            find_setting(section, str(path))
    return flat


def environment_digest(environment: Mapping[str, str]) -> bytes:
    """Return a hash of an environment: its values may be secrets, which nothing should keep."""
    return sha256(repr(sorted(environment.items())).encode("utf-8", "surrogateescape")).digest()


_SETTLED_NS = 100_000_000


def settings_stamp(path: str) -> object:
    """Return what changes with a settings file; None if it changed just now, and may change again at the same time."""
    try:
        status = Path(path).stat()
    except OSError:
        return "missing"
    if abs(time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns)) < _SETTLED_NS:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
