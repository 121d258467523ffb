"""A short command imports foreign modules without the parts that it does not use; they still work when they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lorelog.surfaces.cli.light_imports import PARTS_LEFT_OUT

START = "import sys\nfrom lorelog.surfaces.cli.light_imports import StandIn, import_lightly\nimport_lightly()\n"


def run(script: str, cwd: Path) -> str:
    """Run a script in a process that imports lightly, and return its output."""
    done = subprocess.run([sys.executable, "-c", START + script], capture_output=True, text=True, check=True, cwd=cwd)
    return done.stdout


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("msgspec", {"typing_extensions", "msgspec.json", "msgspec.inspect", "textwrap", "platform"}),
        ("pathlib", {"urllib.parse", "ipaddress"}),
        ("numpy", {"inspect", "ast", "ctypes", "pickle", "numpy._typing", "numpy.linalg", "numpy._core._add_newdocs"}),
        ("http.client", {"ssl", "random", "email.utils", "locale", "selectors"}),
    ],
)
def test_the_parts_are_not_imported(module: str, absent: set[str], tmp_path: Path) -> None:
    """Importing a module leaves its parts out, and leaves no stand-in among the imported modules."""
    script = (
        f"import {module}\n"
        "print(sorted(name for name, kept in sys.modules.items() if kept is None or isinstance(kept, StandIn)))\n"
        "print(*sys.modules)"
    )
    stand_ins, loaded = run(script, tmp_path).splitlines()

    assert stand_ins == "[]"
    assert absent & set(loaded.split()) == set()


USES = {
    "msgspec": "msgspec.json.decode(b'[1]', type=list[int]) == [1]",
    "msgspec.structs": "[field.name for field in msgspec.structs.fields(msgspec.defstruct('S', ['a']))] == ['a']",
    "pathlib": "pathlib.Path('/a b').as_uri() == 'file:///a%20b'",
    "uuid": "uuid.getnode() > 0 and uuid.uuid1().version == 1",
    "urllib.parse": "urllib.parse.urlsplit('http://[::1]:8/a').hostname == '::1'",
    "numpy": "numpy.linalg.norm(numpy.array([3.0, 4.0])) == 5.0 and numpy.matrix([[2.0]]).I[0, 0] == 0.5",
    "numpy.typing": "numpy.typing.NDArray[numpy.float32].__origin__ is numpy.ndarray",
    "numpy.lib": "numpy.roots([1.0, -3.0, 2.0]).round(6).tolist() == [2.0, 1.0]",
    "http.client": "http.client.HTTPSConnection('localhost').port == 443",
    "email.message": "email.message.Message().get_all('a', []) == []",
    "socket": "(lambda pair: pair[0].sendfile(open('a', 'rb')))(socket.socketpair()) == 1",
}
"""By module: an expression that uses a part that was left out, and is true."""


@pytest.mark.parametrize("module", list(USES))
def test_the_parts_work_when_they_are_used(module: str, tmp_path: Path) -> None:
    """Code that uses a part of a module that was left out gets the real one."""
    (tmp_path / "a").write_bytes(b"x")
    run(f"import {module}\nassert {USES[module]}", tmp_path)


@pytest.mark.parametrize("package", ["numpy", "http.client", "msgspec"])
def test_a_later_import_gets_the_real_part(package: str, tmp_path: Path) -> None:
    """A module that imports a part later gets the real one, whole."""
    parts = [name for name, known in PARTS_LEFT_OUT[package].items() if known is not None]
    script = f"import {package}, importlib\n" + "".join(
        f"kept = importlib.import_module({name!r})\nassert not isinstance(kept, StandIn) and kept.__spec__, {name!r}\n"
        for name in parts
    )
    run(script + "import inspect; assert inspect.signature(lambda a: 1).parameters\n", tmp_path)


def test_every_module_of_the_table_exists(tmp_path: Path) -> None:
    """Every module and part of the table can be imported: one that a package has renamed would be left out no more."""
    names = {name for module, parts in PARTS_LEFT_OUT.items() for name in (module, *parts)} - {"typing_extensions"}
    script = "import importlib\n" + "".join(f"importlib.import_module({name!r})\n" for name in sorted(names))
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


def test_only_a_process_of_our_own_does_it(tmp_path: Path) -> None:
    """A program that calls the command line as a function keeps its own imports and garbage collection."""
    script = (
        "import gc, sys\n"
        "before = gc.get_threshold(), list(sys.meta_path)\n"
        "from lorelog.surfaces.cli.main import main\n"
        "assert main(['--daemon', 'off', 'search', 'alpha', '--lane', 'lexical']) == 0\n"
        "assert (gc.get_threshold(), sys.meta_path) == before\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, capture_output=True)


def test_it_is_done_once(tmp_path: Path) -> None:
    """Asking twice installs one finder."""
    assert (
        run(
            "import_lightly()\nprint([type(finder).__name__ for finder in sys.meta_path].count('LightFinder'))",
            tmp_path,
        )
        == "1\n"
    )
