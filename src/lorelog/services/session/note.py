"""The note of a turn, taken out of it: what was asked, what was concluded, which files, commands and errors there were.

Nothing is worded anew, so it costs nothing, and what is found later is what was really said, in the language it was said in. A
note is one section: bullets, no headings, no fences. Each text is handed to `clean` before it is cut, because half a secret is
not recognised as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath

from lorelog.core.session import Deed, Told
from lorelog.services.session.noise import without_noise

ASKED_CHARS = 500
OUTCOME_CHARS = 1200
COMMAND_CHARS = 120
COMMANDS = 8
FILES = 12
ERRORS = 4
NOTE_CHARS = 4000
_FILE_CHARS = 100
_ERROR_CHARS = 160
_LOOKED_AT = 20_000
_FAULT_CHARS = 500
_LEAST_PIECE = 40
_NOTHING = frozenset({"HEARTBEAT_OK", "NO_REPLY"})
"""What an agent of OpenClaw says when it was woken by the clock, or spoken to, and has nothing to say."""
_SHORT_ANSWER = 60
"""An answer this short says little by itself; what was said before it belongs to it."""

Clean = Callable[[str], str]

_FAULT = re.compile(
    r"\A\W*(?:API Error(?=\W*(?:\Z|[:(\d]))|Error during compaction\b|You(?:'|\u2019)ve (?:hit|reached) your\b"
    r"|Claude (?:AI )?usage limit reached|(?:\d+-hour|Weekly|Usage|Session|Rate) limit (?:reached|exceeded)"
    r"|Credit balance is too low|Invalid API key(?=\W*(?:\Z|\u00b7))|Please run /login|Prompt is too long(?=\W*(?:\Z|:))"
    r"|Request (?:timed out|interrupted|was aborted)\b|unexpected status [45]\d\d|[45]\d\d \{"
    r"|(?:HTTP|status(?: code)?:?) ?[45]\d\d\W*(?:\Z|\{)|stream (?:error:|disconnected\b)"
    r"|LLM (?:request|provider) (?:failed|error|timed out|rejected)"
    r"|(?:Rate limited|Too many requests|Overloaded|Connection error|Execution error|No response requested|\(no content\))\W*\Z)",
    re.IGNORECASE,
)
_FAULT_BODY = re.compile(
    r"""\A\W*\{\s*["'](?:type["']\s*:\s*["']error["']|error["']\s*:|(?:status|code)["']\s*:\s*[45]\d\d)""",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"\A(?:(?:great|perfect|excellent|done|alright|okay|ok|sure|certainly|absolutely|of course|got it|good)\b[!.,:]*\s+"
    r"|(?:great|good|excellent) (?:question|idea|point|catch)[!.]*\s+|you(?:'|\u2019)re (?:absolutely )?right[!.,]*\s+"
    r")+",
    re.IGNORECASE,
)
_ANNOUNCED = re.compile(
    r"(?:here(?:'|\u2019)s|here is) (?:a |the )?(?:quick |brief |short )?(?:summary|overview|recap)[^.:\n]{0,60}[:.]\s*",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^(\s*)(?:[-*+\u2022]|\d{1,3}[.)])\s+(.*)$")
_FENCE = re.compile(r"^\s*(?:`{3,}|~{3,})")
_CODE = re.compile(r"^[ \t]*(`{3,9}|~{3,9})[^\n]*\n(?:[^\n]*\n){4,}?[ \t]*\1[ \t]*$", re.MULTILINE)
"""More than three lines of code, which say little on one line."""
_RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$")
_TABLE_RULE = re.compile(r"^\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*:?-*:?\s*\|?\s*$")
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*|__(.+?)__")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_IMAGE = re.compile(r"\bdata:[\w/+.-]+;base64,[A-Za-z0-9+/=]{40,}")
_TRIVIAL = frozenset(
    {
        "ls",
        "cat",
        "cd",
        "pwd",
        "echo",
        "head",
        "tail",
        "wc",
        "which",
        "clear",
        "true",
        "date",
        "whoami",
        "less",
        "more",
        "tree",
        "file",
        "stat",
        "sleep",
        "history",
        "env",
        "printenv",
        "type",
        "sed",
        "grep",
        "rg",
        "find",
        "awk",
        "nl",
        "sort",
        "uniq",
        "cut",
        "tr",
        "jq",
        "xxd",
        "hexdump",
        "test",
        "export",
        "set",
    }
)
"""Commands that only look, or do nothing that anyone would look for later."""
_LOOKS = re.compile(r"git (?:-\S+ )*(?:status|diff|log|show|branch|remote|blame|rev-parse|ls-files)\b(?! -D| add)")
_ASSIGNED = re.compile(r"^(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)\s+)+")
_PARTS = re.compile(r"\s*(?:&&|\|\||;|\|&?|\n)\s*")
_WRITES_OUT = re.compile(r"(?<![<>&0-9])>>?\s*(?!/dev/null|&)\S|\s-i\b|\btee\b")


def make_note(told: Told, clean: Clean = str, summary: str = "", directory: str = "", *, goes_on: bool = False) -> str:
    """Return the bullets of a turn; empty when there is nothing to remember.

    A `summary` stands for request and outcome. Files below `directory` are named from there. What `goes_on` is told as the
    rest of a turn.
    """
    if not told.deeds and told.said and told.said[-1].strip(" .*`\n") in _NOTHING:
        return ""
    asked, outcome = ask_of(told, clean), outcome_of(told, clean)
    ended = ended_as(told)
    files = _files(told.deeds, clean, directory)
    if not outcome and not told.deeds and (asked.startswith("/") or not (asked or ended)):
        return ""  # a command to the host itself, which nobody answered
    bullets = [summary.strip()] if summary.strip() else []
    if not bullets:
        bullets += [f"- {'Went on with' if goes_on else 'User asked'}: {asked}"] if asked else []
        bullets += [f"- Outcome: {outcome}"] if outcome else []
    bullets += [f"- Files: {files}"] if files else []
    bullets += _listed("Commands", _commands(told.deeds, clean))
    bullets += _listed("Errors", _errors(told.deeds, clean))
    bullets += [f"- Ended: {ended}"] if ended else []
    return _bounded("\n".join(bullets))


def ask_of(told: Told, clean: Clean = str) -> str:
    """Return what was asked, as one line."""
    return shorten(one_line(clean(without_noise(told.asked))), ASKED_CHARS)


def outcome_of(told: Told, clean: Clean = str) -> str:
    """Return what the assistant concluded, with its list items as bullets below; empty when it said nothing of its own."""
    said = [text for text in told.said if not is_fault(text)]
    if told.failed and len(said) == len(told.said):
        said = said[:-1]
    if not said:
        return ""
    last = _looked_at(said[-1], clean)
    if len(last) < _SHORT_ANSWER and len(said) > 1:
        last = f"{_looked_at(said[-2], clean)}\n\n{last}"
    return _flattened(last)


def _looked_at(text: str, clean: Clean) -> str:
    """Return as much of a text as a note could be taken from; what is cut in two was cleaned far behind that."""
    return clean(without_noise(text[: 5 * _LOOKED_AT]))[:_LOOKED_AT]


def ended_as(told: Told) -> str:
    """Return how a turn ended that did not end well."""
    if told.interrupted:
        return "interrupted"
    return "failed" if told.failed or (told.said and is_fault(told.said[-1])) else ""


def is_fault(text: str) -> bool:
    """Say whether what the assistant seems to have said is an error of the host or the model's server."""
    begins = text.strip()[:_FAULT_CHARS]
    return bool(_FAULT.match(begins) or _FAULT_BODY.match(begins))


