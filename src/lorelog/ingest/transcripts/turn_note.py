"""Extract the note of a turn: request, outcome, files, commands and errors.

Nothing is reworded, so a note costs no model call, and a later search finds the original words in their own language. A
note is one section of bullets without headings and fences. Each text is passed to `clean` before it is shortened, because
half a secret is not recognised as one; a secret that is recognised once is removed from the whole turn.

The outcome is the last text that says something: a turn that is stopped, or whose last text announces a commit, ends with
a next step. A short request (`yes`, `2`) is shown with the question or the option it answers. Error lines are those of
commands that do something: the failures of an agent's own file tools are corrected by its next call and worthless later.

Injected context is removed from requests first. Memories that lorelog showed to an agent must never be captured again:
they would be found, shown and captured in a loop. Other programs wrap injected context in tags of their own, and hosts
store instructions and environment data as part of a request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from lorelog.core.session import ToolAction, TurnDigest
from lorelog.ingest.redaction.redact import RedactText, known_value_redactor
from lorelog.ingest.transcripts import note_text
from lorelog.light.delivery_files import shorten_line
from lorelog.light.shell_command import command_variants, split_command, written_paths

_TAG_PATTERN = (
    r"(?:lorelog|memsearch|claude-mem|supermemory|memory)[-_]context|(?:lorelog|memsearch)-memory|relevant[-_]memories|hindsight_memories"
    r"|hook_context|system[-_]reminder|environment_(?:context|details)|user_instructions|INSTRUCTIONS|permissions instructions"
    r"|(?:apps|skills)_instructions|collaboration_mode|subagent_notification|task-notification|turn_aborted"
    r"|local-command-(?:caveat|stdout|stderr)|bash-(?:input|stdout|stderr)|ide_(?:opened_file|selection|diagnostics)"
    r"|(?:post-tool-use|user-prompt-submit)-hook|thinking"
)
"""Names of tags around context that lorelog, hosts and other programs insert."""
_CONTEXT_BLOCK = re.compile(rf"(?<!`)<({_TAG_PATTERN})(?:\s[^<>]*)?>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_CLOSED_BLOCK = re.compile(rf"(?<!`)<({_TAG_PATTERN})(?:\s[^<>]*)?>.*?</\1>", re.DOTALL | re.IGNORECASE)
"""An agent that writes about a tag does not close it; a host closes the tags of the context it inserts."""
_LONE_END_TAG = re.compile(rf"</(?:{_TAG_PATTERN})>", re.IGNORECASE)
_ENVELOPES = re.compile(
    r"\A(?:\s*(?:"
    r"\[(?:\w{3} )?\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,40}\]\s*"  # the time that gateways put before a message
    r"|(?:Conversation info|Sender|Thread starter|Replied message)[^\n]{0,60}\(untrusted[^\n]*\n```(?:json)?\n.*?\n```\s*"
    r"|System: \[\d{4}-\d\d-\d\d[^\n]*\n"
    r")){1,8}",
    re.DOTALL,
)


def strip_injected_context(text: str) -> str:
    """Return the part of a request that the user wrote."""
    text = _LONE_END_TAG.sub("", _CONTEXT_BLOCK.sub("", text)).strip()
    return "" if text.startswith("# AGENTS.md instructions") else _ENVELOPES.sub("", text).strip()


MAX_REQUEST_CHARS = 500
MAX_OUTCOME_CHARS = 1000
MAX_COMMAND_CHARS = 120
MAX_COMMANDS = 8
MAX_FILES = 12
MAX_ERRORS = 4
MAX_FINDINGS = 3
MAX_NOTE_CHARS = 4000
SHORT_REQUEST_CHARS = 25
"""A shorter request is shown with the text it answers."""
_MAX_PATH_CHARS = 100
_MAX_ERROR_CHARS = 160
_MAX_INPUT_CHARS = 20_000
_ERROR_START_CHARS = 500
_EMPTY_ANSWERS = frozenset({"HEARTBEAT_OK", "NO_REPLY"})
"""Replies of an OpenClaw agent that was woken by a timer or a message and has nothing to say."""
_SHORT_ANSWER_CHARS = 60
"""A shorter answer says little on its own; the text before it is included."""
_MAX_FINDING_CHARS = 220
_MAX_TEXT_FINDINGS = 2
_MAX_SHARED_WORDS = 0.6
"""Share of a finding's words above which the outcome is considered to say the same."""

