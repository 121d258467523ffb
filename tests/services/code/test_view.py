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
    ("language", "importer", "module", "file", "matches"),
    [
        ("python", "src/app/main.py", "app.core", "src/app/core.py", True),
        ("python", "src/app/main.py", "app", "src/app/__init__.py", True),
        ("python", "src/app/main.py", ".core", "src/app/core.py", True),
        ("python", "src/app/__init__.py", ".core", "src/app/core.py", True),
        ("python", "src/app/__init__.py", ".", "src/app/__init__.py", True),
        ("python", "src/app/sub/a.py", "..core", "src/app/core.py", True),
        ("python", "src/app/sub/a.py", ".core", "src/app/sub/core.py", True),
        ("python", "tests/test_a.py", "app.sub.core", "src/app/sub/core.py", True),
        ("python", "tools/run.py", "core", "tools/core.py", True),
        ("python", "src/app/main.py", "core", "src/app/sub/core.py", False),
        ("python", "tests/test_a.py", "core", "src/app/core.py", False),
        ("python", "src/app/sub/a.py", ".core", "src/app/core.py", False),
        ("python", "src/app/main.py", "app.cor", "src/app/core.py", False),
        ("python", "a.py", "...core", "src/app/core.py", False),
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
def test_imports_are_matched_with_files(language: str, importer: str, module: str, file: str, *, matches: bool) -> None:
    """A Python module is found from a folder that is not a package, relative to its importer, or beside a script.

    In other languages relative paths are resolved, folders match their index file, and the end of a path decides.
    """
    assert is_module_file(importer, module, file, language, FILES.__contains__) is matches
