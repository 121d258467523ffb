"""A working tree whose code can be asked about at once."""

from __future__ import annotations

from pathlib import Path

from lorelog.code.parsed import RECIPE, Asked, parse_file
from lorelog.code.tables import CodeTables
from lorelog.code.tables_writing import writing
from lorelog.core.code import UseKind
from lorelog.core.code_answers import Certainty, CodeReply
from lorelog.services.code.asking import Bounds, CodeAsker
from lorelog.services.code.finding import Wanted, read_name
from lorelog.services.code.sight import CodeSight
from lorelog.services.place import Place
from lorelog.services.scope import Project


class Tree:
    """Files, indexed in this process."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.root = folder / "work"
        self.tables = CodeTables(folder / "code.db")
        for path, text in files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        with writing(folder / "code.db", wait_s=5) as writer:
            number = writer.root(str(self.root), str(self.root), ())
            parsed = [parse_file(str(self.root), Asked(path, "", len(text))) for path, text in files.items()]
            writer.put(number, parsed, RECIPE)
            writer.finish(number, "2026-11-15T12:00:00Z", "")

    @property
    def asker(self) -> CodeAsker:
        project = Project(str(self.root), str(self.root), "work", git=True)
        return CodeAsker(CodeSight(self.tables, Place(project, self.root, "default")))

    def references(self, name: str, certainty: Certainty = Certainty.LIKELY, path: str = "") -> CodeReply:
        return self.asker.find_references(self.wanted(name, path), Bounds(certainty=certainty))

    def uses(self, name: str, certainty: Certainty = Certainty.LIKELY, path: str = "") -> dict[str, str]:
        """Return where a symbol is used, each place with how, and how sure that is where it is not exact."""
        return {
            f"{one.spot.path}:{one.spot.line}": f"{one.use}"
            + ("" if one.certainty is Certainty.EXACT else f" {one.certainty}")
            for one in self.references(name, certainty, path).references
        }

    def callers(self, name: str, depth: int = 1) -> list[str]:
        """Return who calls a symbol: full name, place of the call, depth."""
        reply = self.asker.find_callers(self.wanted(name), Bounds(), depth)
        return [
            f"{one.container}.{one.name}".lstrip(".") + f" {one.spot.path}:{one.spot.line} {one.depth}"
            for one in reply.callers
        ]

    def defined(self, name: str, path: str = "", line: int = 0) -> list[str]:
        reply = self.asker.find_definition(self.wanted(name, path, line))
        return [f"{one.spot.path}:{one.symbol.name_line}" for one in reply.definitions]

    def wanted(self, name: str, path: str = "", line: int = 0) -> Wanted:
        last, container = read_name(name)
        return Wanted(last, container, str(self.root / path) if path else "", line)


CALL, READ, WRITE, TYPE, IMPORT = (str(kind) for kind in UseKind)
