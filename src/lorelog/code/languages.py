"""Which language is a file written in, and what reads it.

One row per language: how its files are called, which grammar parses it, which queries and hooks say what its trees
mean. Grammars and queries are loaded when the first file of a language is read, never before: eighteen of them would
cost a hundred milliseconds that most commands have no use for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class Language:
    """How to tell a language, and how to read it."""

    name: str
    grammar: str
    """Module of the grammar's wheel."""
    suffixes: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Whole file names, for files without a suffix."""
    shebangs: tuple[str, ...] = ()
    """Programs that a first line `#!` may name, without version."""
    entry: str = "language"
    """Function of the grammar's module that hands it over."""
    queries: tuple[str, ...] = ()
    """Files of `queries/`, joined; none for a language that is walked by hand."""
    hooks: str = ""
    """Module with `HOOKS`, where queries cannot say everything."""


_C_SUFFIXES = (".c", ".h", ".inc")
_CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".hpp", ".hh", ".hxx", ".h++", ".ipp", ".tpp", ".inl", ".cu", ".cuh")
_RUBY_NAMES = ("Rakefile", "Gemfile", "Guardfile", "Vagrantfile", "Podfile", "Fastfile", "Brewfile")
_BASH_NAMES = (".bashrc", ".bash_profile", ".bash_aliases", ".profile", ".zshrc", "PKGBUILD")

LANGUAGES: tuple[Language, ...] = (
    Language("python", "tree_sitter_python", (".py", ".pyi", ".pyw"), ("SConstruct", "SConscript"), ("python", "pypy")),
    Language(
        "javascript",
        "tree_sitter_javascript",
        (".js", ".jsx", ".mjs", ".cjs"),
        shebangs=("node", "nodejs", "bun"),
        queries=("javascript", "jsx", "ecmascript"),
        hooks="lorelog.code.javascript",
    ),
    Language(
        "typescript",
        "tree_sitter_typescript",
        (".ts", ".mts", ".cts"),
        shebangs=("deno", "ts-node", "tsx"),
        entry="language_typescript",
        queries=("typescript", "ecmascript", "declare"),
        hooks="lorelog.code.javascript",
    ),
    Language(
        "tsx",
        "tree_sitter_typescript",
        (".tsx",),
        entry="language_tsx",
        queries=("typescript", "jsx", "ecmascript", "declare"),
        hooks="lorelog.code.javascript",
    ),
    Language("go", "tree_sitter_go", (".go",), queries=("go",), hooks="lorelog.code.go"),
    Language("rust", "tree_sitter_rust", (".rs",), queries=("rust",), hooks="lorelog.code.rust"),
    Language("java", "tree_sitter_java", (".java",), queries=("java",), hooks="lorelog.code.java"),
    Language("c", "tree_sitter_c", _C_SUFFIXES, queries=("c",), hooks="lorelog.code.c"),
    Language("cpp", "tree_sitter_cpp", _CPP_SUFFIXES, queries=("cpp", "c"), hooks="lorelog.code.cpp"),
    Language("csharp", "tree_sitter_c_sharp", (".cs", ".csx"), queries=("csharp",), hooks="lorelog.code.csharp"),
    Language(
        "ruby",
        "tree_sitter_ruby",
        (".rb", ".rake", ".gemspec", ".ru"),
        _RUBY_NAMES,
        ("ruby", "jruby"),
        queries=("ruby",),
        hooks="lorelog.code.ruby",
    ),
    Language(
        "php",
        "tree_sitter_php",
        (".php", ".phtml", ".php5"),
        shebangs=("php",),
        entry="language_php",
        queries=("php",),
        hooks="lorelog.code.php",
    ),
    Language("kotlin", "tree_sitter_kotlin", (".kt", ".kts"), queries=("kotlin",), hooks="lorelog.code.kotlin"),
    Language("swift", "tree_sitter_swift", (".swift",), queries=("swift",), hooks="lorelog.code.swift"),
    Language("scala", "tree_sitter_scala", (".scala", ".sc", ".sbt"), queries=("scala",), hooks="lorelog.code.scala"),
    Language(
        "bash",
        "tree_sitter_bash",
        (".sh", ".bash", ".zsh", ".ksh", ".bats"),
        _BASH_NAMES,
        ("sh", "bash", "dash", "zsh", "ksh"),
        queries=("bash",),
        hooks="lorelog.code.bash",
    ),
    Language("sql", "tree_sitter_sql", (".sql", ".ddl"), queries=("sql",), hooks="lorelog.code.sql"),
    Language("lua", "tree_sitter_lua", (".lua",), shebangs=("lua", "luajit"), queries=("lua",), hooks="lorelog.code.lua"),
)  # fmt: skip