_ERROR_START = re.compile(
    r"\A\W*(?:API Error(?=\W*(?:\Z|[:(\d]))|Error during compaction\b|You(?:'|\u2019)ve (?:hit|reached) your\b"
    r"|Claude (?:AI )?usage limit reached|(?:\d+-hour|Weekly|Usage|Session|Rate) limit (?:reached|exceeded)"
    r"|Credit balance is too low|Invalid API key(?=\W*(?:\Z|\u00b7))|Please run /login|Prompt is too long(?=\W*(?:\Z|:))"
    r"|Request (?:timed out|interrupted|was aborted)\b|unexpected status [45]\d\d|[45]\d\d \{"
    r"|(?:HTTP|status(?: code)?:?) ?[45]\d\d\W*(?:\Z|\{)|stream (?:error:|disconnected\b)"
    r"|LLM (?:request|provider) (?:failed|error|timed out|rejected)"
    r"|(?:Rate limited|Too many requests|Overloaded|Connection error|Execution error|No response requested|\(no content\))\W*\Z)"
    r"""|\A\W*\{\s*["'](?:type["']\s*:\s*["']error["']|error["']\s*:|(?:status|code)["']\s*:\s*[45]\d\d)""",
    re.IGNORECASE,
)
_READ_ONLY_COMMANDS = frozenset(
    """
    ls cat cd pwd echo head tail wc which clear true date whoami less more tree file stat sleep history env printenv
    type sed grep rg find awk nl sort uniq cut tr jq xxd hexdump test export set
    """.split()
)
"""Commands that only read, or without an effect to find later."""
_READ_ONLY_VERBS = {
    "git": frozenset(
        """
        status diff log show branch remote blame rev-parse ls-files ls-tree cat-file for-each-ref count-objects
        """.split()
    ),
    "gh": frozenset(("view", "diff", "list", "checks", "status")),
}
"""Verbs of programs that only read; those of `gh` follow what they are about."""
_WORD = re.compile(r"\w{3,}")
_OUTPUT_FILTER = re.compile(r"(?:\s*2>&1)?(?:\s*\|\s*(?:tail|head)(?:\s+-\S+){0,2}(?:\s+\d+)?)?\s*\Z")
_FILE_TOOL = re.compile(
    r"(?:multi_?|notebook_?|str_?replace_?based_?|file_?|apply_?)*(?:read|write|edit|patch|glob|grep|ls|list|find|view|search"
    r"|edit_tool|webfetch|web_?search|task\w*|todo\w*|skill|agent|askuserquestion|exitplanmode|toolsearch|killshell|bashoutput)",
    re.IGNORECASE,
)
"""Tools of an agent that read and write files, search, and organise its work."""
_MACHINE_FAULTS = (
    *(
        "permission denied",
        "eacces",
        "eperm",
        "erofs",
        "enospc",
        "read-only file system",
        "no space left",
        "disk quota",
    ),
    "too many open files",
)
"""Failures of a file tool that are not the agent's own mistake."""
_CHATTER = re.compile(
    r"\A\W*(?:rejected by the user|(?:The )?user (?:doesn.t want|rejected|declined|denied|cancell?ed)|\[?Request interrupted"
    r"|Sibling tool call errored|(?:Input)?Validation ?Error|Tool execution aborted|Tool (?:call )?(?:was )?(?:aborted|cancell?ed)"
    r"|File has not been read yet|File has been (?:modified|unexpectedly modified)|String to replace not found|Found \d+ matches of the string"
    r"|No changes to make|<?tool_use_error|Cancelled: parallel tool call|Unknown skill|Permission to use \w+ (?:with|has been)"
    r"|This command requires approval|(?:The )?operation was aborted|aborted by user|No such tool|Unknown tool|Hook \w+ denied"
    r"|(?:Process |Command )?(?:exited|failed|terminated|finished)?(?: with)? ?\(?(?:exit )?(?:code|status):? ?-?\d+\)?\W*\Z"
    r"|Exit code:? -?\d+|(?:command |test )?fail(?:ed|ure)\W*\Z|error\W*\Z|FAIL(?:ED)?\W*\Z"
    r"|\(eval\):cd:\d+: no such file|(?:/\S+: line \d+: |ba?sh: )*cd: )",
    re.IGNORECASE,
)
"""Reasons that tell nothing about the project: messages of the host to its model, and exit codes alone."""
_WRAPPER_FAILURE = re.compile(
    r"\A(?:\[[\w:.-]+\] ERROR task failed|make(?:\[\d+\])?: \*\*\* .*Error \d+|npm (?:ERR!|error) (?:code ELIFECYCLE|Lifecycle script.*)"
    r"|error: (?:script|recipe|task) .{0,60}(?:exited|failed).*)\W*\Z",
    re.IGNORECASE,
)
"""The last words of a task runner, whose program said why before."""
_REASON = re.compile(
    r"error|exception|fail|cannot|can't|could not|unable|not found|not |no such|denied|refused|reject|unexpected|invalid|undefined"
    r"|unknown|missing|conflict|fatal|panic|abort|timed? ?out|killed|expected|exceed|overwritten|usage:|ignored|:\d+:\d+:|\bno \w",
    re.IGNORECASE,
)
"""Words of a line that says why something failed; without them it is just a line of the output."""


