"""Imports are matched with files: exactly in Python and for relative paths, else by the end of the path."""

from __future__ import annotations

import pytest

from lorelog.services.code.view import is_module_file

FILES = {
    "src/app/__init__.py",
    "src/app/core.py",
    "src/app/sub/__init__.py",
    "src/app/sub/core.py",
    "tools/run.py",
    "tools/core.py",
}


@pytest.mark.parametrize(
    ("importer", "module", "file"),
    [
        ("src/app/main.py", "app.core", "src/app/core.py"),
        ("src/app/main.py", "app", "src/app/__init__.py"),
        ("src/app/main.py", ".core", "src/app/core.py"),
        ("src/app/__init__.py", ".core", "src/app/core.py"),
        ("src/app/__init__.py", ".", "src/app/__init__.py"),
        ("src/app/sub/a.py", "..core", "src/app/core.py"),
        ("src/app/sub/a.py", ".core", "src/app/sub/core.py"),
        ("tests/test_a.py", "app.sub.core", "src/app/sub/core.py"),
        ("tools/run.py", "core", "tools/core.py"),
    ],
)
def test_python_modules_are_found(importer: str, module: str, file: str) -> None:
    """A module is found from a folder that is not a package, relative to its importer, or beside a script."""
    assert is_module_file(importer, module, file, "python", FILES.__contains__)


@pytest.mark.parametrize(
    ("importer", "module", "file"),
    [
        ("src/app/main.py", "core", "src/app/sub/core.py"),
        ("tests/test_a.py", "core", "src/app/core.py"),
        ("src/app/sub/a.py", ".core", "src/app/core.py"),
        ("src/app/main.py", "app.cor", "src/app/core.py"),
        ("a.py", "...core", "src/app/core.py"),
    ],
)
def test_other_python_modules_do_not_match(importer: str, module: str, file: str) -> None:
    """A module inside a package does not match by its last name alone, nor above the root."""
    assert not is_module_file(importer, module, file, "python", FILES.__contains__)


@pytest.mark.parametrize(
    ("language", "importer", "module", "file", "matches"),
    [
        ("typescript", "src/a.ts", "./b", "src/b.ts", True),
        ("typescript", "src/a.ts", "./b.js", "src/b.ts", True),
        ("typescript", "src/a.ts", "./lib", "src/lib/index.tsx", True),
        ("typescript", "src/x/a.ts", "../b", "src/b.ts", True),
        ("typescript", "src/x/a.ts", "./b", "src/b.ts", False),
        ("typescript", "src/a.ts", "@/lib/b", "src/lib/b.ts", True),
        ("javascript", "a.js", "react", "src/react.js", False),
        ("go", "cmd/main.go", "example.com/x/pkg/tool", "pkg/tool/a.go", True),
        ("go", "cmd/main.go", "example.com/x/pkg/tool", "pkg/other/a.go", False),
        ("java", "A.java", "com.foo.Bar", "src/main/java/com/foo/Bar.java", True),
        ("java", "A.java", "com.foo", "src/main/java/com/foo/Bar.java", True),
        ("rust", "src/main.rs", "crate::net::tcp", "src/net/tcp.rs", True),
        ("rust", "src/main.rs", "crate::net", "src/net/mod.rs", True),
        ("c", "src/a.c", "net/util.h", "include/net/util.h", True),
        ("c", "src/a.c", "util.h", "include/net/tool.h", False),
        ("ruby", "a.rb", "lib/net", "lib/net.rb", True),
    ],
)
def test_modules_of_other_languages(language: str, importer: str, module: str, file: str, matches: bool) -> None:  # noqa: FBT001
    """Relative paths are resolved, folders match their index file, and other modules match by the end of the path."""
    assert is_module_file(importer, module, file, language, FILES.__contains__) is matches
