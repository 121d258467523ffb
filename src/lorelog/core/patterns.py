"""Regular expressions that are compiled at first use.

`re.compile` takes 0.1 to 0.8 ms, and a short command imports a hundred patterns of which it uses a few. Type checkers
see a `re.Pattern`.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AnyStr

_ATTRIBUTES = (
    *("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn", "scanner"),
    *("pattern", "flags", "groups", "groupindex"),
)


class _UsedPattern:
    """Has the attributes of a compiled pattern. Without `__getattr__`, which would make every call of them slower."""


class _LazyPattern:
    """Stands for a pattern until one of its attributes is asked for."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name not in _ATTRIBUTES:
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        self.__dict__.update({attribute: getattr(compiled, attribute) for attribute in _ATTRIBUTES})
        self.__class__ = _UsedPattern  # type: ignore[assignment]
        return getattr(compiled, name)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern as `re.compile` does; errors in `source` are raised at first use."""
    return _LazyPattern(source, flags)  # type: ignore[return-value]
