"""Operations on settings: `settings.list` and `settings.set`.

They read and change the files as `lorelog config` does, with the same checks: both call `wiring`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from lorelog import wiring
from lorelog.core.errors import ConfigError, LorelogError
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, reply_from
from lorelog.operations.requests import EmptyRequest, OperationRequest, Text, about

OPERATIONS = OperationFamily()
JsonValue = str | int | float | bool | tuple[str, ...]


class SettingRequest(OperationRequest, frozen=True):
    """A setting to write to a settings file, or to remove from it."""

    key: Annotated[str, about("Name of the setting, such as search.k.", min_length=1, max_length=200)]
    value: Annotated[
        Text | None,
        about("The new value, as in 'lorelog config set'; not given, the setting is removed from the file."),
    ] = None
    local: Annotated[bool, about("Use this project's .lorelog.toml instead of ~/.lorelog/config.toml.")] = False


class SettingInfo(OperationReply, frozen=True, kw_only=True):
    """A setting: its value, the origin of the value, and the values it accepts."""

    key: str
    section: str
    value: JsonValue
    text: str
    """The value as 'lorelog config set' takes it."""
    layer: str
    """`default`, `user`, `project`, `environment` or `flag`."""
    origin: str
    """The layer with its file or variable."""
    default: JsonValue
    kind: str
    choices: tuple[str, ...]
    accepts: str
    meaning: str
    variable: str
    project_allowed: bool


class SettingsReply(ReplyItems[SettingInfo], OperationReply, frozen=True, kw_only=True):
    """All settings, and the files that they can be changed in."""

    settings: tuple[SettingInfo, ...]
    user_file: str
    project_file: str


class SettingReply(OperationReply, frozen=True, kw_only=True):
    """A setting after a change."""

    key: str
    path: str
    changed: bool
    """False if there was nothing to remove."""
    setting: SettingInfo
    notes: tuple[str, ...]


MODEL_KEYS = frozenset({"embedding.provider", "embedding.model", "embedding.dimensions", "embedding.api_key"})
"""Settings after whose change vectors are missing."""


@OPERATIONS.declare("settings.list", needs="settings")
def list_settings(engine: Engine, request: EmptyRequest, call: RequestContext) -> SettingsReply:
    """List every setting with its value, the origin of the value, and the values that it accepts."""
    location = _location(engine, request, call)
    return SettingsReply(
        settings=tuple(_read_settings(location).values()),
        user_file=str(wiring.settings_file(location, of_project=False)),
        project_file=str(wiring.settings_file(location, of_project=True)),
    )


@OPERATIONS.declare("settings.set", errors=(ConfigError,), needs="settings")
def set_setting(engine: Engine, request: SettingRequest, call: RequestContext) -> SettingReply:
    """Change a setting in your settings file or the project's, or remove it from there.

    The value is checked as 'lorelog config set' checks it; the file keeps its comments. `setting` is the effective value
    afterwards.
    """
    location = _location(engine, request, call)
    changed = wiring.change_setting(location, request.key, request.value, of_project=request.local)
    path = str(wiring.settings_file(location, of_project=request.local))
    setting = _read_settings(location)[request.key]
    notes = model_notes(location) if changed and request.key in MODEL_KEYS else ()
    if request.value is not None and not setting.origin.endswith(path):
        notes = (f"{setting.origin} takes precedence: {setting.key} is {setting.text}", *notes)
    return SettingReply(key=request.key, path=path, changed=changed, setting=setting, notes=notes)


def model_notes(location: wiring.Location) -> tuple[str, ...]:
    """Return what is missing for the embedding model that is configured now, and how its vectors are made."""
    notes = []
    try:
        wiring.check_embedder(location, wiring.settings_at(location))
    except LorelogError as error:
        notes.append(f"{error.message}; {error.hint}" if error.hint else error.message)
    with suppress(LorelogError), wiring.open_engine(location) as engine:
        if engine.embedder is not None and not engine.store.serves_model():
            notes.append("what is indexed needs new vectors: 'lorelog index --reembed' makes them")
    return tuple(notes)


def _location(engine: Engine, request: OperationRequest, call: RequestContext) -> wiring.Location:
    return wiring.resolve_location(
        home=engine.place.home,
        project=request.project,
        directory=call.directory,
        environment=call.environment,
        tenant=request.tenant,
    )


def _read_settings(location: wiring.Location) -> dict[str, SettingInfo]:
    chosen = {setting.key: setting for setting in wiring.settings_at(location)}
    return {
        declared.key: reply_from(
            declared,
            SettingInfo,
            value=(value := chosen[declared.key].value),
            text=value if isinstance(value, str) else wiring.format_setting(value),
            layer=chosen[declared.key].origin.partition(":")[0],
            origin=chosen[declared.key].origin,
            kind=str(declared.kind),
        )
        for declared in wiring.setting_declarations()
    }
