"""Split a shell command into the simple commands that it runs, so that guards match what is run and not what is quoted.

`cd app && CI=1 npm install` runs `npm install`; `echo "npm install"` does not. This is a reader of common shell syntax
(quotes, lists, pipes, substitutions, here-documents), not a shell: aliases, variables and functions are not expanded.
Imports nothing, because a hook loads it.
"""

from __future__ import annotations

MAX_COMMAND_CHARS = 20_000
_MAX_DEPTH = 8
_MAX_COMMANDS = 500
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_WRAPPERS = {
    "sudo": "ughpCDRT",
    "doas": "uC",
    "env": "uCS",
    "nice": "n",
    "timeout": "ks",
    "xargs": "InPLdEsa",
    "stdbuf": "ioe",
    "ionice": "cn",
    **dict.fromkeys(("time", "exec", "command", "builtin", "nohup", "setsid", "caffeinate"), ""),
    **dict.fromkeys(("then", "do", "else", "elif", "if", "while", "until", "!", "{", "}", "eval"), ""),
}
"""Words that run the command after them, with the letters of their options that take a value."""
_GIT_VALUE_OPTIONS = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
_WRITERS = frozenset({"rm", "mv", "tee", "touch", "truncate", "unlink", "shred", "patch"})
_COPIERS = frozenset({"cp", "ln", "install", "rsync"})
"""Programs that write their last argument only."""
_IN_PLACE_EDITORS = frozenset({"sed", "perl"})
_REDIRECTS = frozenset({">", ">>", ">|", "&>", "&>>"})


def simple_commands(text: str) -> list[list[str]]:
    """Return the words of every simple command, without environment, wrappers such as sudo, and git's global options."""
    found: list[list[str]] = []
    for words in _split(text[:MAX_COMMAND_CHARS]):
        _add_command(found, words, 0)
    return found


def written_paths(commands: list[list[str]], directory: str) -> list[str]:
    """Return the paths that commands write or delete: redirections, rm, mv, cp, tee, sed -i and the like."""
    paths: list[str] = []
    for words in commands:
        program = program_name(words[0])
        if program == "cd" and len(words) == 2:
            directory = _join(directory, words[1])
        names = [words[index + 1] for index, word in enumerate(words[:-1]) if word in _REDIRECTS]
        in_place = program in _IN_PLACE_EDITORS and any(word.startswith(("-i", "--in-place")) for word in words[1:])
        if program in _WRITERS or program in _COPIERS or in_place:
            arguments = [word for word in words[1:] if not word.startswith("-") and word not in _REDIRECTS]
            names += arguments[-1:] if program in _COPIERS else arguments
        paths += [_join(directory, name) for name in names]
    return paths


def program_name(word: str) -> str:
    """Return the name of a program without its folder."""
    return word.rpartition("/")[2]


def _join(directory: str, name: str) -> str:
    return name if name.startswith(("/", "~")) or not directory else f"{directory}/{name}"


def _add_command(found: list[list[str]], words: list[str], depth: int) -> None:
    words = _strip_wrappers(words)
    if not words or len(found) >= _MAX_COMMANDS:
        return
    if depth < _MAX_DEPTH and program_name(words[0]) in _SHELLS and len(words) > 2:
        for index, word in enumerate(words[1:-1], 1):
            if word.startswith("-") and not word.startswith("--") and "c" in word:  # bash -lc "…"
                for inner in _split(words[index + 1]):
                    _add_command(found, inner, depth + 1)
                return
    if depth < _MAX_DEPTH and len(words) == 1 and " " in words[0]:  # eval "…"
        for inner in _split(words[0]):
            _add_command(found, inner, depth + 1)
        return
    found.append(_strip_git_options(words))


def _strip_wrappers(words: list[str]) -> list[str]:
    start = 0
    while start < len(words):
        word = words[start]
        if _is_assignment(word):
            start += 1
            continue
        name = program_name(word)
        if name not in _WRAPPERS:
            break
        start += 1
        while start < len(words) and words[start].startswith("-"):
            takes_value = len(words[start]) == 2 and words[start][1] in _WRAPPERS[name]
            start += 2 if takes_value else 1
        if name == "timeout":
            start += 1
    return words[start:]


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum() and not name[0].isdigit()


def _strip_git_options(words: list[str]) -> list[str]:
    if program_name(words[0]) != "git":
        return words
    start = 1
    while start < len(words) and words[start].startswith("-"):
        start += 2 if words[start] in _GIT_VALUE_OPTIONS else 1
    return [words[0], *words[start:]] if start < len(words) else words


def _split(text: str) -> list[list[str]]:
    scanner = _ShellScanner(text)
    scanner.scan("", 0)
    return scanner.commands


