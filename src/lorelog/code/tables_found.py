"""What the tables of code answer with. Paths of files are relative to their root, with strokes between folders; roots are real paths."""

from __future__ import annotations

from dataclasses import dataclass

from lorelog.core.code import Import, Symbol, Use
from lorelog.core.document import Stamp


@dataclass(frozen=True, slots=True)
class CodeRoot:
    """A working tree that was indexed."""

    path: str
    project: str
    """The project's id: linked worktrees share it."""
    parts: tuple[str, ...] = ()
    """Folders below it that are indexed, relative to it; empty for all of it."""
    files: int = 0
    """Files that are known, those included that could not be parsed."""
    symbols: int = 0
    indexed_at: str = ""
    """When a run last went through to its end (ISO, UTC); empty while none has: what is known is then only a part."""
    head: str = ""
    """The commit that was checked out then; empty without Git."""

    def covers(self, path: str) -> bool:
        """Say whether a file, by its path relative to the root, would be known here if it were code."""
        return not self.parts or any(path == part or path.startswith(f"{part}/") for part in self.parts)


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file as it was when it was last read."""

    root: str
    path: str
    language: str
    """Empty for one that was looked at and is not code, or could not be read."""
    stamp: Stamp
    digest: str
    """SHA-256 of its bytes, the first 32 hex digits (`digest_of`); empty where it could not be read."""
    lines: int = 0
    broken: int = 0
    """First line that could not be parsed; 0 where all could be."""
    symbols: int = 0
    problem: str = ""
    """Why nothing is known of what is in it: too large, binary, unreadable, took too long."""

    @property
    def absolute(self) -> str:
        """Return where it lies."""
        return f"{self.root.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class Defined:
    """A definition, and the file it stands in."""

    root: str
    path: str
    language: str
    symbol: Symbol
    ordinal: int
    """Its place among the symbols of its file: what `Use.enclosing` counts by."""

    @property
    def absolute(self) -> str:
        """Return where its file lies."""
        return f"{self.root.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class Used:
    """A use of a name, and the file it stands in."""

    root: str
    path: str
    language: str
    use: Use
    enclosing: Symbol | None
    """The innermost definition around it; None at the top of a file."""

    @property
    def absolute(self) -> str:
        """Return where its file lies."""
        return f"{self.root.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class Imported:
    """An import, and the file it stands in."""

    root: str
    path: str
    language: str
    what: Import

    @property
    def absolute(self) -> str:
        """Return where its file lies."""
        return f"{self.root.rstrip('/')}/{self.path}"
