"""Translate the sessions of agents that have no adapter to the records of `openclaw`, from which one reader makes turns.

    Cline                        a document per session of its command line
    Cline, Roo Code, Kilo Code   a folder per task; `ui_messages.json` is an array of what its panel shows
    Copilot Chat                 `chatSessions/<id>.json`, or `.jsonl`: a document, then changes of it
    Cursor                       values of `state.vscdb`, in a workspace's database or in the global one; lines of `agent-transcripts`
    Zed                          `threads.db`: a document per thread, compressed
    Goose                        lines, from 1.10 on `sessions.db`
    Kimi CLI                     lines of `context.jsonl`
    Amp                          a document per thread
    aider                        `.aider.chat.history.md` in the project, to which each run is appended; times are local
    SpecStory                    `.specstory/history/*.md` in the project: a session of another agent as Markdown

A format is a function that yields a header, with the directory of the session, and its messages. What a program itself told its
model is left out where it is marked, and so are thoughts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from hashlib import md5
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lorelog.core.errors import LorelogError
from lorelog.core.ids import sha256
from lorelog.ingest.transcripts.actions import parse_arguments
from lorelog.ingest.transcripts.claude import user_text
from lorelog.ingest.transcripts.json_files import (
    MAX_HELD_BYTES,
    MAX_LINE_BYTES,
    DatabaseFormat,
    SessionDatabase,
    decompress_zstd,
    open_sessions,
    parse_object,
    read_array,
    read_lines,
    read_members,
    read_records,
    read_side_file,
    read_side_object,
)
from lorelog.ingest.transcripts.openclaw import (
    OpenClawReader,
    call_block,
    message_record,
    result_record,
    session_record,
)
from lorelog.ingest.transcripts.turns import (
    JsonObject,
    TranscriptStats,
    as_object,
    content_blocks,
    message_text,
    object_type,
    result_text,
    timestamp,
    to_text,
)

ReadRecords = Callable[[str, TranscriptStats], Iterator[JsonObject]]


def _path_of_uri(uri: object) -> str:
    """Return the path of a `file:` address; empty for any other."""
    text = to_text(uri)
    return unquote(urlsplit(text).path) if text.startswith("file://") else ""


def _workspace_folder(folder: Path) -> str:
    """Return the directory that was open in a workspace of VS Code, by the folder of its storage."""
    return _path_of_uri(read_side_object(folder / "workspace.json").get("folder"))


# -- Cline ---------------------------------------------------------------------------------------------------------------

_CLINE_REQUESTS = frozenset({"task", "user_feedback", "user_feedback_diff"})
_CLINE_ANSWERS = frozenset({"text", "completion_result", "followup", "plan_mode_respond"})
_CLINE_CALLS = frozenset({"tool", "command", "use_mcp_server", "browser_action_launch"})
_CLINE_RESULTS = frozenset({"command_output", "mcp_server_response", "subtask_result"})
_CLINE_SILENT = (
    *("api_req", "checkpoint", "resume_", "error", "deleted_", "auto_approval", "mcp_server_request", "load_mcp"),
    *("reasoning", "task_progress", "shell_", "condense_context"),
)
"""Beginnings of the kinds that say nothing of the conversation."""


def read_cline(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a task. The output of a command arrives in pieces."""
    call, output, is_first = "", list[str](), True
    for message in read_array(path, stats):
        kind, text = to_text(message.get("say") or message.get("ask")), to_text(message.get("text"))
        if is_first:
            yield session_record(Path(path).parent.name, _task_directory(Path(path)), message.get("ts"))
        if output and kind not in _CLINE_RESULTS:
            yield result_record(call, "\n".join(output))
            output = []
        if kind in _CLINE_REQUESTS or (is_first and kind == "text"):
            images = "\n[image]" * len(message.get("images") or ())
            if text or images:
                yield message_record("user", text + images, message.get("ts"))
        elif kind in _CLINE_CALLS:
            details = parse_arguments(text)
            arguments = details if isinstance(details, dict) else {"command" if kind == "command" else "input": text}
            call = f"{kind} {message.get('ts')}"
            yield message_record(
                "assistant", [call_block(call, arguments.get("tool") or arguments.get("toolName") or kind, arguments)]
            )
        elif kind in _CLINE_RESULTS:
            output += [text] if text else []
        elif kind in _CLINE_ANSWERS:
            details = as_object(parse_arguments(text))
            yield message_record("assistant", details.get("question") or details.get("response") or text)
        elif kind.startswith(_CLINE_SILENT):
            stats.skipped += 1
        else:
            stats.leave_out(f"messages of the kind {kind}")
        is_first = False
    if output:
        yield result_record(call, "\n".join(output))


