"""Operations on settings: `settings.list` and `settings.set`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import ConfigError
from lorelog.operations.operation import Operation
from lorelog.operations.requests import EmptyRequest
from lorelog.operations.settings import handlers, schema

_ABSENT_FOR_PERSONS = "settings belong to the person at this machine: the page, 'lorelog config' and Python change them"

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "settings.list",
        EmptyRequest,
        schema.SettingsReply,
        handlers.list_settings,
        absent={"http": _ABSENT_FOR_PERSONS, "mcp": _ABSENT_FOR_PERSONS},
    ),
    Operation(
        "settings.set",
        schema.SettingRequest,
        schema.SettingReply,
        handlers.set_setting,
        errors=(ConfigError,),
        absent={"http": _ABSENT_FOR_PERSONS, "mcp": _ABSENT_FOR_PERSONS},
    ),
)
