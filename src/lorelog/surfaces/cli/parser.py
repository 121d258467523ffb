"""Argument parsing by argparse, with our errors and help layout: for help, wrong options and unusual command lines.

Common command lines are parsed by `arguments.OptionTable`, because importing argparse takes as long as Python takes to start.
"""

from __future__ import annotations

import argparse
from inspect import cleandoc

from lorelog.core.errors import UsageError, nearest_name
from lorelog.surfaces.cli.arguments import declare, with_default_verb
from lorelog.surfaces.cli.commands import find_function, load_module, text_width, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


def command_parser(name: str) -> CommandParser:
    """Return the parser of a command, with its help."""
    parser = CommandParser(prog=f"lorelog {name}", formatter_class=CommandHelpFormatter, allow_abbrev=False)
    derived, module = declare(parser, name), load_module(name)
    words = next(iter(derived)) if len(derived) == 1 else name
    functions = [] if len(derived) > 1 else [find_function(words, prefix) for prefix in ("run", "show")]
    texts = [
        getattr(module, "HELP", {}).get(name),
        *(function.__doc__ for function in functions if function),
        module.__doc__ if module else derived[name]["summary"],
    ]
    parser.description = cleandoc(next(filter(None, texts), ""))
    for verb, verb_parser in (parser._verbs() or {}).items():
        text = getattr(find_function(f"{name} {verb}", "run"), "__doc__", "") or ""
        if "\n" in text:
            verb_parser.description = cleandoc(text)
    return parser


class CommandParser(argparse.ArgumentParser):
    """Raises usage errors in our own words instead of printing argparse's and exiting."""

    default_verb = ""

    def parse_args(self, args: Sequence[str], namespace: argparse.Namespace | None = None) -> argparse.Namespace:  # type: ignore[override]
        """Parse the words of a command. Raise UsageError for a word that it does not take."""
        args = with_default_verb(args, self.default_verb)
        parsed, rest = self.parse_known_args(list(args), namespace)
        if rest and not any(word.startswith("-") for word in rest) and self._verbs() is None:
            # `index a --force b`: argparse takes a list of arguments in one piece only.
            parsed, rest = self.parse_known_intermixed_args(list(args), namespace)
        if rest:
            raise self._unexpected(rest, args)
        return parsed

    def error(self, message: str) -> NoReturn:
        raise UsageError(self._reword(message), hint=f"{self.prog} --help")

    def format_help(self) -> str:
        """Return the help text, in which the options that all commands take are one line."""
        hidden = [action for action in self._actions if getattr(action, "is_global", False)]
        formatter = self._get_formatter()
        places = [
            formatter._format_args(action, str(action.metavar or action.dest))
            for action in self._actions
            if not action.option_strings
        ]
        margin = len("usage: ")
        usage = wrap(" ".join([self.prog, "[OPTIONS]", *places]), text_width() - margin)
        formatter.add_usage(("\n" + " " * margin).join(usage), (), ())
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments([action for action in group._group_actions if action not in hidden])
            formatter.end_section()
        if hidden:
            names = ", ".join(action.option_strings[0] for action in hidden)
            formatter.add_text(f"global options: {names} (lorelog help options)")
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise UsageError for a value that is not among the choices, and name them."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = _suggest(str(value), choices)
        if isinstance(action, argparse._SubParsersAction):
            hint = f"did you mean '{self.prog} {near}'?" if near else f"one of: {', '.join(choices)}"
            raise UsageError(f"there is no command '{self.prog.removeprefix('lorelog ')} {value}'", hint=hint)
        name = max(action.option_strings, key=len, default=action.dest).lstrip("-").replace("-", " ")
        raise UsageError(
            f"there is no {_CHOICE_NOUNS.get(name, name)} {value!r}; there are: {', '.join(choices)}",
            hint=f"did you mean {near}?" if near else f"{self.prog} --help",
        )

    def _unexpected(self, rest: Sequence[str], words: Sequence[str]) -> UsageError:
        """Return the error for words that no argument or option takes."""
        parser = self.innermost(words)
        option = next((word.partition("=")[0] for word in rest if word.startswith("-")), "")
        if not option:
            return UsageError(
                f"'{parser.prog}' does not take the argument {rest[0]!r}",
                hint=f"put a text of several words in quotes; {parser.prog} --help",
            )
        options = [name for action in parser._actions for name in action.option_strings if action.dest != "help"]
        near = _suggest(option, options)
        return UsageError(
            f"'{parser.prog}' has no option {option}", hint=f"did you mean {near}?" if near else f"{parser.prog} --help"
        )

    def innermost(self, words: Sequence[str]) -> CommandParser:
        """Return the parser of the verb that was given, or this one."""
        verbs = self._verbs() or {}
        verb = next((word for word in words if word in verbs), None)
        return self if verb is None else verbs[verb].innermost(words[words.index(verb) + 1 :])

    def _verbs(self) -> dict[str, CommandParser] | None:
        return next((each.choices for each in self._actions if isinstance(each, argparse._SubParsersAction)), None)

    def _reword(self, message: str) -> str:
        """Return an error of argparse in our words: `-k must be a whole number (got 'x')`."""
        required = message.partition("the following arguments are required: ")[2]
        if required:
            verbs = self._verbs()
            if verbs:
                return f"'{self.prog}' needs one of: {', '.join(verbs)}"
            places = [action for action in self._actions if action.choices and not action.option_strings]
            choices = {action.dest: " or ".join(map(str, action.choices or ())) for action in places}
            return f"'{self.prog}' needs {' and '.join(choices.get(name, name) for name in required.split(', '))}"
        argument, found, fault = message.removeprefix("argument ").partition(": ")
        is_argument = found and message.startswith("argument ")
        return _reword_fault(argument.partition("/")[0], fault) if is_argument else message


