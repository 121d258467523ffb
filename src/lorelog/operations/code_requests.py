"""What the operations that ask about code may be told."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from lorelog.operations.requests import Path, Request

# msgspec copies defaults that can change, and a linter that reads one file does not see that these are its structs.
# ruff: noqa: RUF012

Name = Annotated[str, Meta(min_length=1, max_length=1000)]
Kind = Literal["function", "method", "class", "interface", "type", "enum", "variable", "constant", "module"]

Uses = Annotated[list[Literal["call", "read", "write", "type", "import"]], Meta(max_length=10)]


class CodeRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose code is looked at."""

    all_projects: Annotated[
        bool, Meta(description="Look at the code of every working tree that is indexed, not only of this one.")
    ] = False
    limit: Annotated[int, Meta(ge=1, le=10_000, description="At most so many.")] = 100


class SymbolRequest(CodeRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A symbol, and what tells it from others of its name."""

    name: Annotated[
        Name, Meta(description="A symbol's name, with what is around it where that helps: parse, Engine.search.")
    ]
    path: Annotated[
        Path | None, Meta(description="Only the symbol that is defined in this file, or below this folder.")
    ] = None
    line: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="With path: only the symbol whose definition this line belongs to."),
    ] = None
    container: Annotated[
        Annotated[str, Meta(max_length=1000)],
        Meta(description="Only symbols of this class, or of whatever else is around them."),
    ] = ""
    kind: Annotated[Kind | None, Meta(description="Only symbols of this kind.")] = None
    language: Annotated[Annotated[str, Meta(max_length=64)], Meta(description="Only code in this language.")] = ""


class DefinitionRequest(SymbolRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A symbol whose definition is looked for."""


class ReferencesRequest(SymbolRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A symbol whose uses are looked for."""

    uses: Annotated[
        Uses,
        Meta(description="Only these kinds of uses; all if none is named."),
    ] = []
    certainty: Annotated[
        Literal["exact", "likely", "name"],
        Meta(description="The least that must speak for a use: `name` takes every use of the same name."),
    ] = "likely"
    below: Annotated[Path | None, Meta(description="Only uses in this file, or below this folder.")] = None


class CallersRequest(SymbolRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A symbol whose callers are looked for."""

    depth: Annotated[int, Meta(ge=1, le=3, description="2 finds the callers of its callers, too, and 3 theirs.")] = 1
    certainty: Annotated[
        Literal["exact", "likely", "name"],
        Meta(description="The least that must speak for a call: `name` takes every call of the same name."),
    ] = "likely"
    below: Annotated[Path | None, Meta(description="Only calls in this file, or below this folder.")] = None


class ImportsRequest(CodeRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A module whose importers are looked for."""

    module: Annotated[
        Name,
        Meta(description="A module, a package, a file of the project, or a name that is imported from somewhere."),
    ]
    below: Annotated[Path | None, Meta(description="Only imports in this file, or below this folder.")] = None


class OutlineRequest(CodeRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file or folder whose symbols are listed."""

    path: Annotated[Path, Meta(description="A file, or a folder: then the symbols at the top of its files.")] = "."
    depth: Annotated[
        Annotated[int, Meta(ge=1, le=40)] | None,
        Meta(description="So many levels of symbols; all of a file, and one of the files in a folder, if not given."),
    ] = None


class CodeSearchRequest(CodeRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name that is only half known."""

    query: Annotated[Name, Meta(description="Part of a name, its initials, or a misspelling of it.")]
    kind: Annotated[Kind | None, Meta(description="Only symbols of this kind.")] = None
    language: Annotated[Annotated[str, Meta(max_length=64)], Meta(description="Only code in this language.")] = ""
    below: Annotated[Path | None, Meta(description="Only in this file, or below this folder.")] = None
    limit: Annotated[int, Meta(ge=1, le=10_000, description="At most so many.")] = 20
