"""Errors that a person can do something about, and the words of messages: plurals, articles, the nearest name.

    LorelogError
    ├── UsageError            the request is invalid
    │   └── Forbidden         the caller may not do this
    ├── Proposed              it waits for a person's word
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

    def __init_subclass__(cls, *, code: str) -> None:
        cls.code = code

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LorelogError, code="usage"):
    """The request is invalid."""


class Forbidden(UsageError, code="forbidden"):
    """The caller may not do this."""


class Proposed(LorelogError, code="proposed"):
    """It was not done: it would change a memory of the user's own, and waits for a person's word."""


class ConfigError(LorelogError, code="config"):
    """A setting is unknown, malformed or not allowed in this place."""


class NotFound(LorelogError, code="not_found"):
    """The named thing does not exist."""


class SourceError(LorelogError, code="source"):
    """One file could not be read; the run continues without it."""


class SourceChanged(LorelogError, code="changed"):
    """A file has changed since the caller read it; nothing was written."""


class Cancelled(LorelogError, code="cancelled"):
    """The client no longer waits for the reply; completed work is kept."""


class DaemonError(LorelogError, code="daemon"):
    """The daemon could not be started, reached or understood."""


class DaemonNotRunning(DaemonError, code="daemon_absent"):
    """No daemon is running, or it is shutting down; another can be started."""


class DaemonUnresponsive(DaemonError, code="daemon_unresponsive"):
    """A daemon runs but does not answer; commands work without it."""

    first = False
    """Whether this process is the first to notice."""


class ReplyLost(LorelogError, code="answer_lost"):
    """The daemon went away during a write, before it replied; the outcome is unknown."""


class MissingExtra(LorelogError, code="missing_extra"):
    """A feature needs an optional package that is not installed."""


class DailyLimitReached(LorelogError, code="capped"):
    """The call may cost more than is left of the daily token limit; no model was called."""


class ModelError(LorelogError, code="model"):
    """A model failed."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.done: dict[int, bytes] = {}
        """Vectors made before the failure, by index of their texts: they were paid for."""
        self.tokens = 0
        """Tokens of those vectors."""


class ModelUnavailable(ModelError, code="model_unavailable"):
    """The model cannot be reached: no package, no key, no server."""


class ModelFault(ModelError, code="model_fault"):
    """The model's reply is invalid."""


class StoreError(LorelogError, code="store"):
    """The index could not be read or written."""


class StoreBusy(StoreError, code="store_busy"):
    """Another process is writing."""

    holder: str
    """Its name, such as `process 123`; empty if it is not known."""

    def __init__(self, message: str, *, hint: str = "", holder: str = "") -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


class StoreUnwritable(StoreError, code="store_unwritable"):
    """The index is in a place that cannot be written: read-only or full."""


class StoreUnreachable(StoreError, code="store_unreachable"):
    """The server that holds part of the index, or the Git remote of a sync, does not answer, or rejects the connection."""


class StoreDamaged(StoreError, code="store_damaged"):
    """The index does not contain what was written to it."""


class StoreIncompatible(StoreError, code="store_incompatible"):
    """The index was written by another version or another program."""


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
