"""Any program as a language model: it is given the question on its input, and what it says is the answer.

The words of the command are split as a shell would and nothing else of a shell happens: no variables, no pipes, no globs. It
runs as agents' programs do (`child`): in an empty directory, with a time limit, with our hooks off. How long an answer may be
it cannot be told, and what it cost it does not say; a call counts with what it might have cost.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.child import run_child
from lorelog.models.language_host import child_environment, find_program


class CommandLanguage:
    """Writes by running a program once."""

    provider = "command"
    extra_tokens = 0

    def __init__(self, options: LanguageOptions, environment: Mapping[str, str]) -> None:
        try:
            self._words = shlex.split(options.command)
        except ValueError as error:
            raise ConfigError(f"llm.command cannot be split into words: {error}", hint="close what is quoted") from None
        if not self._words:
            raise ConfigError("llm.command names no program", hint="lorelog config set llm.command 'PROGRAM ARGUMENT'")
        self._program = self._words[0]
        self._environment = environment
        self._timeout_s = options.timeout_s
        self.model = options.model or os.path.basename(self._program)  # noqa: PTH119

    def check(self) -> None:
        """Raise ModelUnavailable where there is no such program. Starts none."""
        program = self._located()
        if shutil.which(program) is None:
            raise ModelUnavailable(
                f"{program} is no program that can be started", hint="llm.command names it, with its arguments"
            )

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        command = [self._located(), *self._words[1:]]
        given = f"{system}\n\n{text}\n".encode("utf-8", "replace")
        status, said = run_child(command, given, child_environment(self._environment), self._timeout_s)
        if status != 0:
            # One that has said something may well have been paid for it.
            failed = ModelFault if said.strip() else ModelUnavailable
            raise failed(f"{self.model} failed (status {status})", hint="run the command of llm.command at a shell")
        return Completion(said.decode("utf-8", "replace").strip())

    def _located(self) -> str:
        """Return where the program is. A relative path would be one of the empty directory that it runs in."""
        program = self._program
        if program.startswith("~"):
            home = self._environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
            program = home + program[1:] if program.startswith("~/") else os.path.expanduser(program)  # noqa: PTH111
        if os.path.isabs(program):  # noqa: PTH117
            return program
        found = "" if os.sep in program else find_program(program, self._environment)
        if not found:
            raise ModelUnavailable(
                f"there is no program {self._program!r} to ask", hint="write its whole path in llm.command"
            )
        return found
