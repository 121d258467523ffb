"""The command line. The entry point is here, because a hook needs no more of it than this: `main` is for commands."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def entry() -> NoReturn:
    """Run as a program and exit without tearing down the interpreter.

    Everything is closed and flushed by then. The teardown (mostly of numpy and tantivy) took 37 ms of a cold search of 297.
    """
    # Nothing that a start allocates is garbage, and looking for some took 1 ms of a warm search.
    gc.disable()
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"}.intersection(sys.argv[2:]):
        _run_hook(sys.argv[2:])
    # numpy's threads spin while they wait for each other: a search took 31 ms of CPU for 16 ms of work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from lorelog.surfaces.cli.main import main

        status = main()
    except SystemExit as exit_request:  # argparse, after printing help
        status = exit_request.code if isinstance(exit_request.code, int) else 0
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(status)


def _run_hook(words: Sequence[str]) -> NoReturn:
    """Run a hook. The host must always get JSON and exit status 0, even if lorelog's own files are broken."""
    try:
        from lorelog.surfaces.hook import run_and_exit

        run_and_exit(words)
    except BaseException:
        try:
            os.write(1, b"{}\n")
        finally:
            os._exit(0)
