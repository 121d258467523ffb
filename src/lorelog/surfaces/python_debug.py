"""Python asks about traces: a namespace of verbs on `Lorelog`.

with Lorelog(project=".") as memory:
    memory.debug.ingest("app.log.gz")
    for one in memory.debug.why("KeyError: 'id'")["fixes"]:
        print(one["command"], one["files"])

Fields have the names that JSON has, and answers are the JSON, as with records.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from lorelog.surfaces import python_code as code
from lorelog.surfaces.python_records import Verbs

if TYPE_CHECKING:
    from lorelog.operations import debug_replies as replies


class Tracing(TypedDict, total=False):
    """Which traces are wanted."""

    time_from: str
    time_to: str
    session_id: str
    source: str
    limit: int
    all_projects: bool
    tenant: str | None


class ErrorTracing(Tracing, total=False):
    """Which errors are wanted."""

    function_name: str
    file_path: str
    text: str
    include_frames: bool


class DebugVerbs(Verbs):
    """What was called, what went wrong, and what is known of an error."""

    family = "debug"

    def find_tool_calls(
        self, tool_name: str = "", *, errors_only: bool = False, **told: Unpack[Tracing]
    ) -> replies.ToolCallsShape:
        """Tell which operations and tools were called, newest first."""
        given = {"tool_name": tool_name, "errors_only": errors_only, **told}
        return cast("replies.ToolCallsShape", self._call("find_tool_calls", given))

    def find_errors(self, error_signature: str = "", **told: Unpack[ErrorTracing]) -> replies.ErrorsShape:
        """Tell what went wrong, newest first and grouped by signature."""
        return cast("replies.ErrorsShape", self._call("find_errors", {"error_signature": error_signature, **told}))

    def ingest(
        self, path: str | os.PathLike[str] | None = None, *, text: str | None = None, tenant: str | None = None
    ) -> replies.IngestShape:
        """Read a log, or a text, and keep the errors that it tells; the same one again adds nothing."""
        given = {"path": None if path is None else os.fspath(path), "text": text, "tenant": tenant}
        return cast("replies.IngestShape", self._call("ingest", given))

    def why(self, text: str, *, all_projects: bool = False, tenant: str | None = None) -> replies.WhyShape:
        """Say whether an error was seen before, and what was done about it."""
        given = {"text": text, "all_projects": all_projects, "tenant": tenant}
        return cast("replies.WhyShape", self._call("why", given))


NAMESPACES: Mapping[str, type[Verbs]] = {**code.NAMESPACES, DebugVerbs.family: DebugVerbs}
"""By the name that each has on `Lorelog`."""