BY_NAME: dict[str, Language] = {language.name: language for language in LANGUAGES}
_BY_SUFFIX = {suffix: language.name for language in LANGUAGES for suffix in language.suffixes}
_BY_FILE = {name: language.name for language in LANGUAGES for name in language.names}
_BY_PROGRAM = {program: language.name for language in LANGUAGES for program in language.shebangs}

_SHEBANG = re.compile(rb"#!\s*(?:\S*/)?env\s+(?:-\S+\s+|\w+=\S*\s+)*(\S+)|#!\s*(\S+)")
_VERSION = re.compile(r"[\d.]+$")
_CPLUSPLUS = re.compile(
    rb"^\s*(?:class\s+\w+[^;]*[{:]|namespace\s+\w*|template\s*<|using\s+(?:namespace|\w+\s*=)|(?:public|private|protected)\s*:"
    rb"|#\s*include\s*<(?:string|vector|map|memory|cstdint|cstddef|cstdio|iostream|functional|utility|type_traits|algorithm)>)"
    rb"|\bstd::|\bconstexpr\b|\bnoexcept\b|\bvirtual\s",
    re.MULTILINE,
)
"""What no C header says. A C header that serves C++ too says `extern "C"`, and is C."""
_OBJECTIVE = re.compile(rb"^\s*(?:@(?:interface|protocol|class|import)\b|#\s*import\b)", re.MULTILINE)
"""What a header of Objective-C says. C's grammar would take its messages for variables."""
HEAD = 4096
"""How much of a file's beginning is worth showing to `language_of`."""


def language_of(path: str, head: bytes = b"") -> str | None:
    """Return the name of the language that a file is written in; None where no grammar reads it.

    A suffix decides alone, but for `.h`: there the beginning tells C from C++ and Objective-C. A file without a suffix is told by its
    name or by its first line.
    """
    name = PurePath(path).name
    suffix = PurePath(path).suffix.lower()
    if suffix in _BY_SUFFIX:
        if suffix == ".h" and _OBJECTIVE.search(head):
            return None
        if suffix == ".h" and _CPLUSPLUS.search(head):
            return "cpp"
        return _BY_SUFFIX[suffix]
    if name in _BY_FILE:
        return _BY_FILE[name]
    if suffix and not name.startswith("."):
        return None
    return _by_first_line(head)


def may_be_code(path: str) -> bool:
    """Return whether `language_of` may know a file, as far as its name tells: then its beginning is worth reading."""
    # By hand: a path is asked about for every file of a tree, and making one of it takes longer than looking at the file.
    name = path.rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    suffix = f".{ending.lower()}" if dot and stem and ending else ""
    return suffix in _BY_SUFFIX or name in _BY_FILE or not suffix


def _by_first_line(head: bytes) -> str | None:
    found = _SHEBANG.match(head)
    if found is None:
        return None
    program = (found[1] or found[2]).decode("utf-8", "replace").rsplit("/", 1)[-1]
    return _BY_PROGRAM.get(program) or _BY_PROGRAM.get(_VERSION.sub("", program))
