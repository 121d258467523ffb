"""What is in source code: symbols, uses of names, imports, and what a recalled claim about them is still worth.

Lines and columns count from 1, columns in characters, as editors and compilers print them; the end of a span is the
place after its last character.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class SymbolKind(StrEnum):
    """What a name stands for. Structs are classes; traits and protocols are interfaces; fields are variables."""

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
    """What is done with a name where it stands."""

    CALL = "call"
    READ = "read"
    WRITE = "write"
    TYPE = "type"
    IMPORT = "import"


class Span(NamedTuple):
    """From where to where."""

    start_line: int
    start_column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition."""

    name: str
    kind: SymbolKind
    span: Span
    """The whole definition, decorators and all."""
    name_line: int
    name_column: int
    signature: str = ""
    """The head of the definition on one line, without its body."""
    docstring: str = ""
    visibility: str = "public"
    """`public`, `protected`, `private`, or what the language says of packages (`internal`, `package`)."""
    container: str = ""
    """Names of the definitions around it, outermost first, joined by dots; empty at the top of a file."""
    bases: tuple[str, ...] = ()
    """What a class inherits from, as it is written."""
    digest: str = ""
    """Of its tokens, without comments, layout and its own name: what was only renamed keeps it."""

    @property
    def qualified(self) -> str:
        """Its name with those around it."""
        return f"{self.container}.{self.name}" if self.container else self.name


class Use(NamedTuple):
    """A name where it is used, not defined. A tuple, since a file has thousands."""

    name: str
    kind: UseKind
    line: int
    column: int
    enclosing: int
    """Index of the innermost symbol around it in its file's symbols; -1 at the top of a file."""
    receiver: str = ""
    """What stands before the dot: `self`, `os.path`; `?` for what is no plain name; empty for a name alone. In Python what is known of
    it may follow: `x=Foo`, `x:Foo`, `x~y.z`, `?=Foo` (`code/python_held.py`)."""
    local: bool = False
    """Whether the name is bound in the function around it (a parameter, a variable): then it is no other's name."""


class Import(NamedTuple):
    """A name, or a whole module, that a file takes from elsewhere."""

    module: str
    """As it is written, dots of relative imports and all: `os.path`, `..core`, `./util`, `github.com/x/y`, `stdio.h`."""
    name: str
    """What is taken from it; empty for the module itself, `*` for everything."""
    alias: str
    """What it is called here where that differs; else empty."""
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Extract:
    """What one file says."""

    language: str
    symbols: tuple[Symbol, ...]
    """In the order of the file; what is around comes before what is inside."""
    uses: tuple[Use, ...]
    imports: tuple[Import, ...]
    lines: int
    broken: int = 0
    """First line that could not be parsed; 0 where all could be. What was parsed around it is here."""


class Freshness(StrEnum):
    """What became of the code that a memory names."""

    FRESH = "fresh"
    DRIFTED = "drifted"
    GONE = "gone"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a memory names, and what became of it."""

    kind: str
    """`path`, `symbol`, `setting` or `command`."""
    name: str
    """As the memory names it."""
    freshness: Freshness
    how: str = ""
    """What changed, in words that follow the name: `moved to src/a.py`. Empty where nothing did."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the code that a memory names, seen from the working tree that was asked from."""

    freshness: Freshness = Freshness.UNCHECKED
    findings: tuple[Finding, ...] = ()
    unmerged: str = ""
    """The branch that it was made on, where that has not come into what is checked out."""

    @property
    def word(self) -> str:
        """In a word or two, that it is not as it was; empty where it is, or nobody looked."""
        stale = str(self.freshness) if self.freshness in {Freshness.DRIFTED, Freshness.GONE} else ""
        return ", ".join(filter(None, (f"on {self.unmerged}, not merged" if self.unmerged else "", stale)))

    @property
    def told(self) -> tuple[str, ...]:
        """What is no longer as the memory says, a phrase each."""
        return tuple(f"{one.name} {one.how}" for one in self.findings if one.how)


UNCHECKED = Verdict()
