"""What a setting is: key, kind, default, meaning, what it accepts and who may choose it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Value = str | int | float | bool | tuple[str, ...]
"""What a setting holds once accepted."""
ADDRESS = r"(https?://((?![/?#@])[!-~])+(/((?![?#@])[!-~])*)?)?"
"""Of a server. No user, password, query or fragment: those carry secrets, and settings are shown and stored as they are."""


class Kind(StrEnum):
    """The types a setting can have, by the words the documentation uses."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    SWITCH = "true or false"
    LIST = "list of texts"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `pattern` is matched against a whole text, or against each entry of a list."""

    key: str
    kind: Kind
    default: Value
    meaning: str
    minimum: float = float("-inf")
    maximum: float = float("inf")
    choices: tuple[str, ...] = ()
    pattern: str = ""
    expected: str = ""
    """What is accepted, in words that follow "expected"; derived from kind and limits when empty."""
    project_allowed: bool = False
    secret: bool = False
    """Only a reference to an environment variable is accepted."""
    repeatable: bool = True
    """Whether an error may repeat a refused value; one that may hold a key or a password is not."""

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
        """What is accepted, as a phrase."""
        if self.expected:
            return self.expected
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind in (Kind.WHOLE, Kind.NUMBER):
            return f"a {self.kind} from {self.minimum:.16g} to {self.maximum:.16g}"
        return {Kind.TEXT: "a text", Kind.SWITCH: "true or false"}.get(self.kind, "a list of texts")
