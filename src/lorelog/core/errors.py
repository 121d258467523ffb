"""Errors that a person can do something about, and the words of messages: plurals, articles, the nearest name.

    LorelogError
    ├── UsageError            the request is invalid
    ├── ConfigError           a setting is unknown, malformed or not allowed in this place
    ├── NotFound              the named thing does not exist
    ├── SourceError           one file could not be read; the run continues without it
    ├── Cancelled             the client no longer waits for the reply
    ├── DaemonError           the daemon could not be started, reached or understood
    │   └── DaemonNotRunning  no daemon, or one that is shutting down
    ├── ReplyLost             the daemon went away during a write; the outcome is unknown
    ├── MissingExtra          an optional package is not installed
    ├── DailyLimitReached     the daily token limit is reached; no model was called
    ├── ModelError
    │   ├── ModelUnavailable  no package, no key, no server
    │   └── ModelFault        the model's reply is invalid
    └── StoreError
        ├── StoreBusy         another process is writing
        ├── StoreUnwritable   read-only or full
        ├── StoreUnreachable  a server does not answer, or rejects the connection
        ├── StoreDamaged      the stored bytes are not the ones written
        └── StoreIncompatible written by another version or another program

The message states what happened to which thing, the hint what to do. Foreign errors (sqlite3, tantivy, OSError, HTTP)
are translated in the package that called the foreign code; each surface formats a LorelogError in its own way once.
`code` is the stable name used in JSON.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class LorelogError(Exception):
    """Base class of all expected errors."""

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LorelogError):
    """The request is invalid."""

    code = "usage"


class ConfigError(LorelogError):
    """A setting is unknown, malformed or not allowed in this place."""

    code = "config"


class NotFound(LorelogError):
    """The named thing does not exist."""

    code = "not_found"


class SourceError(LorelogError):
    """One file could not be read; the run continues without it."""

    code = "source"


class SourceChanged(LorelogError):
    """A file has changed since the caller read it; nothing was written."""

    code = "changed"


class Cancelled(LorelogError):
    """The client no longer waits for the reply; completed work is kept."""

    code = "cancelled"


class DaemonError(LorelogError):
    """The daemon could not be started, reached or understood."""

    code = "daemon"


class DaemonNotRunning(DaemonError):
    """No daemon is running, or it is shutting down; another can be started."""

    code = "daemon_absent"


class DaemonUnresponsive(DaemonError):
    """A daemon runs but does not answer; commands work without it."""

    code = "daemon_unresponsive"
    first = False
    """Whether this process is the first to notice."""


class ReplyLost(LorelogError):
    """The daemon went away during a write, before it replied; the outcome is unknown."""

    code = "answer_lost"


class MissingExtra(LorelogError):
    """A feature needs an optional package that is not installed."""

    code = "missing_extra"


class DailyLimitReached(LorelogError):
    """The call may cost more than is left of the daily token limit; no model was called."""

    code = "capped"


class ModelError(LorelogError):
    """A model failed."""

    code = "model"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.done: dict[int, bytes] = {}
        """Vectors made before the failure, by index of their texts: they were paid for."""
        self.tokens = 0
        """Tokens of those vectors."""


class ModelUnavailable(ModelError):
    """The model cannot be reached: no package, no key, no server."""

    code = "model_unavailable"


class ModelFault(ModelError):
    """The model's reply is invalid."""

    code = "model_fault"


class StoreError(LorelogError):
    """The index could not be read or written."""

    code = "store"


class StoreBusy(StoreError):
    """Another process is writing."""

    code = "store_busy"
    holder: str
    """Its name, such as `process 123`; empty if it is not known."""

    def __init__(self, message: str, *, hint: str = "", holder: str = "") -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


class StoreUnwritable(StoreError):
    """The index is in a place that cannot be written: read-only or full."""

    code = "store_unwritable"


class StoreUnreachable(StoreError):
    """The server that holds part of the index, or the Git remote of a sync, does not answer, or rejects the connection."""

    code = "store_unreachable"


class StoreDamaged(StoreError):
    """The index does not contain what was written to it."""

    code = "store_damaged"


class StoreIncompatible(StoreError):
    """The index was written by another version or another program."""

    code = "store_incompatible"


def error_from_code(code: str, message: str, hint: str = "") -> LorelogError:
    """Return the error for a code from another process; an unknown code gives a plain LorelogError."""
    kinds: list[type[LorelogError]] = [LorelogError]
    for kind in kinds:
        if kind.code == code:
            return kind(message, hint=hint)
        kinds += kind.__subclasses__()
    return LorelogError(message, hint=hint)


def plural(count: int, noun: str) -> str:
    """Return `1 file`, `2 files`, `1 memory`, `2,000 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"


def with_article(noun: str) -> str:
    """Return `a review`, `an evidence`."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def nearest_name(word: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name that was probably meant, or ''. `cutoff` is how similar it must be, from 0 to 1."""
    from difflib import get_close_matches  # needed for error messages only

    return next(iter(get_close_matches(word, list(names), n=1, cutoff=cutoff)), "")