class _ShellScanner:
    def __init__(self, text: str) -> None:
        self.commands: list[list[str]] = []
        self._text = text
        self._at = 0
        self._heredocs: list[str] = []

    def scan(self, closer: str, depth: int) -> None:
        """Read commands up to the closing character, or to the end."""
        words: list[str] = []
        word: str | None = None
        text, size = self._text, len(self._text)
        while self._at < size:
            letter = text[self._at]
            if letter == closer:
                self._at += 1
                break
            if letter in " \t":
                self._end_word(words, word)
                word = None
                self._at += 1
            elif letter in ";|\n)" or (letter == "&" and not self._is_redirect_sign()) or letter == "(":
                self._end_word(words, word)
                word, words = None, self._end_command(words)
                self._take_separator(letter, depth)
            elif letter == "#" and word is None:
                end = text.find("\n", self._at)
                self._at = size if end < 0 else end
            elif letter in "<>" or letter == "&":
                self._take_redirect(words, word, depth)
                word = None
            else:
                word = (word or "") + self._take_part(letter, depth)
        self._end_word(words, word)
        self._end_command(words)

    def _take_part(self, letter: str, depth: int) -> str:
        """Return the text of the next part of a word: a quoted text, a substitution, or one character."""
        text = self._text
        if letter == "\\":
            self._at += 2
            return text[self._at - 1 : self._at].replace("\n", "")
        if letter == "'":
            end = text.find("'", self._at + 1)
            end = len(text) if end < 0 else end
            part = text[self._at + 1 : end]
            self._at = end + 1
            return part
        if letter == '"':
            return self._take_double_quoted(depth)
        if self._take_substitution(letter, depth):
            return "$()"
        self._at += 1
        return letter

    def _take_double_quoted(self, depth: int) -> str:
        text, size = self._text, len(self._text)
        self._at += 1
        part: list[str] = []
        while self._at < size:
            letter = text[self._at]
            if letter == '"':
                self._at += 1
                break
            if letter == "\\" and self._at + 1 < size:
                part.append(text[self._at + 1])
                self._at += 2
            elif not self._take_substitution(letter, depth):
                part.append(letter)
                self._at += 1
        return "".join(part)

    def _take_substitution(self, letter: str, depth: int) -> bool:
        """Read the commands of `$(…)` or of backquotes; return False if none begins here."""
        if depth >= _MAX_DEPTH or not (letter == "`" or self._text.startswith("$(", self._at)):
            return False
        self._at += 1 if letter == "`" else 2
        self.scan("`" if letter == "`" else ")", depth + 1)
        return True

    def _take_separator(self, letter: str, depth: int) -> None:
        self._at += 1
        if letter == "(" and depth < _MAX_DEPTH:
            self.scan(")", depth + 1)
        elif letter == "\n" and self._heredocs:
            self._skip_heredocs()

    def _is_redirect_sign(self) -> bool:
        """Return True for the `&` of `2>&1` and `&>`."""
        before = self._text[self._at - 1 : self._at]
        return before in {"<", ">"} or self._text[self._at + 1 : self._at + 2] == ">"

    def _take_redirect(self, words: list[str], word: str | None, depth: int) -> None:
        text, start = self._text, self._at
        if word is not None and not word.isdigit():  # the 2 of 2>&1 is not a word
            words.append(word)
        while self._at < len(text) and text[self._at] in "<>&|" and self._at - start < 3:
            self._at += 1
        sign = text[start : self._at]
        if sign in {"<<", "<<-"} or (sign == "<<" and text[self._at : self._at + 1] == "-"):
            self._heredocs.append(self._read_delimiter())
        elif text[self._at : self._at + 1] == "(" and depth < _MAX_DEPTH:  # process substitution
            self._at += 1
            self.scan(")", depth + 1)
        else:
            words.append(sign)

    def _read_delimiter(self) -> str:
        text = self._text
        while self._at < len(text) and text[self._at] in " \t-":
            self._at += 1
        start = self._at
        while self._at < len(text) and text[self._at] not in " \t\n;|&<>)":
            self._at += 1
        return text[start : self._at].replace("'", "").replace('"', "").replace("\\", "")

    def _skip_heredocs(self) -> None:
        for delimiter in self._heredocs:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end].strip()
                self._at = end + 1
                if line == delimiter:
                    break
        self._heredocs.clear()

    @staticmethod
    def _end_word(words: list[str], word: str | None) -> None:
        if word is not None:
            words.append(word)

    def _end_command(self, words: list[str]) -> list[str]:
        if words and len(self.commands) < _MAX_COMMANDS:
            self.commands.append(words)
        return []
