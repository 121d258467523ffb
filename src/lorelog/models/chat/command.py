"""Language model that runs any program: the prompt is written to its stdin, and its stdout is the completion.

The command line is split like a shell's, but without variables, pipes or globs. The program runs like an agent's (see
`agent_cli`): in an empty directory, with a time limit, with our hooks off. It cannot be told how long the completion may be
and does not report tokens; a call counts with the maximum it might have cost.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.models.chat.agent_cli import child_environment, find_program, run_child


class CommandLanguageModel:
    """Completes by running a program once."""

    provider = "command"
    extra_tokens = 0

    def __init__(self, options: LanguageOptions, environment: Mapping[str, str]) -> None:
        try:
            self._words = shlex.split(options.command)
        except ValueError as error:
            raise ConfigError(f"llm.command cannot be parsed: {error}", hint="close the quotes") from None
        if not self._words:
            raise ConfigError("llm.command names no program", hint="lorelog config set llm.command 'PROGRAM ARGUMENT'")
        self._program = self._words[0]
        self._environment = environment
        self._timeout_s = options.timeout_s
        self.model = options.model or Path(self._program).name

    def check(self) -> None:
        """Raise ModelUnavailable if the program does not exist. Starts nothing."""
        program = self._find_program()
        if shutil.which(program) is None:
            raise ModelUnavailable(
                f"{program} is not an executable program", hint="set llm.command to the program and its arguments"
            )

    def complete(self, system: str, text: str, max_tokens: int) -> Completion:
        command = [self._find_program(), *self._words[1:]]
        prompt = f"{system}\n\n{text}\n".encode("utf-8", "replace")
        status, output = run_child(command, prompt, child_environment(self._environment), self._timeout_s)
        if status != 0:
            # A program that has printed something may have used a paid model.
            error_type = ModelFault if output.strip() else ModelUnavailable
            raise error_type(f"{self.model} failed (status {status})", hint="run the command of llm.command in a shell")
        return Completion(output.decode("utf-8", "replace").strip())

    def _find_program(self) -> str:
        """Return the program's path. A relative path would refer to the empty directory that it runs in."""
        program = self._program
        if program.startswith("~"):
            home = self._environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
            program = home + program[1:] if program.startswith("~/") else os.path.expanduser(program)  # noqa: PTH111
        if Path(program).is_absolute():
            return program
        path = "" if os.sep in program else find_program(program, self._environment)
        if not path:
            raise ModelUnavailable(
                f"the program {self._program!r} was not found", hint="set llm.command to its absolute path"
            )
        return path
