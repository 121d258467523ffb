"""The declaration of one setting: key, default, meaning, accepted values and permissions."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

SettingValue = str | int | float | bool | tuple[str, ...]
"""The type of a validated value."""
URL_PATTERN = r"(https?://((?![/?#@])[!-~])+(/((?![?#@])[!-~])*)?)?"
"""URL of a server. No user, password, query or fragment: those carry secrets, and settings are shown and stored."""


class SettingKind(StrEnum):
    """The type of a setting, in the documentation's words."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    SWITCH = "true or false"
    LIST = "list of texts"


_KINDS = {
    str: SettingKind.TEXT,
    int: SettingKind.WHOLE,
    float: SettingKind.NUMBER,
    bool: SettingKind.SWITCH,
    tuple: SettingKind.LIST,
}


class Setting(Struct, frozen=True):
    """One setting. `pattern` is matched against a whole text, or against each entry of a list."""

    key: str
    default: SettingValue
    meaning: str
    limits: tuple[float, float] = (float("-inf"), float("inf"))
    """The least and the greatest number."""
    choices: tuple[str, ...] = ()
    pattern: str = ""
    expected: str = ""
    """Accepted values, as a phrase that follows "expected"; derived from kind and limits if empty."""
    project_allowed: bool = False
    secret: bool = False
    """Accepts only a reference to an environment variable."""
    repeatable: bool = True
    """Whether an error may quote a rejected value; False if it may contain a key or a password."""

    @property
    def kind(self) -> SettingKind:
        """The kind of its values: that of the default."""
        return _KINDS[type(self.default)]

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    @property
    def field(self) -> str:
        return self.key.partition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"LORELOG_{self.section}_{self.field}".upper()

    @property
    def accepts(self) -> str:
        """Accepted values, as a phrase."""
        if self.expected:
            return self.expected
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind in (SettingKind.WHOLE, SettingKind.NUMBER):
            return f"a {self.kind} from {self.limits[0]:.16g} to {self.limits[1]:.16g}"
        return {SettingKind.TEXT: "a text", SettingKind.SWITCH: "true or false"}.get(self.kind, "a list of texts")


def url_setting(key: str, meaning: str) -> Setting:
    """Return a setting for the URL of a server."""
    expected = "an http:// or https:// address without user, password or query"
    return Setting(key, "", meaning, pattern=URL_PATTERN, expected=expected, repeatable=False)


def secret_setting(key: str, meaning: str, *, example: str) -> Setting:
    """Return a setting for a reference to a secret in an environment variable."""
    noun = "token" if key.endswith("token") else "key"
    expected = f"a reference such as env:{example}, never the {noun} itself"
    pattern = r"(env:[A-Za-z_][A-Za-z0-9_]*)?"
    return Setting(key, "", meaning, pattern=pattern, expected=expected, secret=True, repeatable=False)