def _reword_fault(name: str, fault: str) -> str:
    """Return argparse's complaint about one argument in our words."""
    if fault.startswith("expected "):
        return f"{name} needs a value"
    if fault.startswith("not allowed with argument "):
        return f"use either {name} or {fault.rpartition(' ')[2].partition('/')[0]}, not both"
    if fault.startswith("ignored explicit argument"):
        return f"{name} takes no value"
    for kind, noun in (("int", "whole number"), ("float", "number")):
        if fault.startswith(f"invalid {kind} value: "):
            return f"{name} must be a {noun} (got {fault.partition(': ')[2]})"
    return f"{name} {fault}"


_CHOICE_NOUNS = {"daemon": "daemon mode", "on event": "event", "use": "kind of use", "by": "grouping"}
"""What a choice is called, where the name of its option does not say it."""


def _suggest(word: str, words: Sequence[str]) -> str:
    """Return the word that was probably meant, or ''."""
    longer = [choice for choice in words if choice.startswith(word) and len(word.lstrip("-")) > 1]
    shorter = (choice for choice in words if word.startswith(choice))
    return longer[0] if longer else nearest_name(word, words) or next(shorter, "")


class CommandHelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps the paragraphs of a help text to the terminal, and keeps the shape of indented lines such as examples."""

    def __init__(self, prog: str, indent_increment: int = 2, max_help_position: int = 24, width: int = 0) -> None:
        """Choose the width here: argparse would import `shutil` for it, which takes 4 ms."""
        super().__init__(prog, indent_increment, max_help_position, width or text_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = []
        for paragraph in text.split("\n\n"):
            lines = [] if "\n  " in paragraph else wrap(paragraph, width)
            for line in () if lines else paragraph.split("\n"):
                # The explanation of an example is below it if both are wider than the terminal. A command is never cut.
                command, gap, explanation = line[2:].partition("   ")
                is_folded = gap and len(line) > width
                lines += (
                    [f"  {command}", *(f"      {part}" for part in wrap(explanation, width - 6))]
                    if is_folded
                    else [line]
                )
            paragraphs.append("\n".join(lines))
        return super()._fill_text("\n\n".join(paragraphs), width, indent)