def make_note(
    digest: TurnDigest, clean: RedactText = str, summary: str = "", directory: str = "", *, goes_on: bool = False
) -> str:
    """Return the bullets of a turn; empty if there is nothing to remember.

    A `summary` replaces request, outcome and findings. Paths below `directory` are shown relative to it. With `goes_on`,
    the note continues an earlier one of the same turn.
    """
    texts, actions = digest.assistant_texts, digest.actions
    if not actions and texts and texts[-1].strip(" .*`\n") in _EMPTY_ANSWERS:
        return ""
    clean = turn_redactor(digest, clean)
    request, outcome = request_line(digest, clean), extract_outcome(digest, clean)
    ending = format_ending(digest)
    written = (path for action in actions if not action.failed for path in action.files)
    paths = list(dict.fromkeys(_relative_to(directory, path) for path in written))
    files = ", ".join(_format_path(path, clean) for path in paths[:MAX_FILES])
    files += f" and {len(paths) - MAX_FILES} more" if len(paths) > MAX_FILES else ""
    ran = dict.fromkeys(
        action.command for action in actions if not action.failed and is_notable_command(action.command)
    )
    commands = list(filter(None, dict.fromkeys(_format_command(command, clean, directory) for command in ran)))[
        -MAX_COMMANDS:
    ]
    if not outcome and not actions and (request.startswith("/") or not (request or ending)):
        return ""  # an unanswered command to the host itself
    if not (outcome or files or commands) and request.startswith("!") and request[1:].strip():
        return ""  # a command that the user ran in the host's shell mode
    bullets = [summary.strip()] if summary.strip() else []
    if not bullets:
        bullets += [f"- {'Went on with' if goes_on else 'User asked'}: {request}"] if request else []
        bullets += [f"- Outcome: {outcome}"] if outcome else []
        bullets += _format_list("Found", _format_findings(digest, clean, f"{request} {outcome}"))
    bullets += [f"- Files: {files}"] if files else []
    bullets += _format_list("Commands", commands)
    bullets += _format_list("Errors", _format_errors(actions, clean, directory))
    bullets += [f"- Ended: {ending}"] if ending else []
    note = "\n".join(bullets).replace("<!--", "<!- -").replace("-->", "- ->")
    while len(note) > MAX_NOTE_CHARS:  # whole lines that fit
        note = note.rpartition("\n")[0] or shorten_line(note, MAX_NOTE_CHARS)
    return note


def turn_redactor(digest: TurnDigest, clean: RedactText, known: dict[str, str] | None = None) -> RedactText:
    """Return a function that also removes the secrets that `clean` finds anywhere in the turn, and the `known` ones.

    Those that are no plain word are added to `known`: the next turns may repeat them.
    """
    if clean is str:
        return _clean_escapes(clean)
    texts = [digest.request, digest.asked, *digest.assistant_texts, *digest.findings]
    texts += (statement.text for statement in digest.statements)
    for action in digest.actions:
        texts += [action.command, action.error, *action.files]
    whole = dict.fromkeys(note_text.strip_escapes(_keep_ends(text, 5 * _MAX_INPUT_CHARS)) for text in texts if text)
    return _clean_escapes(known_value_redactor(whole, clean, known))


