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
    grammar: str
    """Module of the grammar."""
    suffixes: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Whole file names, for files without a suffix."""
    shebangs: tuple[str, ...] = ()
    """Programs in a `#!` line, without version."""
    entry: str = "language"
    """Function of the module that returns the grammar."""
    queries: tuple[str, ...] = ()
    """Files of `queries/`, which are joined; none for Python, which is walked by hand."""
    hooks: str = ""
    """Module whose `HOOKS` has the rules that queries cannot express, by language."""


_C_SUFFIXES = (".c", ".h", ".inc")
_CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".hpp", ".hh", ".hxx", ".h++", ".ipp", ".tpp", ".inl", ".cu", ".cuh")
_RUBY_NAMES = ("Rakefile", "Gemfile", "Guardfile", "Vagrantfile", "Podfile", "Fastfile", "Brewfile")
_BASH_NAMES = (".bashrc", ".bash_profile", ".bash_aliases", ".profile", ".zshrc", "PKGBUILD")

LANGUAGES: tuple[LanguageSpec, ...] = (
    LanguageSpec("python", "tree_sitter_python", (".py", ".pyi", ".pyw"), ("SConstruct", "SConscript"), ("python", "pypy")),
    LanguageSpec(
        "javascript",
        "tree_sitter_javascript",
        (".js", ".jsx", ".mjs", ".cjs"),
        shebangs=("node", "nodejs", "bun"),
        queries=("javascript", "jsx", "ecmascript"),
        hooks="lorelog.code.languages.javascript",
    ),
    LanguageSpec(
        "typescript",
        "tree_sitter_typescript",
        (".ts", ".mts", ".cts"),
        shebangs=("deno", "ts-node", "tsx"),
        entry="language_typescript",
        queries=("typescript", "ecmascript", "declare"),
        hooks="lorelog.code.languages.javascript",
    ),
    LanguageSpec(
        "tsx",
        "tree_sitter_typescript",
        (".tsx",),
        entry="language_tsx",
        queries=("typescript", "jsx", "ecmascript", "declare"),
        hooks="lorelog.code.languages.javascript",
    ),
    LanguageSpec("go", "tree_sitter_go", (".go",), queries=("go",), hooks="lorelog.code.languages.native"),
    LanguageSpec("rust", "tree_sitter_rust", (".rs",), queries=("rust",), hooks="lorelog.code.languages.native"),
    LanguageSpec("java", "tree_sitter_java", (".java",), queries=("java",), hooks="lorelog.code.languages.managed"),
    LanguageSpec("c", "tree_sitter_c", _C_SUFFIXES, queries=("c",), hooks="lorelog.code.languages.native"),
    LanguageSpec("cpp", "tree_sitter_cpp", _CPP_SUFFIXES, queries=("cpp", "c"), hooks="lorelog.code.languages.native"),
    LanguageSpec("csharp", "tree_sitter_c_sharp", (".cs", ".csx"), queries=("csharp",), hooks="lorelog.code.languages.managed"),
    LanguageSpec(
        "ruby",
        "tree_sitter_ruby",
        (".rb", ".rake", ".gemspec", ".ru"),
        _RUBY_NAMES,
        ("ruby", "jruby"),
        queries=("ruby",),
        hooks="lorelog.code.languages.scripting",
    ),
    LanguageSpec(
        "php",
        "tree_sitter_php",
        (".php", ".phtml", ".php5"),
        shebangs=("php",),
        entry="language_php",
        queries=("php",),
        hooks="lorelog.code.languages.scripting",
    ),
    LanguageSpec("kotlin", "tree_sitter_kotlin", (".kt", ".kts"), queries=("kotlin",), hooks="lorelog.code.languages.managed"),
    LanguageSpec("swift", "tree_sitter_swift", (".swift",), queries=("swift",), hooks="lorelog.code.languages.native"),
    LanguageSpec("scala", "tree_sitter_scala", (".scala", ".sc", ".sbt"), queries=("scala",), hooks="lorelog.code.languages.managed"),
    LanguageSpec(
        "bash",
        "tree_sitter_bash",
        (".sh", ".bash", ".zsh", ".ksh", ".bats"),
        _BASH_NAMES,
        ("sh", "bash", "dash", "zsh", "ksh"),
        queries=("bash",),
        hooks="lorelog.code.languages.scripting",
    ),
    LanguageSpec("sql", "tree_sitter_sql", (".sql", ".ddl"), queries=("sql",), hooks="lorelog.code.languages.scripting"),
    LanguageSpec("lua", "tree_sitter_lua", (".lua",), shebangs=("lua", "luajit"), queries=("lua",), hooks="lorelog.code.languages.scripting"),
)  # fmt: skip

LANGUAGES_BY_NAME: dict[str, LanguageSpec] = {language.name: language for language in LANGUAGES}
_BY_SUFFIX = {suffix: language.name for language in LANGUAGES for suffix in language.suffixes}
_BY_FILE_NAME = {name: language.name for language in LANGUAGES for name in language.names}
_BY_PROGRAM = {program: language.name for language in LANGUAGES for program in language.shebangs}

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
