"""Names as they are written in code, and what they are known by: the last part of a base, of a module, of a path to a symbol."""

from __future__ import annotations

import re

_FILE = re.compile(r"\.(?:h|hh|hpp|hxx|inc|[cm]?[jt]sx?|php|rb|css|json|vue|svelte)$")
_JOINTS = re.compile(r"\.|::|#|->")


def base_name(base: str) -> str:
    """Return the name that a base is known by: `Base[int]` is `Base`, `abc.ABC` is `ABC`, `ns::Vec<T>` is `Vec`."""
    words = re.findall(r"[^\W\d][\w$]*", re.split(r"[\[<({]", base, maxsplit=1)[0])
    return words[-1] if words else base


def tail_of(module: str) -> str:
    """Return the last part of a module's name, without the ending of a file."""
    last = re.split(r"/|::|\\", module.rstrip("/"))[-1]
    if "/" in module or "\\" in module or _FILE.search(last):
        return last.split(".", 1)[0] or last
    return last.rpartition(".")[2] or last


def ends_with(module: str, wanted: str) -> bool:
    """Say whether a module's name ends with a text, at a border between parts, endings of files left out."""
    parts, asked = _parts_of(module), _parts_of(wanted)
    return bool(asked) and parts[-len(asked) :] == asked


def _parts_of(module: str) -> list[str]:
    tail = tail_of(module)
    head = module[: module.rfind(tail)] if tail and tail in module else ""
    return [*(part for part in re.split(r"/|::|\\|\.", head) if part), tail]


def dotted(text: str) -> tuple[str, str]:
    """Return what stands around a symbol, and its name: `Engine.find()` is `Engine` and `find`."""
    parts = [part for part in _JOINTS.split(text.strip()) if part]
    return (parts[-2] if len(parts) > 1 else "", parts[-1].removesuffix("()") if parts else "")
