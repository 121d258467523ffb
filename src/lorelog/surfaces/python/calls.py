"""How the methods of `Lorelog` reach their operations: in the daemon, or in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, get_args

from msgspec import ValidationError

from lorelog.core.errors import DaemonError, DaemonUnresponsive, LorelogError, ReplyLost, UsageError
from lorelog.core.ports import Progress
from lorelog.operations.catalogue import find_operation
from lorelog.operations.dispatch import ClientIdentity, Dispatcher, read_request
from lorelog.operations.operation import Operation, RequestContext
from lorelog.surfaces.python.values import DaemonMode, PathArgument, from_json, to_arguments
from lorelog.wiring import open_engine, resolve_location, settings_at, working_directory


class OperationCaller:
    """Calls operations for one `Lorelog`. Threads may share it.

    A call goes to the daemon if one runs and may be used; otherwise, and if the daemon goes away before it has begun a
    write, this object's own engine does the work.
    """

    def __init__(
        self,
        project: PathArgument | None,
        *,
        home: PathArgument | None,
        settings: Mapping[str, object] | None,
        daemon: DaemonMode | None,
    ) -> None:
        self.location = resolve_location(home=home, project=project)
        self.settings = {key: value for key, value in (settings or {}).items() if value is not None}
        self.engine = open_engine(self.location, self.settings)
        configured = settings_at(self.location, self.settings).daemon_options().warm
        self._daemon = daemon or configured
        if self._daemon not in get_args(DaemonMode):
            raise UsageError(f"daemon must be auto, off or required (got {self._daemon!r})")
        self._variables = _settings_as_variables(self.settings)
        if self._variables is None and self._daemon == "required":
            raise UsageError("settings with an empty value cannot be sent to the daemon", hint='use daemon="off"')
        start = project or self.location.environment.get("LORELOG_PROJECT") or ""
        self._directory = str(Path(working_directory(), start))
        self._project = None if project is None else self._directory
        self._home = None if home is None else str(self.location.home)
        self._dispatcher = Dispatcher(lambda _location, _overrides: nullcontext(self.engine))
        self._closed = False

    def close(self) -> None:
        """Close files and models. May be called twice."""
        self._closed = True
        self.engine.close()

    def check_open(self) -> None:
        """Raise UsageError after `close`."""
        if self._closed:
            raise UsageError("this Lorelog is closed", hint="open another one, or keep it open with 'with'")

    def run(self, name: str, fields: Mapping[str, Any], /) -> Any:
        """Run an operation and return its value. Fields that are None or UNSET count as not given."""
        self.check_open()
        operation = find_operation(name)
        arguments = to_arguments(operation.request, fields)
        if arguments.get("project") is not None or arguments.get("tenant") is not None:
            return self.run_traced(name, fields)
        progress: Progress | None = arguments.pop("progress", None)
        reply = self._ask_daemon(operation.name, arguments, progress, wants_value=True)
        if reply is not None:
            return _read_value(operation, reply)
        request = read_request(operation, arguments)
        client = self._client()
        context = RequestContext(
            client.directory,
            environment=client.environment,
            agent=client.detect_agent(),
            progress=progress,
            meter=self._dispatcher.meter,
        )
        if operation.writes and self.engine.has_interrupted_forget():
            with suppress(LorelogError):
                self.engine.complete_forgets()
        return operation.handler(self.engine, request, context)

    def run_traced(self, name: str, fields: Mapping[str, Any], /) -> Any:
        """Run an operation, record the call, and return its value. The fields may name another project or tenant."""
        self.check_open()
        operation = find_operation(name)
        dispatcher, complete = self._dispatch(to_arguments(operation.request, fields))
        reply = self._ask_daemon(name, complete, None, wants_value=True)
        if reply is not None:
            return _read_value(operation, reply)
        return dispatcher.value(name, complete, self._client())

    def call(self, op: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call an operation by name and return its JSON."""
        self.check_open()
        dispatcher, complete = self._dispatch(arguments)
        reply = self._ask_daemon(find_operation(op).name, complete, None, wants_value=False)
        return dispatcher.call(op, complete, self._client()) if reply is None else reply

    def _dispatch(self, arguments: Mapping[str, Any]) -> tuple[Dispatcher, dict[str, Any]]:
        """Return the dispatcher for a call: with this object's engine, unless the call names a project or tenant."""
        complete = {"project": self._project, **arguments}
        if arguments.get("project") is None and arguments.get("tenant") is None:
            return self._dispatcher, complete
        return Dispatcher(lambda place, overrides: open_engine(place, {**self.settings, **overrides})), complete

    def _client(self) -> ClientIdentity:
        return ClientIdentity(working_directory(), dict(os.environ), self._home)

    def _ask_daemon(
        self, op: str, arguments: Mapping[str, Any], progress: Progress | None, *, wants_value: bool
    ) -> dict[str, Any] | None:
        """Return the daemon's reply; None if this process should do the work."""
        if self._daemon == "off" or self._variables is None:
            return None
        from lorelog.light.daemon_client import call_daemon

        try:
            return call_daemon(
                op,
                arguments,
                directory=working_directory(),
                environment={**os.environ, "LORELOG_PROJECT": self._directory, **self._variables},
                home=str(self.location.home),
                caller={"wants_value": wants_value},
                start=_start_daemon if self._daemon == "required" else None,
                progress=progress if progress is None else _guard(progress),
            )
        except _ProgressFailed as failed:
            raise failed.error from None
        except DaemonError as error:
            if self._daemon == "required":
                raise
            _log_unresponsive(error)
            return None


def _read_value(operation: Operation[Any, Any], reply: Mapping[str, Any]) -> Any:
    """Return the value in a daemon's reply. Raise ReplyLost if the daemon, of another version, replies in another form."""
    try:
        return from_json(operation, reply["value"])
    except (KeyError, ValidationError) as error:
        raise ReplyLost(
            f"{operation.name} was done, but the reply of the daemon cannot be read: it has another version ({error})",
            hint="restart this program and the daemon (lorelog daemon restart)",
        ) from error


class _ProgressFailed(BaseException):
    """Carries an error of the user's callback past the handlers for a lost connection."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _guard(progress: Progress) -> Progress:
    def report(stage: str, done: int, total: int) -> None:
        try:
            progress(stage, done, total)
        except Exception as error:
            raise _ProgressFailed(error) from error

    return report


def _start_daemon(address: Any) -> None:
    from lorelog.light.daemon_control import start

    start(address, force=True)


def _log_unresponsive(error: DaemonError) -> None:
    if isinstance(error, DaemonUnresponsive) and error.first:
        import logging

        logging.getLogger("lorelog").warning("%s; working without it", error.message)


def _settings_as_variables(settings: Mapping[str, object]) -> dict[str, str] | None:
    """Return settings as environment variables for the daemon; None if one cannot be written so.

    An empty variable counts as not set, so an empty value cannot be sent.
    """
    variables = {}
    for key, value in settings.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if text in {"", "[]"}:
            return None
        variables[f"LORELOG_{key.replace('.', '_').upper()}"] = text
    return variables
