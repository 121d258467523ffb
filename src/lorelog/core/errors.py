"""Everything that can go wrong and that a person can do something about.

    LorelogError
    ├── UsageError            what was asked for cannot be asked for
    ├── ConfigError           a setting is unknown, malformed or not allowed where it stands
    ├── NotFound              the thing named is not there
    ├── SourceError           one file could not be read; the run goes on without it
    ├── Cancelled             whoever asked does not wait for the answer any more
    ├── DaemonError           the warm daemon could not be started, reached or understood
    │   └── DaemonAbsent      none is there, or one that is leaving
    ├── AnswerLost            the daemon went away while it wrote; nobody knows whether it was done
    ├── Capped                the day's tokens are spent; nothing was asked of a model
    ├── ModelError
    │   ├── ModelUnavailable  no package, no key, no server
    │   └── ModelFault        it answered, but not with what was asked for
    └── StoreError
        ├── StoreBusy         another process is writing
        ├── StoreUnwritable   read-only or full
        ├── StoreUnreachable  a server does not answer, or refuses us
        ├── StoreDamaged      its bytes are not what we wrote
        └── StoreIncompatible written by another version or another program

The message says what happened to which thing, the hint what to do about it. Foreign errors (sqlite3, tantivy, OSError,
HTTP) are translated where they enter, in the room that called the foreign code; a surface translates a
LorelogError to its own dialect once. `code` is the stable name that JSON carries.
"""

from __future__ import annotations


class LorelogError(Exception):
    """Something foreseeable went wrong."""

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LorelogError):
    """What was asked for cannot be asked for."""

    code = "usage"


class ConfigError(LorelogError):
    """A setting is unknown, malformed or not allowed where it stands."""

    code = "config"


class NotFound(LorelogError):
    """The thing named is not there."""

    code = "not_found"


class SourceError(LorelogError):
    """One file could not be read; the run goes on without it."""

    code = "source"


class Cancelled(LorelogError):
    """Whoever asked does not wait for the answer any more; what was done is kept."""

    code = "cancelled"


class DaemonError(LorelogError):
    """The warm daemon could not be started, reached or understood."""

    code = "daemon"


class DaemonAbsent(DaemonError):
    """No daemon is there, or one that is leaving: another can be started."""

    code = "daemon_absent"


class AnswerLost(LorelogError):
    """The daemon went away after it began to write and before it said so; nobody knows whether it was done."""

    code = "answer_lost"


class Capped(LorelogError):
    """What a call may cost is more than is left of the day's tokens; nothing was asked."""

    code = "capped"


class ModelError(LorelogError):
    """A model could not do its work."""

    code = "model"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.done: dict[int, bytes] = {}
        """Vectors of texts that were made before it failed, by the texts' places: they were paid for."""
        self.tokens = 0
        """What those cost."""


class ModelUnavailable(ModelError):
    """The model cannot be reached: no package, no key, no server."""

    code = "model_unavailable"


class ModelFault(ModelError):
    """The model answered, but not with what was asked for."""

    code = "model_fault"


class StoreError(LorelogError):
    """The index could not be read or written."""

    code = "store"


class StoreBusy(StoreError):
    """Another process is writing."""

    code = "store_busy"


class StoreUnwritable(StoreError):
    """The index lies where nothing can be written: read-only or full."""

    code = "store_unwritable"


class StoreUnreachable(StoreError):
    """The server that keeps part of the index does not answer, or refuses us."""

    code = "store_unreachable"


class StoreDamaged(StoreError):
    """The index does not hold what was written to it."""

    code = "store_damaged"


class StoreIncompatible(StoreError):
    """The index was written by another version or another program."""

    code = "store_incompatible"


def error_of(code: str, message: str, hint: str = "") -> LorelogError:
    """Return the error that a code names, as another process raised it; an unknown code is a plain LorelogError."""
    kinds: list[type[LorelogError]] = [LorelogError]
    for kind in kinds:
        if kind.code == code:
            return kind(message, hint=hint)
        kinds += kind.__subclasses__()
    return LorelogError(message, hint=hint)