def one_line(text: str) -> str:
    """Return a text on one line, without what would be Markdown of its own there."""
    text = _IMAGE.sub("[image]", _COMMENT.sub(" ", text))
    lines = (_plain(line) for line in text.splitlines() if not _FENCE.match(line) and not _RULE.match(line))
    return " ".join(" ".join(lines).replace("\0", "").split())


def shorten(text: str, most: int) -> str:
    """Return at most so many characters of a text, ending at a word where there is one near."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    space = cut.rfind(" ", most * 2 // 3)
    return (cut[:space] if space > 0 else cut).rstrip(" ,;:-") + "…"


def _plain(line: str) -> str:
    heading = _HEADING.match(line)
    bare = heading[1] if heading else line
    return _EMPHASIS.sub(lambda found: found[1] or found[2], bare).strip()


def _flattened(text: str) -> str:
    """Return prose as one paragraph, and from the first list item on a bullet for each piece, within the limit."""
    text = _IMAGE.sub("[image]", _COMMENT.sub(" ", text)).replace("\0", "")
    lines: list[str] = []
    room = OUTCOME_CHARS
    for is_item, piece in _pieces(text):
        bare = " ".join((piece if lines else _begun(piece)).split())
        if not bare:
            continue
        if room < _LEAST_PIECE and lines:
            lines[-1] = lines[-1].rstrip("…") + "…"
            break
        short = shorten(bare, max(room, _LEAST_PIECE))
        room -= len(short) + 4
        if lines and (is_item or len(lines) > 1):
            lines.append(f"  - {short}")
        elif lines:
            lines[0] += f" {short}"
        else:
            lines = [short]
    return "\n".join(lines)


def _begun(piece: str) -> str:
    """Return how an answer begins, without what answers begin with."""
    return _ANNOUNCED.sub("", _FILLER.sub("", piece), count=1).lstrip(" \t—–-:,.!")


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Yield list items and paragraphs, and which of both each is; a row of a table is an item."""
    prose: list[str] = []
    for line in [*_CODE.sub("\n\n", text).splitlines(), ""]:
        item, row = _ITEM.match(line), line.lstrip().startswith("|")
        apart = not line.strip() or _FENCE.match(line) or _RULE.match(line) or _TABLE_RULE.match(line)
        if prose and (apart or item or row or _HEADING.match(line)):
            yield False, " ".join(prose)
            prose = []
        if apart:
            continue
        if item:
            yield True, _plain(item[2])
        elif row:
            cells = (_plain(cell) for cell in line.strip().strip("|").split("|"))
            yield True, " | ".join(cell for cell in cells if cell)
        elif _HEADING.match(line):
            title = _plain(line)
            yield False, title if title.endswith((":", ".", "!", "?")) or not title else f"{title}:"
        else:
            prose.append(_plain(line))


