"""Extract the note of a turn: request, outcome, files, commands and errors.

Nothing is reworded, so a note costs no model call, and a later search finds the original words in their own language. A
note is one section of bullets without headings and fences. Each text is passed to `clean` before it is shortened, because
half a secret is not recognised as one.

Injected context is removed from requests first. Memories that lorelog showed to an agent must never be captured again:
they would be found, shown and captured in a loop. Other programs wrap injected context in tags of their own, and hosts
store instructions and environment data as part of a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath

from lorelog.core.session import ToolAction, TurnDigest

_CONTEXT_TAGS = (
    "lorelog-memory",
    "lorelog-context",
    "memsearch-context",
    "memsearch-memory",
    "relevant-memories",
    "relevant_memories",
    "memory-context",
    "memory_context",
    "claude-mem-context",
    "supermemory-context",
    "hindsight_memories",
    "hook_context",
    "system-reminder",
    "system_reminder",
    "environment_context",
    "environment_details",
    "user_instructions",
    "INSTRUCTIONS",
    "permissions instructions",
    "collaboration_mode",
    "apps_instructions",
    "skills_instructions",
    "subagent_notification",
    "task-notification",
    "turn_aborted",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "post-tool-use-hook",
    "user-prompt-submit-hook",
)
_TAG_PATTERN = "|".join(map(re.escape, _CONTEXT_TAGS))
_CONTEXT_BLOCK = re.compile(rf"<({_TAG_PATTERN})(?:\s[^<>]*)?>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_LONE_END_TAG = re.compile(rf"</(?:{_TAG_PATTERN})>", re.IGNORECASE)
_AGENTS_FILE = re.compile(r"\A\s*# AGENTS\.md instructions\b.*", re.DOTALL)
_ENVELOPE = re.compile(
    r"\A\s*(?:"
    r"\[(?:\w{3} )?\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,40}\]\s*"  # the time that gateways put before a message
    r"|(?:Conversation info|Sender|Thread starter|Replied message)[^\n]{0,60}\(untrusted[^\n]*\n```(?:json)?\n.*?\n```\s*"
    r"|System: \[\d{4}-\d\d-\d\d[^\n]*\n"
    r")",
    re.DOTALL,
)
_MAX_ENVELOPES = 8


def strip_injected_context(text: str) -> str:
    """Return the part of a request that the user wrote."""
    text = _LONE_END_TAG.sub("", _CONTEXT_BLOCK.sub("", text))
    text = _AGENTS_FILE.sub("", text)
    for _ in range(_MAX_ENVELOPES):
        shorter = _ENVELOPE.sub("", text, count=1)
        if shorter == text:
            break
        text = shorter
    return text.strip()


MAX_REQUEST_CHARS = 500
MAX_OUTCOME_CHARS = 1200
MAX_COMMAND_CHARS = 120
MAX_COMMANDS = 8
MAX_FILES = 12
MAX_ERRORS = 4
MAX_NOTE_CHARS = 4000
_MAX_PATH_CHARS = 100
_MAX_ERROR_CHARS = 160
_MAX_INPUT_CHARS = 20_000
_ERROR_START_CHARS = 500
_MIN_PIECE_CHARS = 40
_EMPTY_ANSWERS = frozenset({"HEARTBEAT_OK", "NO_REPLY"})
"""Replies of an OpenClaw agent that was woken by a timer or a message and has nothing to say."""
_SHORT_ANSWER_CHARS = 60
"""A shorter answer says little on its own; the text before it is included."""

RedactText = Callable[[str], str]

_ERROR_START = re.compile(
    r"\A\W*(?:API Error(?=\W*(?:\Z|[:(\d]))|Error during compaction\b|You(?:'|\u2019)ve (?:hit|reached) your\b"
    r"|Claude (?:AI )?usage limit reached|(?:\d+-hour|Weekly|Usage|Session|Rate) limit (?:reached|exceeded)"
    r"|Credit balance is too low|Invalid API key(?=\W*(?:\Z|\u00b7))|Please run /login|Prompt is too long(?=\W*(?:\Z|:))"
    r"|Request (?:timed out|interrupted|was aborted)\b|unexpected status [45]\d\d|[45]\d\d \{"
    r"|(?:HTTP|status(?: code)?:?) ?[45]\d\d\W*(?:\Z|\{)|stream (?:error:|disconnected\b)"
    r"|LLM (?:request|provider) (?:failed|error|timed out|rejected)"
    r"|(?:Rate limited|Too many requests|Overloaded|Connection error|Execution error|No response requested|\(no content\))\W*\Z)",
    re.IGNORECASE,
)
_ERROR_BODY = re.compile(
    r"""\A\W*\{\s*["'](?:type["']\s*:\s*["']error["']|error["']\s*:|(?:status|code)["']\s*:\s*[45]\d\d)""",
    re.IGNORECASE,
)
_FILLER_WORDS = re.compile(
    r"\A(?:(?:great|perfect|excellent|done|alright|okay|ok|sure|certainly|absolutely|of course|got it|good)\b[!.,:]*\s+"
    r"|(?:great|good|excellent) (?:question|idea|point|catch)[!.]*\s+|you(?:'|\u2019)re (?:absolutely )?right[!.,]*\s+"
    r")+",
    re.IGNORECASE,
)
_ANNOUNCEMENT = re.compile(
    r"(?:here(?:'|\u2019)s|here is) (?:a |the )?(?:quick |brief |short )?(?:summary|overview|recap)[^.:\n]{0,60}[:.]\s*",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^(\s*)(?:[-*+\u2022]|\d{1,3}[.)])\s+(.*)$")
_FENCE = re.compile(r"^\s*(?:`{3,}|~{3,})")
_CODE_BLOCK = re.compile(r"^[ \t]*(`{3,9}|~{3,9})[^\n]*\n(?:[^\n]*\n){4,}?[ \t]*\1[ \t]*$", re.MULTILINE)
"""More than three lines of code, which are useless on one line."""
_RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$")
_TABLE_RULE = re.compile(r"^\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*:?-*:?\s*\|?\s*$")
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*|__(.+?)__")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_IMAGE = re.compile(r"\bdata:[\w/+.-]+;base64,[A-Za-z0-9+/=]{40,}")
_READ_ONLY_COMMANDS = frozenset(
    """
    ls cat cd pwd echo head tail wc which clear true date whoami less more tree file stat sleep history env printenv
    type sed grep rg find awk nl sort uniq cut tr jq xxd hexdump test export set
    """.split()  # noqa: SIM905
)
"""Commands that only read, or without an effect to find later."""
_READ_ONLY_GIT = re.compile(
    r"git (?:-\S+ )*(?:status|diff|log|show|branch|remote|blame|rev-parse|ls-files)\b(?! -D| add)"
)
_ENV_ASSIGNMENT = re.compile(r"^(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)\s+)+")
_COMMAND_SEPARATOR = re.compile(r"\s*(?:&&|\|\||;|\|&?|\n)\s*")
_WRITES_FILE = re.compile(r"(?<![<>&0-9])>>?\s*(?!/dev/null|&)\S|\s-i\b|\btee\b")


def make_note(
    digest: TurnDigest, clean: RedactText = str, summary: str = "", directory: str = "", *, goes_on: bool = False
) -> str:
    """Return the bullets of a turn; empty if there is nothing to remember.

    A `summary` replaces request and outcome. Paths below `directory` are shown relative to it. With `goes_on`, the note
    continues an earlier one of the same turn.
    """
    texts, actions = digest.assistant_texts, digest.actions
    if not actions and texts and texts[-1].strip(" .*`\n") in _EMPTY_ANSWERS:
        return ""
    request, outcome = request_line(digest, clean), extract_outcome(digest, clean)
    ending = format_ending(digest)
    files = _format_files(actions, clean, directory)
    if not outcome and not actions and (request.startswith("/") or not (request or ending)):
        return ""  # an unanswered command to the host itself
    bullets = [summary.strip()] if summary.strip() else []
    if not bullets:
        bullets += [f"- {'Went on with' if goes_on else 'User asked'}: {request}"] if request else []
        bullets += [f"- Outcome: {outcome}"] if outcome else []
    bullets += [f"- Files: {files}"] if files else []
    bullets += _format_list("Commands", _format_commands(actions, clean))
    bullets += _format_list("Errors", _format_errors(actions, clean))
    bullets += [f"- Ended: {ending}"] if ending else []
    return _limit_note("\n".join(bullets))


def request_line(digest: TurnDigest, clean: RedactText = str) -> str:
    """Return the request as one line."""
    return shorten_text(flatten_markdown(clean(strip_injected_context(digest.request))), MAX_REQUEST_CHARS)


def extract_outcome(digest: TurnDigest, clean: RedactText = str) -> str:
    """Return the assistant's conclusion with list items as bullets below; empty if there are only error texts."""
    texts = [text for text in digest.assistant_texts if not is_error_text(text)]
    if digest.failed and len(texts) == len(digest.assistant_texts):
        texts = texts[:-1]
    if not texts:
        return ""
    last = _clean_excerpt(texts[-1], clean)
    if len(last) < _SHORT_ANSWER_CHARS and len(texts) > 1:
        last = f"{_clean_excerpt(texts[-2], clean)}\n\n{last}"
    return _flatten_outcome(last)


