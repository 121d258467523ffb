"""The user's editor: the command that opens a file at a line, and whether it has a window of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lorelog.core.errors import UsageError

EDITOR_HINT = "set VISUAL or EDITOR, for example: export EDITOR=nano"
_PLUS_LINE = frozenset("vi vim nvim gvim mvim view nano pico emacs emacsclient kak micro joe mg ne jed".split())
_GO_TO = frozenset(["code", "code-insiders", "codium", "vscodium", "cursor", "windsurf", "positron"])
_COLON = frozenset(["subl", "sublime_text", "zed", "zeditor", "hx", "helix"])
_LINE_OPTION = frozenset(["idea", "pycharm", "webstorm", "goland", "clion", "rubymine", "phpstorm", "rider", "kate"])
_WINDOWED = (
    _GO_TO
    | _LINE_OPTION
    | (_COLON - {"hx", "helix"})
    | {"gvim", "mvim", "gedit", "gnome-text-editor", "kwrite", "mousepad", "geany", "xed", "pluma", "mate", "bbedit"}
)
"""Editors that open a window. `emacs` and others may, but need a terminal if there is no display."""
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "VSCODE_IPC_HOOK_CLI")


def editor_command(path: str, line: int, environment: Mapping[str, str]) -> list[str]:
    """Return the command that opens a file at a line in $VISUAL or $EDITOR. Raise UsageError if there is no editor."""
    words = _editor_words(environment)
    if not words:
        raise UsageError("no editor is set", hint=EDITOR_HINT)
    name = _program_name(words)
    if name in _PLUS_LINE:
        return [*words, f"+{line}", path]
    if name in _GO_TO:
        return [*words, "-g", f"{path}:{line}"]
    if name in _COLON:
        return [*words, f"{path}:{line}"]
    return [*words, "--line", str(line), path] if name in _LINE_OPTION else [*words, path]


def windowed_editor(environment: Mapping[str, str], *, has_display: bool = False) -> str:
    """Return the name of $VISUAL or $EDITOR if it opens a window; empty if it needs a terminal, or if there is none.

    `has_display` is True on systems where every program can open a window.
    """
    try:
        words = _editor_words(environment)
    except UsageError:
        return ""
    can_open = has_display or any(environment.get(name) for name in _DISPLAYS)
    name = _program_name(words) if words and can_open else ""
    return name if name in _WINDOWED else ""


def _editor_words(environment: Mapping[str, str]) -> Sequence[str]:
    from shlex import split

    chosen = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        return split(chosen)
    except ValueError as error:
        raise UsageError(f"the editor {chosen!r} cannot be read as a command: {error}", hint=EDITOR_HINT) from None


def _program_name(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2].removesuffix(".sh").removesuffix(".exe")
