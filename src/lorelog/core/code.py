"""Types for source code: symbols, uses and imports.

Lines and columns count from 1, columns in characters, as editors and compilers print them; the end of a span is the
position after its last character.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from lorelog.core.serializable import Serializable


class SymbolKind(StrEnum):
    """Kind of a definition. Structs are classes; traits and protocols are interfaces; fields are variables."""

    FUNCTION = "function"
    METHOD = "method"
    CLASS = "class"
    INTERFACE = "interface"
    TYPE = "type"
    ENUM = "enum"
    VARIABLE = "variable"
    CONSTANT = "constant"
    MODULE = "module"


class UseKind(StrEnum):
    """What a use does with the name."""

    CALL = "call"
    READ = "read"
    WRITE = "write"
    TYPE = "type"
    IMPORT = "import"


class SourceSpan(NamedTuple):
    """A range in a source file."""

    start_line: int
    start_column: int
    end_line: int
    end_column: int


class Symbol(Serializable, Struct, frozen=True):
    """A definition."""

    name: str
    kind: SymbolKind
    span: SourceSpan
    """The whole definition, decorators included."""
    name_line: int
    name_column: int
    signature: str = ""
    """The head of the definition on one line, without its body."""
    docstring: str = ""
    visibility: str = "public"
    """`public`, `protected`, `private`, or the language's own level for packages (`internal`, `package`)."""
    container: str = ""
    """Names of the enclosing definitions, outermost first, joined by dots; empty at the top of a file."""
    bases: tuple[str, ...] = ()
    """Base classes as written."""
    digest: str = ""
    """Hash of its tokens without comments, layout and its own name: a rename keeps it."""

    @property
    def qualified_name(self) -> str:
        """Its name with the names of the enclosing definitions."""
        return f"{self.container}.{self.name}" if self.container else self.name


class NameUse(NamedTuple):
    """A use of a name. A tuple because a file has thousands."""

    name: str
    kind: UseKind
    line: int
    column: int
    enclosing: int
    """Index of the innermost enclosing symbol in the file's symbols; -1 at the top of a file."""
    receiver: str = ""
    """Text before the dot: `self`, `os.path`; `?` for any other expression; empty for a bare name. In Python the
    known type may follow: `x=Foo`, `x:Foo`, `x~y.z`, `?=Foo` (`code/languages/python_scopes.py`).
    """
    local: bool = False
    """True if the enclosing function binds the name (a parameter, a variable), so that it refers to nothing else."""


class ImportStatement(NamedTuple):
    """An imported module, or a name imported from it."""

    module: str
    """As written, with the dots of relative imports: `os.path`, `..core`, `./util`, `github.com/x/y`, `stdio.h`."""
    name: str
    """The imported name; empty for the module itself, `*` for everything."""
    alias: str
    """Local name if it differs; else empty."""
    line: int
    column: int


class FileExtract(Struct, frozen=True):
    """Symbols, uses and imports of one file."""

    language: str
    symbols: tuple[Symbol, ...]
    """In file order; an enclosing symbol comes before the enclosed ones."""
    uses: tuple[NameUse, ...]
    imports: tuple[ImportStatement, ...]
    lines: int
    broken: int = 0
    """First line that could not be parsed; 0 if all could. The rest of the file is still included."""


class Certainty(StrEnum):
    """Certainty that a use refers to the queried definition.

    `exact` if scopes, imports or types prove it; `likely` if nothing contradicts it and no other definition fits;
    `name` if only the name is the same.
    """

    EXACT = "exact"
    LIKELY = "likely"
    NAME = "name"


class CodeVerb(StrEnum):
    """Kind of a code query."""

    DEFINITION = "definition"
    REFERENCES = "references"
    CALLERS = "callers"
    CALLEES = "callees"
    IMPORTS = "imports"
    OUTLINE = "outline"
    SEARCH = "search"
