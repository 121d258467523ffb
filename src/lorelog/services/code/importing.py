"""Who imports a module: by its own name, from below it, relative to where the importing file lies."""

from __future__ import annotations

import posixpath
import re

from lorelog.code.tables import CodeTables, Imported
from lorelog.core.code import Import

_PARTS = re.compile(r"/|::|\\|\.")
_ENDING = re.compile(r"\.(?:pyi?|[cm]?[jt]sx?|go|rs|java|rb|php|kt|swift|scala|cs|lua|sh)$")
_FOLDER_FILES = ("__init__", "index", "mod")


def find_importers(tables: CodeTables, root: str, module: str) -> list[Imported]:
    """Return the imports that a name or path of a module, or a name that is taken from one, is meant by; the exact ones first."""
    wanted = _wanted(module)
    if not wanted:
        return []
    roots = [root]
    named = _ENDING.sub("", module.strip("/")) if "/" in module else module
    found = dict.fromkeys(
        [
            *tables.importers(module, roots),
            *(tables.importers(named, roots) if named != module else ()),
            *(tables.importers(wanted[-1], roots) if len(wanted) > 1 else ()),
            *tables.importers_of(wanted[-1], roots),
        ]
    )
    ranked = [(rank, one) for one in found if (rank := _rank(one, module, wanted)) is not None]
    ranked.sort(key=lambda pair: (pair[0], pair[1].path, pair[1].what.line, pair[1].what.column))
    return [one for _, one in ranked]


def _wanted(module: str) -> list[str]:
    """Return the parts of what is asked for; of a file's path, without its ending."""
    text = _ENDING.sub("", module.strip()) if "/" in module else module.strip()
    parts = [part for part in _PARTS.split(text) if part and part != "@"]
    if "/" in module and parts and parts[-1] in _FOLDER_FILES:
        parts.pop()
    return parts


def _rank(one: Imported, module: str, wanted: list[str]) -> int | None:
    """Return how well an import fits: 0 the module itself, 1 something of it or below it, 2 one whose name ends so; None: not."""
    what = one.what
    if what.module == module:
        return 0
    parts = _absolute(one.path, what, one.language)
    if parts[: len(wanted)] == wanted:
        return 1
    taken = [parts, [*parts, what.name]] if what.name and what.name != "*" else [parts]
    # Of two names, one may begin further up: `src/app/core.py` is imported as `app.core`.
    ends = any(full[-len(wanted) :] == wanted or (len(full) > 1 and wanted[-len(full) :] == full) for full in taken)
    return 2 if ends else None


def _absolute(importer: str, what: Import, language: str) -> list[str]:
    """Return the parts of an imported module's name, from the top of the working tree where it is written relative to its file."""
    module = what.module
    folder = posixpath.dirname(importer)
    if language == "python" and module.startswith("."):
        rest = module.lstrip(".")
        for _ in range(len(module) - len(rest) - 1):
            folder = posixpath.dirname(folder)
        return [*filter(None, folder.split("/")), *filter(None, rest.split("."))]
    if module.startswith(("./", "../")) or module in {".", ".."}:
        whole = posixpath.normpath(posixpath.join(folder, module))
        return [part for part in _ENDING.sub("", whole).split("/") if part not in {"", "."}]
    return [part for part in _PARTS.split(_ENDING.sub("", module) if "/" in module else module) if part]