def _files(deeds: Iterable[Deed], clean: Clean, directory: str) -> str:
    below = f"{directory.rstrip('/')}/" if directory else ""
    written = (path for deed in deeds if not deed.failed for path in deed.files)
    found = list(dict.fromkeys(path.removeprefix(below) for path in written))
    named = [_path(path, clean) for path in found[:FILES]]
    more = f" and {len(found) - FILES} more" if len(found) > FILES else ""
    return ", ".join(named) + more


def _path(path: str, clean: Clean) -> str:
    bare = " ".join(clean(path).split())
    if len(bare) > _FILE_CHARS:
        bare = "…/" + "/".join(PurePath(bare).parts[-2:])[-_FILE_CHARS:]
    return bare


def _commands(deeds: Iterable[Deed], clean: Clean) -> list[str]:
    ran = dict.fromkeys(
        deed.command for deed in deeds if deed.command and not deed.failed and _is_telling(deed.command)
    )
    lines = dict.fromkeys(_code(clean(command), COMMAND_CHARS) for command in ran)
    return [line for line in lines if line][-COMMANDS:]


def _is_telling(command: str) -> bool:
    """Say whether any part of a command does more than look."""
    if _WRITES_OUT.search(command):
        return True
    for part in _PARTS.split(command):
        bare = _ASSIGNED.sub("", part.strip())
        words = [] if _LOOKS.match(bare) else bare.split()
        if words and words[0].rpartition("/")[2] not in _TRIVIAL and not words[0].startswith(("#", "-", "(", "{")):
            return True
    return False


def _errors(deeds: Iterable[Deed], clean: Clean) -> list[str]:
    lines: dict[str, None] = {}
    for deed in deeds:
        if not deed.failed:
            continue
        what = f" {_code(clean(deed.command), COMMAND_CHARS)}" if deed.command else ""
        what = what or (f" {_path(deed.files[0], clean)}" if deed.files else "")
        why = shorten(one_line(clean(deed.error)), _ERROR_CHARS)
        lines[f"{one_line(deed.tool)}{what}" + (f": {why}" if why else " failed")] = None
    return list(lines)[-ERRORS:]


def _code(text: str, most: int) -> str:
    bare = shorten(" ".join(text.replace("`", "'").replace("\0", "").split()), most)
    return f"`{bare}`" if bare else ""


def _listed(name: str, lines: Sequence[str]) -> list[str]:
    if len(lines) <= 1:
        return [f"- {name}: {lines[0]}"] if lines else []
    return [f"- {name}:", *(f"  - {line}" for line in lines)]


def _bounded(note: str) -> str:
    """Return a note within its limit, whole lines of it."""
    note = note.replace("<!--", "<!- -").replace("-->", "- ->")
    while len(note) > NOTE_CHARS:
        kept, _, _ = note.rpartition("\n")
        note = kept or shorten(note, NOTE_CHARS)
    return note
