"""Recognise stack traces and error messages in program output and logs, and compute signatures of equal errors."""

from __future__ import annotations

_ERROR_MARKERS = (
    *("rror", "xception", "raceback", "panic", "ERR", "FATAL", "CRITICAL", "SEVERE", "EMERG", "ALERT", "atal"),
    *("ailure", "hrowable", "ejection", "  at ", "\tat ", '", line ', "Caused by", "FAILED", "--- FAIL", "E   "),
    *("___ ", ".go:", ".py:", ".pyi:", ":in ", "not found", "No such file", "ermission denied"),
    *("undefined reference", "multiple definition", "imeout"),
)
"""Every line that begins an error contains one of these."""


def may_contain_error(text: str) -> bool:
    """Return True if a line or text may contain an error. Plain searches: a pattern takes ten times as long."""
    for word in _ERROR_MARKERS:  # noqa: SIM110  (a generator takes twice as long)
        if word in text:
            return True
    return False