def _clean_excerpt(text: str, clean: RedactText) -> str:
    """Return the start of a text, cleaned; the text is cut far beyond it first, so no secret in it is cut in two."""
    return clean(strip_injected_context(text[: 5 * _MAX_INPUT_CHARS]))[:_MAX_INPUT_CHARS]


def format_ending(digest: TurnDigest) -> str:
    """Return `interrupted` or `failed`; empty if the turn ended normally."""
    if digest.interrupted:
        return "interrupted"
    return "failed" if digest.failed or (digest.assistant_texts and is_error_text(digest.assistant_texts[-1])) else ""


def is_error_text(text: str) -> bool:
    """Return True if an assistant text is really an error message of the host or the model's server."""
    start = text.strip()[:_ERROR_START_CHARS]
    return bool(_ERROR_START.match(start) or _ERROR_BODY.match(start))


def flatten_markdown(text: str) -> str:
    """Return a text on one line, without its Markdown syntax."""
    text = _IMAGE.sub("[image]", _COMMENT.sub(" ", text))
    lines = (_strip_markdown(line) for line in text.splitlines() if not _FENCE.match(line) and not _RULE.match(line))
    return " ".join(" ".join(lines).replace("\0", "").split())


def shorten_text(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, cut between words if possible."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    space = cut.rfind(" ", limit * 2 // 3)
    return (cut[:space] if space > 0 else cut).rstrip(" ,;:-") + "…"


def _strip_markdown(line: str) -> str:
    heading = _HEADING.match(line)
    bare = heading[1] if heading else line
    return _EMPHASIS.sub(lambda match: match[1] or match[2], bare).strip()


def _flatten_outcome(text: str) -> str:
    """Return prose as one paragraph and, from the first list item on, one bullet per piece, within the limit."""
    text = _IMAGE.sub("[image]", _COMMENT.sub(" ", text)).replace("\0", "")
    lines: list[str] = []
    room = MAX_OUTCOME_CHARS
    for is_item, piece in _split_pieces(text):
        bare = " ".join((piece if lines else _strip_opening(piece)).split())
        if not bare:
            continue
        if room < _MIN_PIECE_CHARS and lines:
            lines[-1] = lines[-1].rstrip("…") + "…"
            break
        short = shorten_text(bare, max(room, _MIN_PIECE_CHARS))
        room -= len(short) + 4
        if lines and (is_item or len(lines) > 1):
            lines.append(f"  - {short}")
        elif lines:
            lines[0] += f" {short}"
        else:
            lines = [short]
    return "\n".join(lines)


def _strip_opening(piece: str) -> str:
    """Return the first piece of an answer without filler words and announcements."""
    return _ANNOUNCEMENT.sub("", _FILLER_WORDS.sub("", piece), count=1).lstrip(" \t—–-:,.!")


def _split_pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (is_item, text) of list items, table rows and paragraphs."""
    prose: list[str] = []
    for line in [*_CODE_BLOCK.sub("\n\n", text).splitlines(), ""]:
        item, row = _ITEM.match(line), line.lstrip().startswith("|")
        apart = not line.strip() or _FENCE.match(line) or _RULE.match(line) or _TABLE_RULE.match(line)
        if prose and (apart or item or row or _HEADING.match(line)):
            yield False, " ".join(prose)
            prose = []
        if apart:
            continue
        if item:
            yield True, _strip_markdown(item[2])
        elif row:
            cells = (_strip_markdown(cell) for cell in line.strip().strip("|").split("|"))
            yield True, " | ".join(cell for cell in cells if cell)
        elif _HEADING.match(line):
            title = _strip_markdown(line)
            yield False, title if title.endswith((":", ".", "!", "?")) or not title else f"{title}:"
        else:
            prose.append(_strip_markdown(line))


def _format_files(actions: Iterable[ToolAction], clean: RedactText, directory: str) -> str:
    below = f"{directory.rstrip('/')}/" if directory else ""
    written = (path for action in actions if not action.failed for path in action.files)
    paths = list(dict.fromkeys(path.removeprefix(below) for path in written))
    more = f" and {len(paths) - MAX_FILES} more" if len(paths) > MAX_FILES else ""
    return ", ".join(_format_path(path, clean) for path in paths[:MAX_FILES]) + more


def _format_path(path: str, clean: RedactText) -> str:
    bare = " ".join(clean(path).split())
    if len(bare) > _MAX_PATH_CHARS:
        bare = "…/" + "/".join(PurePath(bare).parts[-2:])[-_MAX_PATH_CHARS:]
    return bare


def _format_commands(actions: Iterable[ToolAction], clean: RedactText) -> list[str]:
    commands = (action.command for action in actions if action.command and not action.failed)
    notable = dict.fromkeys(command for command in commands if _is_notable_command(command))
    lines = dict.fromkeys(_format_code(clean(command), MAX_COMMAND_CHARS) for command in notable)
    return [line for line in lines if line][-MAX_COMMANDS:]


def _is_notable_command(command: str) -> bool:
    """Return True if any part of a command does more than read."""
    if _WRITES_FILE.search(command):
        return True
    for part in _COMMAND_SEPARATOR.split(command):
        bare = _ENV_ASSIGNMENT.sub("", part.strip())
        words = [] if _READ_ONLY_GIT.match(bare) else bare.split()
        if (
            words
            and words[0].rpartition("/")[2] not in _READ_ONLY_COMMANDS
            and not words[0].startswith(("#", "-", "(", "{"))
        ):
            return True
    return False


def _format_errors(actions: Iterable[ToolAction], clean: RedactText) -> list[str]:
    lines: dict[str, None] = {}
    for action in actions:
        if not action.failed:
            continue
        target = f" {_format_code(clean(action.command), MAX_COMMAND_CHARS)}" if action.command else ""
        target = target or (f" {_format_path(action.files[0], clean)}" if action.files else "")
        reason = shorten_text(flatten_markdown(clean(action.error)), _MAX_ERROR_CHARS)
        lines[f"{flatten_markdown(action.tool)}{target}" + (f": {reason}" if reason else " failed")] = None
    return list(lines)[-MAX_ERRORS:]


def _format_code(text: str, limit: int) -> str:
    bare = shorten_text(" ".join(text.replace("`", "'").replace("\0", "").split()), limit)
    return f"`{bare}`" if bare else ""


def _format_list(name: str, lines: Sequence[str]) -> list[str]:
    if len(lines) <= 1:
        return [f"- {name}: {lines[0]}"] if lines else []
    return [f"- {name}:", *(f"  - {line}" for line in lines)]


def _limit_note(note: str) -> str:
    """Return the whole lines of a note that fit the limit."""
    note = note.replace("<!--", "<!- -").replace("-->", "- ->")
    while len(note) > MAX_NOTE_CHARS:
        kept, _, _ = note.rpartition("\n")
        note = kept or shorten_text(note, MAX_NOTE_CHARS)
    return note
