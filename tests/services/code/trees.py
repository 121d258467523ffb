"""A working tree that is indexed in the test's own process."""

from __future__ import annotations

from pathlib import Path

from tests.code.repositories import write

from lorelog.code.parsing import RECIPE, ParseRequest, parse_file
from lorelog.code.tables import CodeTables
from lorelog.code.writer import open_writer
from lorelog.core.code import Certainty, UseKind
from lorelog.core.code_reply import CodeReply
from lorelog.services.code import CodeScope
from lorelog.services.code.navigation import CodeNavigator, CodeQueryOptions, SymbolQuery, parse_name
from lorelog.services.places.workspace import Project, Workspace


class Tree:
    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.root = folder / "work"
        self.tables = CodeTables(folder / "code.db")
        write(self.root, files)
        with open_writer(folder / "code.db", wait_s=5) as writer:
            number = writer.root(str(self.root), str(self.root), ())
            parsed = [parse_file(str(self.root), ParseRequest(path, "", len(text))) for path, text in files.items()]
            writer.put(number, parsed, RECIPE)
            writer.finish(number, "2026-11-15T12:00:00Z", "")

    @property
    def navigator(self) -> CodeNavigator:
        project = Project(str(self.root), str(self.root), "work", git=True)
        return CodeNavigator(CodeScope(self.tables, Workspace(project, self.root, "default")))

    def references(self, name: str, certainty: Certainty = Certainty.LIKELY, path: str = "") -> CodeReply:
        return self.navigator.find_references(self.query(name, path), CodeQueryOptions(certainty=certainty))

    def uses(self, name: str, certainty: Certainty = Certainty.LIKELY, path: str = "") -> dict[str, str]:
        """Return the uses of a symbol by location: the kind, and the certainty unless it is exact."""
        return {
            f"{reference.path}:{reference.line}": f"{reference.use}"
            + ("" if reference.certainty == Certainty.EXACT else f" {reference.certainty}")
            for reference in self.references(name, certainty, path).references
        }

    def callers(self, name: str, depth: int = 1) -> list[str]:
        """Return the callers of a symbol: qualified name, location of the call, depth."""
        reply = self.navigator.find_callers(self.query(name), CodeQueryOptions(), depth)
        return [
            f"{caller.caller_container}.{caller.caller_name} {caller.path}:{caller.call_line} {caller.depth}".lstrip(
                "."
            )
            for caller in reply.callers
        ]

    def defined(self, name: str, path: str = "", line: int = 0) -> list[str]:
        reply = self.navigator.find_definition(self.query(name, path, line))
        return [f"{definition.path}:{definition.name_line}" for definition in reply.definitions]

    def query(self, name: str, path: str = "", line: int = 0) -> SymbolQuery:
        last, container = parse_name(name)
        return SymbolQuery(last, container, str(self.root / path) if path else "", line)


CALL, READ, WRITE, TYPE, IMPORT = (str(kind) for kind in UseKind)
