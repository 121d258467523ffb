"""Python asks about code: a namespace of verbs on `Lorelog`.

with Lorelog(project=".") as memory:
    memory.code.index()
    for one in memory.code.find_callers("parse_config", depth=2)["callers"]:
        print(one["caller_name"], one["caller_file"], one["call_line"])

Fields have the names that JSON has, and answers are the JSON, as with records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from lorelog.surfaces import python_records as records
from lorelog.surfaces.python_records import Verbs

if TYPE_CHECKING:
    from lorelog.operations import code_replies as replies
    from lorelog.operations import code_trees as trees


class Asking(TypedDict, total=False):
    """What every question about code may say."""

    limit: int
    all_projects: bool
    tenant: str | None


class Naming(Asking, total=False):
    """What tells a symbol from others of its name."""

    path: str | None
    line: int | None
    container: str
    kind: str | None
    language: str


class Referring(Naming, total=False):
    """Which uses of a symbol are wanted."""

    uses: Sequence[str]
    certainty: str
    below: str | None


class Calling(Naming, total=False):
    """Which callers of a symbol are wanted."""

    depth: int
    certainty: str
    below: str | None


class Importing(Asking, total=False):
    """Which imports are wanted."""

    below: str | None


class Outlining(Asking, total=False):
    """How much of a file or folder is wanted."""

    depth: int | None


class Searching(Asking, total=False):
    """Which symbols are wanted."""

    kind: str | None
    language: str
    below: str | None


class CodeVerbs(Verbs):
    """What is asked about code. Lines and columns count from 1."""

    family = "code"

    def index(self, path: str | None = None, *, force: bool = False, tenant: str | None = None) -> trees.CodeIndexShape:
        """Read the code of the working tree, or a part of it; from then on the daemon keeps it up to date."""
        given = {"path": path, "force": force, "tenant": tenant}
        return cast("trees.CodeIndexShape", self._call("index", given))

    def forget(self, path: str | None = None, *, tenant: str | None = None) -> trees.CodeForgetShape:
        """Forget the code of a working tree; its files stay."""
        return cast("trees.CodeForgetShape", self._call("forget", {"path": path, "tenant": tenant}))

    def status(self, *, tenant: str | None = None) -> trees.CodeStatusShape:
        """List the working trees whose code is indexed."""
        return cast("trees.CodeStatusShape", self._call("status", {"tenant": tenant}))

    def find_definition(self, name: str, **told: Unpack[Naming]) -> replies.DefinitionsShape:
        """Find where a symbol is defined, nearest first."""
        return cast("replies.DefinitionsShape", self._call("find_definition", {"name": name, **told}))

    def find_references(self, name: str, **told: Unpack[Referring]) -> replies.ReferencesShape:
        """Find where a symbol is used, and how."""
        return cast("replies.ReferencesShape", self._call("find_references", {"name": name, **told}))

    def find_callers(self, name: str, **told: Unpack[Calling]) -> replies.CallersShape:
        """Find who calls a symbol, up to three calls away."""
        return cast("replies.CallersShape", self._call("find_callers", {"name": name, **told}))

    def find_imports(self, module: str, **told: Unpack[Importing]) -> replies.ImportsShape:
        """Find which files import a module, or a name out of one."""
        return cast("replies.ImportsShape", self._call("find_imports", {"module": module, **told}))

    def outline(self, path: str = ".", **told: Unpack[Outlining]) -> replies.OutlineShape:
        """List what a file defines, or the files of a folder."""
        return cast("replies.OutlineShape", self._call("outline", {"path": path, **told}))

    def search(self, query: str, **told: Unpack[Searching]) -> replies.CodeSearchShape:
        """Find symbols by a part of their name, its initials, or a misspelling of it."""
        return cast("replies.CodeSearchShape", self._call("search", {"query": query, **told}))


NAMESPACES: Mapping[str, type[Verbs]] = {**records.NAMESPACES, CodeVerbs.family: CodeVerbs}
"""By the name that each has on `Lorelog`."""
