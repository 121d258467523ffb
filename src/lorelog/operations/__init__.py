"""Operations: the verbs of lorelog, each a typed request, a handler over the engine and a typed reply.

Each family is a package with `OPERATIONS` in `__init__`, requests and replies in `schema`, handlers in `handlers`, and
in `serialize` the conversion of core values whose JSON has other names. Not for business logic: that is in `services`.
"""

from __future__ import annotations

import sys


def import_msgspec() -> None:
    """Import msgspec without typing_extensions, which it would load if installed; that takes longer than msgspec.

    With Python 3.11 it needs nothing from there. For a process of our own that has one thread so far: another
    thread could not import typing_extensions meanwhile.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]
