"""Imports of foreign modules without the parts that a short command never uses.

A cold search spends most of its time on imports, much of it on modules that others import and never call here:
numpy imports `inspect`, its docstrings and its types (a third of its time), msgspec its JSON schemas, `pathlib` the parser
of URLs, `http.client` TLS. While a module of the table `PARTS_LEFT_OUT` is executed, these parts are stand-ins. A stand-in
imports the real module when an attribute is used that is not in the table, so that every function still works; afterwards
`sys.modules` has no stand-in, and the next import finds the real module.

For a process that runs one command. The daemon, the server and the Python library import everything as usual.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any


def import_lightly() -> None:
    """Let this process import the modules of the table without the parts that are left out."""
    if not any(isinstance(finder, LightFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, LightFinder())


class StandIn(ModuleType):
    """A module that is imported when an unknown attribute is used."""

    def __init__(self, name: str, known: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.known = known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for these
            raise AttributeError(name)
        known: Mapping[str, Any] = self.__dict__["known"]
        return known[name] if name in known else getattr(self.import_real(), name)

    def import_real(self) -> ModuleType:
        """Return the real module."""
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        __import__(name)
        return sys.modules[name]

    def retire(self) -> None:
        """Delegate everything to the real module from now on, and let the next import find it."""
        self.known = {}
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


class LightLoader:
    """Executes a module while stand-ins take the place of the parts that are left out."""

    def __init__(self, loader: Any, parts: Mapping[str, Mapping[str, Any] | None]) -> None:
        self._loader = loader
        self._parts = parts

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module; its own attributes name the real loader."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        missing = {name: known for name, known in self._parts.items() if name not in sys.modules}
        stand_ins = [StandIn(name, known) for name, known in missing.items() if known is not None]
        sys.modules.update({stand_in.__name__: stand_in for stand_in in stand_ins})
        absent = [name for name, known in missing.items() if known is None]
        sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
        try:
            self._loader.exec_module(module)
        finally:
            for stand_in in stand_ins:
                stand_in.retire()
            for name in absent:
                if sys.modules.get(name, self) is None:
                    del sys.modules[name]


class LightFinder:
    """Finds the modules of the table as Python would, and wraps their loaders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the table, or None for any other."""
        parts = PARTS_LEFT_OUT.get(name)
        if parts is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = LightLoader(spec.loader, parts)  # type: ignore[assignment]
                return spec
        return None


class _AnyType:
    """A type with parameters that nobody looks at."""

    def __class_getitem__(cls, parameters: object) -> type[_AnyType]:
        return cls


def _call_later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports the real one when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        __import__(module)
        return getattr(sys.modules[module], name)(*args, **kwargs)

    return call


def _has_surrogates(text: str) -> bool:
    """Return what the function of `email.utils` returns: every header of a reply is checked with it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _system_name() -> str:
    from os import uname

    return uname().sysname


_PLATFORM: dict[str, Any] = {} if sys.platform == "win32" else {"system": _system_name}

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMPY_TYPES = {"NDArray": _AnyType}

PARTS_LEFT_OUT: dict[str, dict[str, dict[str, Any] | None]] = {
    "pathlib": {"urllib.parse": {"quote_from_bytes": _call_later("urllib.parse", "quote_from_bytes")}},
    "urllib.parse": {"ipaddress": {}},
    "uuid": {"platform": _PLATFORM},
    "msgspec": {
        "typing_extensions": None,  # with Python 3.11 msgspec needs nothing from there
        "msgspec.inspect": {},
        "msgspec.json": {},
        "msgspec.msgpack": {},
        "msgspec.structs": {},
        "msgspec.toml": {},
        "msgspec.yaml": {},
    },
    "numpy": {
        "ast": {},
        "ctypes": {},
        "inspect": {"cleandoc": str, "signature": lambda _: None},
        "pickle": {},
        "platform": _PLATFORM,
        "textwrap": {},
        "numpy._core._add_newdocs": {},
        "numpy._core._add_newdocs_scalars": {},
        "numpy._typing": _NUMPY_TYPES,
        "numpy.linalg": {
            name: _call_later("numpy.linalg", name) for name in ("eigvals", "inv", "lstsq", "matrix_power")
        },
    },
    "numpy.linalg._linalg": {"numpy._typing": _NUMPY_TYPES},
    "onnxruntime": {"platform": _PLATFORM},
    "socket": {"selectors": {}},
    "http.client": {
        "ssl": {},
        "email.header": {},
        "email.utils": {"_has_surrogates": _has_surrogates},
        "string": {"ascii_letters": _LETTERS, "digits": "0123456789", "hexdigits": "0123456789abcdefABCDEF"},
    },
}
"""By module: the parts that it imports and a short command does not need, each with attributes that are used meanwhile.
None makes the import fail, where the module has another way."""
