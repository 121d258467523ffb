"""The line that an answer points at, as its file has it now. An index may be older than its files: then the line is left out."""

from __future__ import annotations

from lorelog.code.tables import CodeTables, Imported
from lorelog.core.code_answers import Importing, Spot

_MOST_BYTES = 4 << 20
_MOST_LETTERS = 200


class Lines:
    """Reads each file once."""

    def __init__(self, tables: CodeTables) -> None:
        self._tables = tables
        self._read: dict[str, list[str]] = {}
        self._changed: set[str] = set()

    def at(self, spot: Spot, name: str) -> str:
        """Return a line without the space around it; empty where the file is gone, too large, or no longer has the name there."""
        lines = self._lines(spot.absolute)
        text = lines[spot.line - 1] if spot.line <= len(lines) else ""
        if name and name not in text:
            self._changed.add(spot.path)
            return ""
        text = text.strip()
        return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"

    def importing(self, one: Imported) -> Importing:
        """Return an import with its line."""
        spot = Spot(one.root, one.path, one.language, one.what.line, one.what.column)
        return Importing(spot, one.what.module, one.what.name, one.what.alias, self.at(spot, ""))

    def notes(self) -> list[str]:
        """Say which files have changed since they were indexed."""
        if not self._changed:
            return []
        first = min(self._changed)
        more = f" and {len(self._changed) - 1} more" if len(self._changed) > 1 else ""
        return [f"{first}{more} changed since it was indexed: 'lorelog code index' reads it again"]

    def _lines(self, path: str) -> list[str]:
        if path not in self._read:
            try:
                with open(path, "rb") as file:  # noqa: PTH123
                    content = file.read(_MOST_BYTES + 1)
            except OSError:
                content = b""
            if len(content) > _MOST_BYTES:
                content = b""
            self._read[path] = content.decode("utf-8", "replace").split("\n")
        return self._read[path]