def _clean_escapes(clean: RedactText) -> RedactText:
    """Return a function that removes terminal escapes before it cleans: an escape may cut a secret in two."""
    return lambda text: clean(note_text.strip_escapes(text))


def request_line(digest: TurnDigest, clean: RedactText = str) -> str:
    """Return the request as one line; a short one follows, in brackets, the question or the option it answers."""
    request = note_text.shorten_middle(
        note_text.flatten_markdown(clean(strip_injected_context(digest.request))), MAX_REQUEST_CHARS
    )
    if not request or len(request) >= SHORT_REQUEST_CHARS or request.startswith(("/", "!")) or not digest.asked:
        return request
    question = note_text.find_question(clean(strip_injected_context(digest.asked)), request)
    return f"[{question}] {request}" if question else request


def extract_outcome(digest: TurnDigest, clean: RedactText = str) -> str:
    """Return the assistant's conclusion with list items as bullets below: the last text that says something.

    Empty if there are only error texts and announcements of next steps.
    """
    texts = [text for text in digest.assistant_texts if not is_error_text(text)]
    if digest.failed and len(texts) == len(digest.assistant_texts):
        texts = texts[:-1]
    last = ""
    for text in reversed(texts):
        said = note_text.strip_next_steps(_clean_excerpt(text, clean))
        last = f"{said}\n\n{last}".strip() if said else last
        if len(last) >= _SHORT_ANSWER_CHARS:
            break
    outcome = _flatten_outcome(last)
    return "" if all(note_text.is_next_step(line) for line in outcome.splitlines()) else outcome


def _clean_excerpt(text: str, clean: RedactText) -> str:
    """Return the start and the end of a text, cleaned; what is cut first is far from both, so no secret is cut in two."""
    bare = _LONE_END_TAG.sub("", _CLOSED_BLOCK.sub("", _keep_ends(text, 5 * _MAX_INPUT_CHARS)))
    return _keep_ends(clean(bare), _MAX_INPUT_CHARS)


