"""Detect the language of a file, and list the grammar, queries and hooks of each language.

Grammars, queries and hooks are loaded with the first file of a language: loading all eighteen grammars would cost a
hundred milliseconds that most commands do not need.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from msgspec import Struct


class LanguageSpec(Struct, frozen=True):
    """How to detect and to parse a language."""

    name: str
    suffixes: str
    hooks: str = "hooks.LanguageHooks"
    """Module of this package and its class with the rules that queries cannot express."""
    queries: str = ""
    """Files of `queries/`, which are joined; none for Python, which is walked by hand."""
    names: str = ""
    """Whole file names, for files without a suffix."""
    shebangs: str = ""
    """Programs in a `#!` line, without version."""
    grammar: str = ""
    """Name of the grammar's module, if it is not the language's."""
    entry: str = "language"
    """Function of the module that returns the grammar."""


_CPP = ".cpp .cc .cxx .c++ .hpp .hh .hxx .h++ .ipp .tpp .inl .cu .cuh"
_RUBY = "Rakefile Gemfile Guardfile Vagrantfile Podfile Fastfile Brewfile"
_BASH = ".bashrc .bash_profile .bash_aliases .profile .zshrc PKGBUILD"

LANGUAGES: tuple[LanguageSpec, ...] = (
    LanguageSpec("python", ".py .pyi .pyw", names="SConstruct SConscript", shebangs="python pypy"),
    LanguageSpec("javascript", ".js .jsx .mjs .cjs", "javascript.JavaScriptHooks", "javascript jsx ecmascript", shebangs="node nodejs bun"),
    LanguageSpec("typescript", ".ts .mts .cts", "javascript.JavaScriptHooks", "typescript ecmascript declare", "", "deno ts-node tsx", entry="language_typescript"),
    LanguageSpec("tsx", ".tsx", "javascript.JavaScriptHooks", "typescript jsx ecmascript declare", grammar="typescript", entry="language_tsx"),
    LanguageSpec("go", ".go", "native.GoHooks", "go"),
    LanguageSpec("rust", ".rs", "native.RustHooks", "rust"),
    LanguageSpec("java", ".java", "managed.JavaHooks", "java"),
    LanguageSpec("c", ".c .h .inc", "native.CHooks", "c"),
    LanguageSpec("cpp", _CPP, "native.CppHooks", "cpp c"),
    LanguageSpec("csharp", ".cs .csx", "managed.CSharpHooks", "csharp", grammar="c_sharp"),
    LanguageSpec("ruby", ".rb .rake .gemspec .ru", "scripting.RubyHooks", "ruby", _RUBY, "ruby jruby"),
    LanguageSpec("php", ".php .phtml .php5", "scripting.PhpHooks", "php", "", "php", entry="language_php"),
    LanguageSpec("kotlin", ".kt .kts", "managed.KotlinHooks", "kotlin"),
    LanguageSpec("swift", ".swift", "native.SwiftHooks", "swift"),
    LanguageSpec("scala", ".scala .sc .sbt", "managed.ScalaHooks", "scala"),
    LanguageSpec("bash", ".sh .bash .zsh .ksh .bats", "scripting.BashHooks", "bash", _BASH, "sh bash dash zsh ksh"),
    LanguageSpec("sql", ".sql .ddl", "scripting.SqlHooks", "sql"),
    LanguageSpec("lua", ".lua", "scripting.LuaHooks", "lua", "", "lua luajit"),
)  # fmt: skip

LANGUAGES_BY_NAME: dict[str, LanguageSpec] = {language.name: language for language in LANGUAGES}
_BY_SUFFIX = {suffix: language.name for language in LANGUAGES for suffix in language.suffixes.split()}
_BY_FILE_NAME = {name: language.name for language in LANGUAGES for name in language.names.split()}
_BY_PROGRAM = {program: language.name for language in LANGUAGES for program in language.shebangs.split()}

_SHEBANG = re.compile(rb"#!\s*(?:\S*/)?env\s+(?:-\S+\s+|\w+=\S*\s+)*(\S+)|#!\s*(\S+)")
_CPLUSPLUS = re.compile(
    rb"^\s*(?:class\s+\w+[^;]*[{:]|namespace\s+\w*|template\s*<|using\s+(?:namespace|\w+\s*=)|(?:public|private|protected)\s*:"
    rb"|#\s*include\s*<(?:string|vector|map|memory|cstdint|cstddef|cstdio|iostream|functional|utility|type_traits|algorithm)>)"
    rb"|\bstd::|\bconstexpr\b|\bnoexcept\b|\bvirtual\s",
    re.MULTILINE,
)
"""Constructs that no C header has. A C header for C++ has `extern "C"`, and is C."""
_OBJECTIVE_C = re.compile(rb"^\s*(?:@(?:interface|protocol|class|import)\b|#\s*import\b)", re.MULTILINE)
"""Constructs of Objective-C headers. C's grammar would read their messages as variables."""
DETECTION_BYTES = 4096
"""Bytes of the beginning of a file that `detect_language` uses."""


def detect_language(path: str, head: bytes = b"") -> str | None:
    """Return the language of a file; None if no grammar parses it.

    The suffix decides, except for `.h`: there the beginning distinguishes C from C++ and Objective-C. A file without a
    suffix is detected by its name or its first line.
    """
    name = PurePath(path).name
    suffix = PurePath(path).suffix.lower()
    if suffix in _BY_SUFFIX:
        if suffix == ".h" and _OBJECTIVE_C.search(head):
            return None
        if suffix == ".h" and _CPLUSPLUS.search(head):
            return "cpp"
        return _BY_SUFFIX[suffix]
    if name in _BY_FILE_NAME:
        return _BY_FILE_NAME[name]
    if suffix and not name.startswith("."):
        return None
    match = _SHEBANG.match(head)
    program = (match[1] or match[2]).decode("utf-8", "replace").rsplit("/", 1)[-1] if match else ""
    return _BY_PROGRAM.get(program) or _BY_PROGRAM.get(program.rstrip("0123456789."))


def may_be_code(path: str) -> bool:
    """Return True if a file may be code, by its name alone."""
    # Without PurePath: this runs for every file of a tree, and creating a path takes longer than all the rest.
    name = path.rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    suffix = f".{ending.lower()}" if dot and stem and ending else ""
    return suffix in _BY_SUFFIX or name in _BY_FILE_NAME or not suffix