def read_cline_session(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a session of the command line, whose directory is in the file beside it."""
    about = read_side_object(Path(path).with_name(Path(path).name.replace(".messages.json", ".json")))
    yield session_record(Path(path).parent.name, about.get("cwd"), about.get("started_at"))
    members = read_members(path, frozenset({"messages"}), stats)
    for message in (as_object(value) for name, value in members if name == "messages"):
        text = message_text(message.get("content"))
        if as_object(message.get("metadata")).get("displayRole") == "system" or text.startswith("[SYSTEM] "):
            stats.skipped += 1
            continue
        asked = re.fullmatch(r'\s*<user_input mode="\w+">(.*)</user_input>\s*', text, re.DOTALL)
        content = asked[1] if asked else list(map(_cline_block, content_blocks(message.get("content"))))
        yield message_record(message.get("role"), content, message.get("ts"), message.get("id"))


def _cline_block(block: JsonObject) -> JsonObject:
    """Return a part of a message in the fields of others: several commands are one, and so are their results."""
    commands, told = as_object(block.get("input")).get("commands"), parse_arguments(block.get("content"))
    results = content_blocks(told if isinstance(told, list) else [told])
    if isinstance(commands, list):
        return block | {"input": {"command": "\n".join(map(to_text, commands))}}
    if object_type(block) != "tool_result" or not results:
        return block
    texts = (to_text(result.get("result")) or to_text(result.get("error")) for result in results)
    failed = any(result.get("success") is False for result in results) or block.get("is_error")
    return block | {"content": "\n".join(texts), "is_error": failed}


def _task_directory(path: Path) -> str:
    """Return the directory of a task: Roo Code names it, Cline in a list of all tasks, and each tells it to the model."""
    if workspace := to_text(read_side_object(path.with_name("history_item.json")).get("workspace")):
        return workspace
    tasks = parse_arguments(read_side_file(path.parent.parent.parent / "state" / "taskHistory.json"))
    task = next((task for task in content_blocks(tasks) if task.get("id") == path.parent.name), {})
    told = (read_side_file(path.with_name(name)) for name in ("api_conversation_history.json", path.name))
    found = (re.search(r"# Current (?:Working|Workspace) Directory \((/[^)\"\\]+)\)", text) for text in told)
    return to_text(task.get("cwdOnTaskInitialization")) or next((match[1] for match in found if match), "")


# -- Copilot Chat --------------------------------------------------------------------------------------------------------


def read_copilot_document(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a session that is one document. An exported one has no directory."""
    members = read_members(path, frozenset({"requests"}), stats)
    return _copilot_records(path, (as_object(value) for name, value in members if name == "requests"))


def read_copilot_log(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a session that is a document and changes of it."""
    return _copilot_records(path, _logged_requests(path, stats))


def _copilot_records(path: str, requests: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for number, request in enumerate(requests):
        if not number:
            folder = _workspace_folder(Path(path).parent.parent)
            yield session_record(Path(path).stem, folder, request.get("timestamp"))
        text = to_text(as_object(request.get("message")).get("text")) or "[attachment]"
        yield message_record("user", text, request.get("timestamp"), request.get("requestId"))
        result = as_object(request.get("result"))
        metadata = as_object(result.get("metadata"))
        results = as_object(metadata.get("toolCallResults"))
        for call in [
            call
            for each in content_blocks(metadata.get("toolCallRounds"))
            for call in content_blocks(each.get("toolCalls"))
        ]:
            yield message_record("assistant", [call_block(call.get("id"), call.get("name"), call.get("arguments"))])
            parts = content_blocks(as_object(results.get(to_text(call.get("id")))).get("content"))
            yield result_record(call.get("id"), "\n".join(to_text(part.get("value")) for part in parts))
        stop = "aborted" if request.get("isCanceled") else "error" if result.get("errorDetails") else ""
        answer = "".join(map(_copilot_text, content_blocks(request.get("response"))))
        yield message_record("assistant", answer, stopReason=stop)


def _copilot_text(part: JsonObject) -> str:
    """Return the text of a part of an answer: Markdown, a text or an object, or the name of a file between two such parts."""
    kind, value = to_text(part.get("kind")), part.get("value") or part.get("content")
    if kind == "inlineReference":
        reference = as_object(part.get("inlineReference"))
        return to_text(part.get("name")) or to_text(as_object(reference.get("location", reference)).get("path"))
    return to_text(as_object(value).get("value")) or to_text(value) if kind in {"", "markdownContent"} else ""


def _logged_requests(path: str, stats: TranscriptStats) -> Iterable[JsonObject]:
    """Return the requests after all changes: 0 the whole, 1 a value, 2 more elements (after the first `i`), 3 a deletion."""
    state: Any = {}
    if Path(path).stat().st_size > MAX_HELD_BYTES:
        stats.leave_out(f"a session larger than {MAX_HELD_BYTES:,} bytes")
        return []
    for change in read_records(path, stats):
        kind, value = change.get("kind"), change.get("v")
        keys: Any = change.get("k")
        try:
            if kind == 0:
                state = as_object(value)
                continue
            place = state
            for key in keys[:-1]:
                place = place[key]
            if kind == 1:
                place[keys[-1]] = value
            elif kind == 2:
                elements = (place.get(keys[-1]) if isinstance(place, dict) else place[keys[-1]]) or []
                place[keys[-1]] = elements[: change.get("i", len(elements))] + list(value or ())
            elif kind == 3:
                del place[keys[-1]]
            else:
                stats.leave_out(f"changes of the kind {kind}")
        except (KeyError, IndexError, TypeError, AttributeError):
            stats.broken += 1
    return content_blocks(state.get("requests"))


# -- Cursor --------------------------------------------------------------------------------------------------------------


def read_cursor_lines(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of an agent's transcript, which has neither results of calls nor, in some versions, times."""
    folder = next((parent for parent in Path(path).parents if parent.parent.name == "projects"), Path(path).parent)
    yield session_record(Path(path).stem, _unslug(folder.name), None)
    for number, record in enumerate(read_records(path, stats)):
        content, role = as_object(record.get("message")).get("content"), record.get("role")
        if role == "user":
            text = message_text(content)
            asked = re.search(r"<user_query>\s*(.*?)\s*(?:</user_query>|\Z)", text, re.DOTALL)
            yield message_record("user", asked[1] if asked else text, _cursor_time(text))
        elif role == "assistant":
            blocks = [{"id": f"{number} {n}", **block} for n, block in enumerate(content_blocks(content))]
            yield message_record("assistant", blocks)
        elif object_type(record) == "turn_ended":
            yield message_record("assistant", "", stopReason=record.get("status"))
        else:
            stats.leave_out(f"records of the kind {object_type(record) or role}")


def _cursor_time(text: str) -> str | None:
    """Return the time that Cursor tells the model with a prompt: `Monday, Aug 31, 2026, 5:52 AM (UTC-4)`."""
    told = re.search(r"<timestamp>\w+, (\w{3} \d+, \d{4}, \d+:\d\d [AP]M) \(UTC([+-])(\d+):?(\d*)\)", text)
    with suppress(ValueError):
        zone = f"{told[2]}{told[3]:>02}{told[4] or '00'}" if told else ""
        return datetime.strptime(f"{told[1]} {zone}", "%b %d, %Y, %I:%M %p %z").isoformat() if told else None
    return None


def _unslug(name: str) -> str:
    """Return the only directory that has this name when all but its letters and digits are hyphens; empty if there is not one."""
    found, queue = list[str](), [(Path("/"), name)]
    while queue and len(found) < 2:
        folder, rest = queue.pop()
        try:
            entries = [entry for entry in folder.iterdir() if rest and entry.is_dir()]
        except OSError:
            continue
        for entry in entries:
            slug = re.sub(r"[^A-Za-z0-9]+", "-", entry.name).strip("-")
            if slug and rest == slug:
                found.append(str(entry))
            elif slug and rest.startswith(f"{slug}-"):
                queue.append((entry, rest[len(slug) + 1 :]))
    return found[0] if len(found) == 1 else ""


_CURSOR_HEADS = """
WITH composers AS (
  SELECT substr(key, 14) AS id, CASE WHEN json_valid(CAST(value AS TEXT)) THEN CAST(value AS TEXT) ELSE '{}' END AS value
  FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' AND length(value) <= ?
    AND ? IN ('', substr(key, 14)))
SELECT id, json_extract(value, '$.createdAt'), json_extract(value, '$.lastUpdatedAt'),
  coalesce(json_extract(value, '$.workspaceIdentifier.uri.fsPath'), json_extract(value, '$.workspaceIdentifier.uri.path')),
  json_extract(value, '$.workspaceIdentifier.id'), json_extract(value, '$.subagentInfo.parentComposerId')
FROM composers WHERE json_array_length(value, '$.fullConversationHeadersOnly') > 0 OR json_array_length(value, '$.conversation') > 0
ORDER BY 2, 1"""
_CURSOR_VALUE = "SELECT value FROM cursorDiskKV WHERE key = ? AND length(value) <= ?"
_CURSOR_ITEM = "SELECT value FROM ItemTable WHERE key = ? AND length(value) <= ?"
_CHAT_KEY = "workbench.panel.aichat.view.aichat.chatdata"


def _cursor_value(database: SessionDatabase, key: str, query: str = _CURSOR_VALUE) -> JsonObject:
    row = database.connection.execute(query, (key, MAX_LINE_BYTES)).fetchone()
    return (parse_object(row[0], TranscriptStats()) if row else None) or {}


def _cursor_heads(database: SessionDatabase, session: str) -> Iterator[JsonObject]:
    """Yield the sessions of the editor, and those of its chat in versions before that, which each workspace has."""
    storage = Path(database.path).parent
    folders: dict[str, str] = {}
    if storage.name == "globalStorage" and not session:
        for file in sorted(storage.parent.glob("workspaceStorage/*/workspace.json")):
            folders.update(_cursor_workspace(file.parent))
    rows = database.connection.execute(_CURSOR_HEADS, (MAX_LINE_BYTES, session)) if _has_values(database) else ()
    for identity, created, changed, folder, workspace, parent in rows:
        opened = storage.parent / "workspaceStorage" / Path(to_text(workspace)).name
        directory = folder or folders.get(identity) or _workspace_folder(opened)
        seconds = timestamp(changed or created) or 0.0
        yield session_record(identity, directory, created, changed=seconds, sidechain=bool(parent))
    for composer in _workspace_composers(database):
        conversation = content_blocks(composer.get("conversation"))
        if conversation and session in {"", composer.get("composerId")}:
            created, changed = (
                composer.get("createdAt"),
                composer.get("lastUpdatedAt") or conversation[-1].get("createdAt"),
            )
            seconds = timestamp(changed or created) or 0.0
            yield session_record(
                composer.get("composerId"), _workspace_folder(storage), created or changed, changed=seconds
            )


def _has_values(database: SessionDatabase) -> bool:
    return "cursorDiskKV" in database.columns


def _workspace_composers(database: SessionDatabase) -> Iterator[JsonObject]:
    """Yield the sessions in a workspace's own database; later ones have their messages elsewhere. Chats get the form of the others."""
    yield from content_blocks(_cursor_value(database, "composer.composerData", _CURSOR_ITEM).get("allComposers"))
    for tab in content_blocks(_cursor_value(database, _CHAT_KEY, _CURSOR_ITEM).get("tabs")):
        yield {"composerId": tab.get("tabId"), "createdAt": tab.get("lastSendTime"), "conversation": tab.get("bubbles")}


def _cursor_workspace(storage: Path) -> Iterator[tuple[str, str]]:
    """Yield the directory of a workspace by the ids of its sessions."""
    folder = _workspace_folder(storage)
    with suppress(LorelogError), open_sessions(str(storage / "state.vscdb")) as database:
        yield from [(to_text(composer.get("composerId")), folder) for composer in _workspace_composers(database)]


def _cursor_records(database: SessionDatabase, session: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    composer = _cursor_value(database, f"composerData:{session}") if _has_values(database) else {}
    if not composer:
        known = _workspace_composers(database)
        composer = next((composer for composer in known if composer.get("composerId") == session), {})
    yield session_record(session, "", composer.get("createdAt") or composer.get("lastUpdatedAt"))
    headers = content_blocks(composer.get("fullConversationHeadersOnly"))
    stored = (_cursor_value(database, f"bubbleId:{session}:{to_text(header.get('bubbleId'))}") for header in headers)
    for bubble in filter(None, chain(content_blocks(composer.get("conversation")), stored)):
        kind, text = bubble.get("type"), to_text(bubble.get("text")) or to_text(bubble.get("rawText"))
        tool, identity = as_object(bubble.get("toolFormerData")), bubble.get("bubbleId") or bubble.get("id")
        if kind in {1, "user"}:
            yield message_record("user", text or "[attachment]", bubble.get("createdAt"), identity)
        elif kind in {2, "ai"}:
            call = to_text(tool.get("toolCallId")) or to_text(identity)
            blocks = [{"type": "text", "text": text}]
            blocks += (
                [call_block(call, tool["name"], tool.get("rawArgs") or tool.get("params"))] if tool.get("name") else []
            )
            stop = "error" if bubble.get("errorDetails") else ""
            yield message_record("assistant", blocks, identity=identity, stopReason=stop)
            result = result_text(parse_arguments(tool.get("result"))) or tool.get("error") or ""
            yield result_record(call, result, failed=tool.get("status") in {"error", "failed"})
        else:
            stats.leave_out(f"messages of the kind {kind}")


# -- Zed -----------------------------------------------------------------------------------------------------------------


def _zed_heads(database: SessionDatabase, session: str) -> Iterator[JsonObject]:
    query = "SELECT id, updated_at, NULL, NULL, NULL FROM threads WHERE ? IN ('', id) ORDER BY updated_at"
    if {"created_at", "folder_paths", "parent_id"} <= database.columns["threads"]:
        query = query.replace("NULL, NULL, NULL", "created_at, folder_paths, parent_id")
    for identity, changed, created, folders, parent in database.connection.execute(query, (session,)):
        folder = to_text(folders).partition("\n")[0]
        moment = timestamp(changed) or 0.0
        yield session_record(identity, folder, created or changed, changed=moment, sidechain=bool(parent))


def _zed_records(database: SessionDatabase, session: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    query = "SELECT data_type, data, updated_at FROM threads WHERE id = ? AND length(data) <= ?"
    for form, data, changed in database.connection.execute(query, (session, MAX_LINE_BYTES)):
        packed = data if isinstance(data, bytes) else to_text(data).encode()
        thread = parse_object(decompress_zstd(packed, MAX_LINE_BYTES) if form == "zstd" else packed, stats) or {}
        yield session_record(session, "", changed)
        for message in content_blocks(thread.get("messages")):  # a mark such as "Resume" is none
            kind, body = next(
                ((kind, as_object(message[kind])) for kind in ("User", "Agent") if kind in message), ("", {})
            )
            older = message_record(message.get("role"), content_blocks(message.get("segments")))
            yield message_record(kind.lower().replace("agent", "assistant"), [*_zed_blocks(body)]) if kind else older
            for call, result in as_object(body.get("tool_results")).items():
                content, failed = as_object(result).get("content"), bool(as_object(result).get("is_error"))
                yield result_record(call, to_text(as_object(content).get("Text")) or content, failed=failed)


def _zed_blocks(body: JsonObject) -> Iterator[JsonObject]:
    for part in content_blocks(body.get("content")):
        call, text = as_object(part.get("ToolUse")), part.get("Text") or as_object(part.get("Mention")).get("content")
        yield (
            call_block(call.get("id"), call.get("name"), call.get("input")) if call else {"type": "text", "text": text}
        )


# -- Goose, Kimi CLI, Amp ------------------------------------------------------------------------------------------------


def read_goose_lines(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a session; the first line is about it."""
    for number, record in enumerate(read_records(path, stats)):
        if number:
            yield message_record(record.get("role"), record.get("content"), record.get("created"), record.get("id"))
        else:
            yield session_record(Path(path).stem, record.get("working_dir"), record.get("created_at"))


def _goose_heads(database: SessionDatabase, session: str) -> Iterator[JsonObject]:
    query = "SELECT id, working_dir, created_at, updated_at FROM sessions WHERE ? IN ('', id) ORDER BY created_at"
    if "session_type" in database.columns["sessions"]:
        query = query.replace(" ORDER", " AND session_type NOT IN ('sub_agent', 'hidden') ORDER")
    for identity, folder, created, changed in database.connection.execute(query, (session,)):
        yield session_record(identity, folder, created, changed=timestamp(changed) or 0.0)


def _goose_records(database: SessionDatabase, session: str, _stats: TranscriptStats) -> Iterator[JsonObject]:
    query = "SELECT id, role, created_timestamp, content_json FROM messages WHERE session_id = ? AND length(content_json) <= ? ORDER BY id"
    for identity, role, created, content in database.connection.execute(query, (session, MAX_LINE_BYTES)):
        yield message_record(role, parse_arguments(content), created, str(identity))


def read_kimi(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a session, which has no times. Its folder is named by the MD5 of the directory."""
    folder = Path(path).parent if Path(path).stem == "context" else Path(path)
    known = content_blocks(read_side_object(folder.parent.parent.parent / "kimi.json").get("work_dirs"))
    sums = {
        md5(to_text(place.get("path")).encode(), usedforsecurity=False).hexdigest(): place.get("path")
        for place in known
    }
    yield session_record(folder.name.removesuffix(".jsonl"), sums.get(folder.parent.name), None)
    for record in read_records(path, stats):
        role, content = to_text(record.get("role")), record.get("content")
        text = message_text(content)
        if role == "tool":
            shown = re.sub(r"<system>.*?</system>\s*", "", text, flags=re.DOTALL)
            yield result_record(record.get("tool_call_id"), shown, failed=text.startswith("<system>ERROR"))
        elif role in {"user", "assistant"} and not text.startswith(("<system>", "<system-reminder>")):
            yield message_record(role, content, tool_calls=record.get("tool_calls"))
        elif role.startswith("_") or role in {"user", "system"}:
            stats.skipped += 1
        else:
            stats.leave_out(f"records of the role {role}")


def read_amp(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a thread. Its directory may be told after its messages."""
    read = partial(read_members, path, frozenset({"messages"}))
    about = {name: value for name, value in read(TranscriptStats()) if name != "messages"}
    trees = content_blocks(as_object(as_object(about.get("env")).get("initial")).get("trees"))
    folder = next((folder for tree in trees if (folder := _path_of_uri(tree.get("uri")))), "")
    yield session_record(about.get("id"), folder, about.get("created"))
    for message in [as_object(value) for name, value in read(stats) if name == "messages"]:
        stop = "aborted" if as_object(message.get("state")).get("type") == "cancelled" else ""
        sent, identity = as_object(message.get("meta")).get("sentAt"), message.get("messageId")
        yield message_record(message.get("role"), message.get("content"), sent, identity, stopReason=stop)


# -- aider ---------------------------------------------------------------------------------------------------------------

_AIDER_START = "# aider chat started at "
_AIDER_PROMPTS = ("/ask ", "/code ", "/architect ", "/context ", "/help ")
"""Commands that ask the model; the others are for the program."""


def read_aider(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of all runs in a history.

    Each line of a prompt begins with `#### ` and ends with two spaces, by which it differs from a heading in an answer. In architect mode
    the answer of one model is the prompt of another, and is left out.
    """
    first = next((line for line in read_lines(path, TranscriptStats()) if line.startswith(_AIDER_START)), "")
    session = f"aider-{sha256(path.encode()).hexdigest()[:12]}"
    yield session_record(session, str(Path(path).parent), _local_time(first.removeprefix(_AIDER_START).strip()))
    started, prompts, prompt, answer, said, edits = "", 0, list[str](), list[str](), "", 0

    for line in chain(read_lines(path, stats), [_AIDER_START]):
        is_prompt = line.startswith("#### ") and line.endswith("  ")
        if prompt and not is_prompt:
            text = "\n".join(prompt).strip()
            prompt = []
            asked = next((text[len(word) :] for word in _AIDER_PROMPTS if text.startswith(word)), text)
            if (text.startswith("/") and asked == text) or re.search(r"\(Y\)es/\(N\)o.*\]: \w*\Z", text):
                stats.skipped += 1  # for the program, or an answer to its question
            elif " ".join(text.split()) != said and text != "<blank>":
                prompts += 1
                time = _local_time(started)
                yield message_record("user", asked, time, f"{started}#{prompts}".replace(" ", "T"))
        if is_prompt or line.startswith(("> ", _AIDER_START)):
            text = re.sub(r"<(thinking-content-\w+)>.*?(?:</\1>|\Z)", "", "\n".join(answer), flags=re.DOTALL).strip()
            if text:
                yield message_record("assistant", text)
                said = " ".join(text.split())
            answer = []
        if is_prompt:
            prompt.append(line[5:].rstrip())
        elif line.startswith(_AIDER_START):
            started, prompts = line.removeprefix(_AIDER_START).strip(), 0
        elif line.startswith("> Applied edit to "):
            edits += 1
            yield message_record("assistant", [call_block(f"edit {edits}", "edit", {"path": line[18:].strip()})])
            yield result_record(f"edit {edits}", line[2:].strip())
        elif not line.startswith("> "):
            answer.append(line)


def _local_time(text: str) -> str | None:
    """Return a time without a zone, which is local, with its zone."""
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except ValueError:
        return None


# -- SpecStory -----------------------------------------------------------------------------------------------------------

_SPECSTORY_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T_](\d\d)[:-](\d\d)(?:[:-](\d\d))?(Z?)")
_SPECSTORY_END = "_**End**_"


def read_specstory(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a session. Turns of subagents are left out, and a session that a tool's output quotes is not one.

    Fences do not tell what is quoted: people paste texts with a fence that has no end.
    """
    yield session_record(*_specstory_head(path))
    role, time, lines, blocks, is_tool = "", None, list[str](), 0, False
    for line in chain(read_lines(path, stats), [_SPECSTORY_END]):
        is_tool = (is_tool or line.startswith("<tool-use ")) and line != _SPECSTORY_END and "</tool-use>" not in line
        mark = None if is_tool else re.fullmatch(r"_\*\*(User|Agent|Assistant|End)\b(.*?)\*\*_\s*", line)
        if mark is None:
            lines.append(line)
            continue
        blocks += 1
        yield from _specstory_records(role, "\n".join(lines), time, f"call {blocks}")
        stats.skipped += not role and blocks > 1
        role, lines, time = "" if "sidechain" in mark[2] else mark[1], [], _specstory_time(mark[2])


def _specstory_head(path: str) -> tuple[str, str, str | None]:
    """Return the session's id, its directory, which is that of the folder, and its time."""
    head = "\n".join(line for line, _ in zip(read_lines(path, TranscriptStats()), range(12), strict=False))
    named = re.search(r"^<!-- .{0,40}?[Ss]ession ([\w-]{8,})", head, re.MULTILINE)
    folder = next((parent.parent for parent in Path(path).parents if parent.name == ".specstory"), Path(path).parent)
    return (
        named[1] if named else Path(path).stem,
        str(folder),
        _specstory_time(head) or _specstory_time(Path(path).name),
    )


def _specstory_time(text: str) -> str | None:
    found = _SPECSTORY_TIME.search(text)
    return f"{found[1]}T{found[2]}:{found[3]}:{found[4] or '00'}+00:00" if found else None


def _specstory_records(role: str, text: str, time: str | None, identity: str) -> Iterator[JsonObject]:
    text = re.sub(r"(?:\A|\n)---\s*\Z", "", text.strip()).strip()
    if role == "User":
        if request := user_text(text):
            yield message_record("user", request, time)
        return
    text = re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
    call = re.search(
        r'<tool-use data-tool-type="(\w*)" data-tool-name="([^"]*)">(.*?)(?:</tool-use>|\Z)', text, re.DOTALL
    )
    if call and role:
        shown = re.search(r"`([^`\n]+)`", call[3])
        key = "command" if call[1] == "shell" else "pattern" if call[1] == "search" else "path"
        yield message_record("assistant", [call_block(identity, call[2], {key: shown[1]} if shown else "")])
        output = re.search(r"^\s*(`{3,})\w*\n(.*?)^\s*\1", call[3], re.DOTALL | re.MULTILINE)
        yield result_record(identity, output[2] if output else "")
        text = text[: call.start()] + text[call.end() :]
    if role:
        yield message_record("assistant", text.strip())


FILES: tuple[tuple[str, str, bytes, ReadRecords], ...] = (
    ("cline", "json", rb'\[\s*\{\s*"ts"\s*:\s*\d+\s*,\s*"type"\s*:\s*"(?:say|ask)"', read_cline),
    (
        "cline",
        "json",
        rb'\{\s*"version"\s*:\s*1\s*,\s*"updated_at"\s*:\s*"[^"]*"\s*,\s*"agent"\s*:',
        read_cline_session,
    ),
    ("copilot-chat", "jsonl", rb'\{"kind":0,"v":\{', read_copilot_log),
    ("copilot-chat", "json", rb'\{[^\[]{0,4000}"responderUsername"\s*:', read_copilot_document),
    ("cursor", "jsonl", rb'\{"role":\s*"(?:user|assistant)",\s*"message":', read_cursor_lines),
    ("goose", "jsonl", rb'\{[^\n]{0,4000}"working_dir"\s*:', read_goose_lines),
    ("kimi", "jsonl", rb'\{"role":\s*"(?:_|user".{0,60000}?\n\{"role":\s*"_(?:checkpoint|usage)")', read_kimi),
    ("amp", "json", rb'\{.{0,200}?"id"\s*:\s*"T-[0-9a-f-]{36}"', read_amp),
    ("aider", "markdown", rb"# aider chat started at \d", read_aider),
    (
        "specstory",
        "markdown",
        rb"(?:<!-- Generated by SpecStory|#+ SpecStory\b|#+ \d{4}-\d\d-\d\d[^\n]*\s*<!-- [\w ]{2,40} Session )",
        read_specstory,
    ),
)
"""The agent, the format, how such a file begins, and its records."""
DATABASES = (
    DatabaseFormat("cursor", lambda tables: "ItemTable" in tables, _cursor_heads, _cursor_records, OpenClawReader),
    DatabaseFormat(
        *("zed", lambda tables: {"id", "data_type", "data"} <= tables.get("threads", frozenset()), _zed_heads),
        *(_zed_records, OpenClawReader),
    ),
    DatabaseFormat(
        *("goose", lambda tables: "content_json" in tables.get("messages", ()), _goose_heads, _goose_records),
        OpenClawReader,
    ),
)