def _keep_ends(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}\n\n{text[-(limit // 2) :]}"


def pick_findings(text: str) -> list[str]:
    """Return the first sentences of an intermediate text that state a finding, whole.

    A reader of transcripts calls this before anything is redacted; so no sentence is cut, and none is taken from a text
    with a private passage.
    """
    return [] if "private>" in text.lower() else note_text.find_findings(text)[:_MAX_TEXT_FINDINGS]


def _format_findings(digest: TurnDigest, clean: RedactText, said: str) -> list[str]:
    """Return the last findings of the turn that request and outcome do not contain, in order."""
    earlier = [text for text in digest.assistant_texts[:-1] if not is_error_text(text)]
    picked = [
        *digest.findings,
        *(sentence for text in earlier for sentence in pick_findings(_clean_excerpt(text, clean))),
    ]
    lines = dict.fromkeys(note_text.flatten_markdown(clean(sentence)) for sentence in picked)
    words = set(_WORD.findall(said.lower()))
    best: list[str] = []
    for line in reversed(lines):
        own = set(_WORD.findall(line.lower()))
        if len(best) < MAX_FINDINGS and len(own & words) <= _MAX_SHARED_WORDS * len(own):
            best.insert(0, shorten_line(line, _MAX_FINDING_CHARS))
            words |= own
    return best


def format_ending(digest: TurnDigest) -> str:
    """Return `interrupted` or `failed`; empty if the turn ended normally."""
    if digest.interrupted:
        return "interrupted"
    return "failed" if digest.failed or (digest.assistant_texts and is_error_text(digest.assistant_texts[-1])) else ""


def is_error_text(text: str) -> bool:
    """Return True if an assistant text is really an error message of the host or the model's server."""
    return bool(_ERROR_START.match(text.strip()[:_ERROR_START_CHARS]))


def _flatten_outcome(text: str) -> str:
    """Return prose as one paragraph and, from the first list item on, one bullet per piece, within the limit."""
    pieces = [(is_item, " ".join(piece.split())) for is_item, piece in note_text.split_pieces(text) if piece.strip()]
    head, tail = note_text.fit_pieces(pieces, MAX_OUTCOME_CHARS)
    lines: list[str] = []
    for number, (is_item, piece) in enumerate([*head, *tail]):
        if number == len(head) and not lines[-1].endswith("…"):
            lines[-1] += " …"
        if lines and (is_item or len(lines) > 1):
            lines.append(f"  - {piece}")
        elif lines:
            lines[0] += f" {piece}"
        else:
            lines = [piece]
    return "\n".join(lines)


def _relative_to(directory: str, text: str) -> str:
    """Return a text with the paths below a directory relative to it, and the directory itself as `.`"""
    bare = directory.rstrip("/")
    if len(bare) < 2 or bare not in text:
        return text
    pattern = rf"(?<![\w./-]){re.escape(bare)}(?:(/)(?=[\w.@~-])|/?(?=[\s\"'`:;,)]|\Z))"
    return re.sub(pattern, lambda match: "" if match[1] else ".", text)


def _format_path(path: str, clean: RedactText) -> str:
    bare = " ".join(clean(path).split())
    if len(bare) > _MAX_PATH_CHARS:
        bare = "…/" + "/".join(PurePath(bare).parts[-2:])[-_MAX_PATH_CHARS:]
    return bare


def _format_command(command: str, clean: RedactText, directory: str) -> str:
    bare = _relative_to(directory, clean(command).strip())
    for project in ("cd . && ", "cd .; "):
        bare = bare.removeprefix(project)
    bare = _OUTPUT_FILTER.sub("", bare) or bare
    bare = shorten_line(" ".join(bare.replace("`", "'").replace("\0", "").split()), MAX_COMMAND_CHARS)
    return f"`{bare}`" if bare else ""


def is_notable_command(command: str) -> bool:
    """Return True if any part of a command does more than read."""
    commands = split_command(command)
    if any(not path.startswith("/dev/") for path in written_paths(commands)):
        return True
    for words in commands:
        program, *rest = command_variants(words, through_runners=False)[-1]
        verb, argument = (*rest[program == "gh" :], "", "")[:2]
        is_reading = verb in _READ_ONLY_VERBS.get(program, ()) and argument not in ("-D", "add")
        if program not in _READ_ONLY_COMMANDS and not is_reading:
            return True
    return False


def _format_errors(actions: Iterable[ToolAction], clean: RedactText, directory: str) -> list[str]:
    lines: dict[str, None] = {}
    for action in actions:
        if not action.failed or (action.command and not is_notable_command(action.command)):
            continue
        reason = _failure_reason(action, clean)
        if not reason:
            continue
        target = f" {_format_command(action.command, clean, directory)}" if action.command else ""
        target = target or (f" {_format_path(_relative_to(directory, action.files[0]), clean)}" if action.files else "")
        reason = shorten_line(_relative_to(directory, reason), _MAX_ERROR_CHARS)
        lines[f"{note_text.flatten_markdown(action.tool)}{target}: {reason}"] = None
    return list(lines)[-MAX_ERRORS:]


def _failure_reason(action: ToolAction, clean: RedactText) -> str:
    """Return why an action failed, on one line; empty if that is unknown or tells nothing about the project."""
    reason = note_text.flatten_markdown(clean(action.error))
    if _WRAPPER_FAILURE.match(reason) or not _REASON.search(reason):
        traces = (located.trace.root for located in action.traces)
        messages = (note_text.flatten_markdown(clean(f"{trace.type}: {trace.message}".strip(": "))) for trace in traces)
        reason = next((text for text in messages if _REASON.search(text) and not _WRAPPER_FAILURE.match(text)), "")
    if not reason or _CHATTER.match(reason):
        return ""
    is_own_mistake = not action.command and _FILE_TOOL.fullmatch(action.tool.rpartition("__")[2])
    return "" if is_own_mistake and not any(fault in reason.lower() for fault in _MACHINE_FAULTS) else reason


def _format_list(name: str, lines: Sequence[str]) -> list[str]:
    if len(lines) <= 1:
        return [f"- {name}: {lines[0]}"] if lines else []
    return [f"- {name}:", *(f"  - {line}" for line in lines)]
