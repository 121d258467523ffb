"""JSON for processes that live for milliseconds: warm commands and hooks.

The package `json` imports `re`, and that imports `enum`: 14 ms, as long as Python takes to start. The C functions below it
need neither. They are private to CPython, so `json` itself does what they do not take, and names every fault.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WHITESPACE = " \t\n\r"
_INDENT = "  "


class _ScanOptions:
    """What `json.JSONDecoder` passes to the C scanner: its defaults."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012  (the C scanner has its own)

    @staticmethod
    def parse_constant(name: str) -> float:
        """Return the number of `NaN`, `Infinity` or `-Infinity`."""
        return float(name)


def loads(data: str | bytes | bytearray) -> Any:
    """Return the value of a JSON text, as `json.loads` does."""
    if _scan is not None:
        try:
            text = (data if isinstance(data, str) else data.decode()).strip(_WHITESPACE)
            value, end = _scan(text, 0)
            if end == len(text):
                return value
        except (ValueError, StopIteration, SystemError):
            pass  # before Python 3.13 the C function names no fault unless `json` is imported, which is a SystemError
    import json

    return json.loads(data)


def read_objects(data: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects in lines, in order. Torn and invalid lines are skipped."""
    objects: list[dict[str, Any]] = []
    for line in data.split(b"\n"):
        try:
            value = loads(line) if line else None
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects


def dumps(value: Any, *, ensure_ascii: bool = True) -> str:
    if _make_encoder is not None:
        try:
            quote = _quote_ascii if ensure_ascii else _quote
            encode = _make_encoder({}, _refuse, quote, None, ": ", ", ", False, False, True)
            return "".join(encode(value, 0))
        except (TypeError, ValueError):
            pass
    import json

    return json.dumps(value, ensure_ascii=ensure_ascii)


def dumps_indented(value: Any) -> str:
    """Return a value of plain JSON types in lines, as `json.dumps(value, ensure_ascii=False, indent=2)` does."""
    if _make_encoder is None:
        import json

        return json.dumps(value, ensure_ascii=False, indent=2)
    parts: list[str] = []
    _add_lines(value, "\n", parts)
    return "".join(parts)


def _add_lines(value: Any, line_end: str, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(_quote(value))
    elif not isinstance(value, (dict, list, tuple)) or not value:
        parts.append(dumps(value, ensure_ascii=False))
    else:
        is_object = isinstance(value, dict)
        separator = inner = line_end + _INDENT
        parts.append("{" if is_object else "[")
        for item in value:
            parts.append(separator)
            if is_object:
                # A name that is no text becomes one: 1 is written "1", and None "null".
                parts += (_quote(item) if isinstance(item, str) else dumps({item: 0})[1:-4], ": ")
            _add_lines(value[item] if is_object else item, inner, parts)
            separator = f",{inner}"
        parts += (line_end, "}" if is_object else "]")


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


_scan: Callable[[str, int], tuple[Any, int]] | None = None
_make_encoder: Callable[..., Callable[[Any, int], tuple[str, ...]]] | None = None
try:
    import _json

    _quote, _quote_ascii = _json.encode_basestring, _json.encode_basestring_ascii
    _scan = _json.make_scanner(_ScanOptions)  # type: ignore[arg-type]
    _json.make_encoder({}, _refuse, _quote, None, ": ", ", ", False, False, True)
    _make_encoder = _json.make_encoder
except (ImportError, AttributeError, TypeError):  # another Python
    _scan = _make_encoder = None
