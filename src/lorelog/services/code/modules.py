"""Which file a module is: whether what an import names, written in one file, is another file of the same working tree.

Asked this way round, and not "which file is it", because whoever asks has definitions at hand and wants to know which of
them an import leads to; so nobody has to know where a language's compiler looks for modules. Python and relative paths
are exact. Elsewhere a module is compared with the end of a path, as people do.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import cache

Exists = Callable[[str], bool]
"""Says whether there is a file, by its path relative to the root."""

_SCRIPTS = frozenset({"javascript", "typescript", "tsx"})
_SCRIPT_ENDING = re.compile(r"(?:\.d)?\.(?:[cm]?[jt]sx?|vue|svelte|json)$")
_FOLDERS = frozenset({"go"})
"""Languages in which a module is a folder."""
_HEADERS = frozenset({"c", "cpp"})
_STANDS_FOR_FOLDER = frozenset({"__init__", "index", "mod", "lib", "main"})


def denotes(importer: str, module: str, file: str, language: str, exists: Exists) -> bool:
    """Say whether a module that `importer` names is `file`. Paths are relative to the root, with strokes."""
    if language == "python":
        return _python(importer, module, file, exists)
    if language in _SCRIPTS:
        return _script(importer, module, file)
    if language in _HEADERS:
        wanted = posixpath.normpath(module).split("/")
        return posixpath.normpath(file).split("/")[-len(wanted) :] == wanted
    if language in _FOLDERS:
        return _folder(module, posixpath.dirname(file))
    return _by_ending(importer, module, file)


def python_name(path: str, exists: Exists) -> str:
    """Return the full name of the module that a Python file is: from the outermost folder that is a package."""
    parts = list(_python_parts(path))
    first = 0
    for count in range(len(parts) - 1, 0, -1):
        if not exists("/".join([*parts[:count], "__init__.py"])):
            first = count
            break
    return ".".join(parts[first:])


@cache
def _python_parts(path: str) -> tuple[str, ...]:
    parts = re.sub(r"\.(?:pyi?|pyx|pyw)$", "", path).split("/")
    return tuple(parts[:-1] if parts[-1] == "__init__" else parts)


def _python(importer: str, module: str, file: str, exists: Exists) -> bool:
    parts = _python_parts(file)
    rest = module.lstrip(".")
    wanted = tuple(rest.split(".")) if rest else ()
    up = len(module) - len(rest)
    if up:
        folder = posixpath.dirname(importer)
        for _ in range(up - 1):
            if not folder:
                return False
            folder = posixpath.dirname(folder)
        return parts == (*filter(None, folder.split("/")), *wanted)
    if parts[-len(wanted) :] != wanted:
        return False
    above = parts[: -len(wanted)]
    # Modules are named from a folder that is no package itself; a script finds its neighbours all the same.
    return not above or "/".join(above) == posixpath.dirname(importer) or not exists("/".join([*above, "__init__.py"]))


def _script(importer: str, module: str, file: str) -> bool:
    bare = _SCRIPT_ENDING.sub("", file)
    names = {bare, bare.removesuffix("/index")} if bare.endswith("/index") else {bare}
    if bare == "index":
        names.add("")
    if module.startswith("."):
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(importer), module))
        wanted = "" if wanted == "." else wanted
        return wanted in names or _SCRIPT_ENDING.sub("", wanted) in names
    wanted = _SCRIPT_ENDING.sub("", re.sub(r"^[@~]/", "", module)).strip("/")
    if any(name == wanted or name.endswith(f"/{wanted}") for name in names):
        return "/" in wanted or any(name == wanted for name in names) or bare.endswith("/index")
    return any(name.endswith((f"{wanted}/src/index", f"{wanted}/src")) for name in names)


def _folder(module: str, folder: str) -> bool:
    wanted, parts = module.split("/"), folder.split("/") if folder else []
    if not parts:
        return False
    common = min(len(wanted), len(parts))
    return wanted[-common:] == parts[-common:] and (common == len(parts) or common >= 2)


def _by_ending(importer: str, module: str, file: str) -> bool:
    """Compare the end of a path with a module: `crate::a::b` with `src/a/b.rs`, `com.foo` with `com/foo/Bar.java`."""
    if module.startswith(("./", "../")):
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(importer), module))
        return file == wanted or posixpath.splitext(file)[0] == posixpath.splitext(wanted)[0]
    parts = posixpath.splitext(file)[0].split("/")
    wanted_parts = [part for part in re.split(r"/|::|\\|\.", module) if part not in {"", "crate", "self", "super"}]
    if not wanted_parts:  # the module around, or the crate itself
        return module.startswith(("self", "super")) or parts[-1] in _STANDS_FOR_FOLDER
    count = len(wanted_parts)
    if parts[-1] in _STANDS_FOR_FOLDER and parts[-1 - count : -1] == wanted_parts:
        return True
    return parts[-count:] == wanted_parts or parts[-1 - count : -1] == wanted_parts or parts[-1] == wanted_parts[-1]
