"""Requests and replies of `settings.*`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from lorelog.core.serializable import ReplyItems
from lorelog.operations.replies import OperationReply
from lorelog.operations.requests import OperationRequest, Text

JsonValue = str | int | float | bool | tuple[str, ...]


class SettingRequest(OperationRequest, frozen=True):
    """A setting to write to a settings file, or to remove from it."""

    key: Annotated[str, Meta(min_length=1, max_length=200, description="Name of the setting, such as search.k.")]
    value: Annotated[
        Text | None,
        Meta(description="The new value, as in 'lorelog config set'; not given, the setting is removed from the file."),
    ] = None
    local: Annotated[bool, Meta(description="Use this project's .lorelog.toml instead of ~/.lorelog/config.toml.")] = (
        False
    )


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

    items_field = "settings"

    settings: tuple[SettingInfo, ...]
    user_file: str
    project_file: str
    notes: tuple[str, ...]


class SettingReply(OperationReply, frozen=True, kw_only=True):
    """A setting after a change."""

    key: str
    path: str
    changed: bool
    """False if there was nothing to remove."""
    setting: SettingInfo
    notes: tuple[str, ...]
