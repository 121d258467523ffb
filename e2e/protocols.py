"""Four ways in which agents talk with a model: read what was asked, and put an answer in the same words.

Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, whole or streamed. Only what the pinned hosts
need: text and one call of a tool. Reading makes one list of `Spoken` of the four, so that whoever scripts an answer
need not know which host asked.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

Event = tuple[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Spoken:
    """One part of a conversation in a request."""

    who: str  # user, assistant, result, other
    text: str


@dataclasses.dataclass(frozen=True)
class Say:
    """Content of a reply: a text, a tool call, or both."""

    number: int
    model: str
    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    namespace: str = ""

    def name(self, kind: str) -> str:
        return f"{kind}_e2e{self.number:05d}"


_ASIDES = (
    "<system-reminder>",
    "<hook_context source=",
    "<hook_result ",
    "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>",
    "<environment_context>",
    "Additional context from ",
)
"""Beginnings of texts that a host sends in the user's name."""
_OURS = re.compile(r"(?:<(lorelog-\w+)>.*</\1>\s*)+", re.DOTALL)
"""What we add, where a host sends it as a message of its own."""


def spoken_by(role: object, content: Any) -> Spoken:
    """Return a message without the texts that a host adds in the user's name."""
    texts = list(filter(None, map(plain, content if isinstance(content, list) else [content])))
    own = [text for text in texts if not (text.lstrip().startswith(_ASIDES) or _OURS.fullmatch(text.strip()))]
    known = {"user": "user", "assistant": "assistant", "tool": "result"}
    return Spoken("other" if texts and not own else known.get(str(role), "other"), "\n".join(own or texts))


def plain(content: Any) -> str:
    """Return every text in a message's content, whatever its shape."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, (plain(part) for part in content)))
    if isinstance(content, dict):
        return plain(content.get("text") or content.get("content") or content.get("output") or "")
    return ""


class Messages:
    """Anthropic's protocol."""

    @staticmethod
    def tools(body: dict[str, Any]) -> list[str]:
        return [str(tool.get("name", "")) for tool in body.get("tools") or []]

    @staticmethod
    def spoken(body: dict[str, Any]) -> list[Spoken]:
        said = []
        for message in body.get("messages") or []:
            content = message.get("content")
            parts = content if isinstance(content, list) else [content]
            results = [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_result"]
            if results:
                said += [Spoken("result", plain(part)) for part in results]
            else:
                said.append(spoken_by(message.get("role"), content))
        return said

    @staticmethod
    def _blocks(say: Say) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text else []
        if say.tool:
            blocks.append({"type": "tool_use", "id": say.name("toolu"), "name": say.tool, "input": say.arguments})
        return blocks

    @classmethod
    def whole(cls, say: Say) -> dict[str, Any]:
        return {
            "id": say.name("msg"),
            "type": "message",
            "role": "assistant",
            "model": say.model,
            "content": cls._blocks(say),
            "stop_reason": "tool_use" if say.tool else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 20, "output_tokens": 10},
        }

    @classmethod
    def events(cls, say: Say) -> Iterator[Event]:
        whole = cls.whole(say)

        def event(kind: str, **fields: Any) -> Event:
            return kind, {"type": kind, **fields}

        yield event("message_start", message={**whole, "content": [], "stop_reason": None})
        for at, block in enumerate(whole["content"]):
            if block["type"] == "text":
                empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield event("content_block_start", index=at, content_block=empty)
            yield event("content_block_delta", index=at, delta=delta)
            yield event("content_block_stop", index=at)
        ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield event("message_delta", delta=ending, usage={"output_tokens": 10})
        yield event("message_stop")


class Responses:
    """OpenAI's newer protocol, used by Codex."""

    _RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "mcp_tool_call_output"})

    @staticmethod
    def tools(body: dict[str, Any]) -> list[str]:
        names = []
        for tool in body.get("tools") or []:
            names.append(str(tool.get("name") or tool.get("type") or ""))
            names += [f"{tool.get('name')}.{inner.get('name')}" for inner in tool.get("tools") or []]
        return names

    @classmethod
    def spoken(cls, body: dict[str, Any]) -> list[Spoken]:
        asked = body.get("input")
        if isinstance(asked, str):
            return [Spoken("user", asked)]
        said = []
        for item in asked or []:
            kind = item.get("type", "message")
            if kind in cls._RESULTS:
                said.append(Spoken("result", plain(item.get("output"))))
            elif kind == "message":
                said.append(spoken_by(item.get("role"), item.get("content")))
        return said

    @staticmethod
    def _items(say: Say) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if say.text:
            part = {"type": "output_text", "text": say.text, "annotations": []}
            items.append(
                {
                    "type": "message",
                    "id": say.name("msg"),
                    "status": "completed",
                    "role": "assistant",
                    "content": [part],
                }
            )
        if say.tool:
            call = {
                "type": "function_call",
                "id": say.name("fc"),
                "status": "completed",
                "call_id": say.name("call"),
                "name": say.tool,
                "arguments": json.dumps(say.arguments),
            }
            items.append({**call, "namespace": say.namespace} if say.namespace else call)
        return items

    @classmethod
    def whole(cls, say: Say) -> dict[str, Any]:
        return {
            "id": say.name("resp"),
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": say.model,
            "output": cls._items(say),
            "error": None,
            "usage": {
                "input_tokens": 20,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 10,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 30,
            },
        }

    @classmethod
    def events(cls, say: Say) -> Iterator[Event]:
        whole = cls.whole(say)
        yield cls._event("created", response={**whole, "status": "in_progress", "output": [], "usage": None})
        for at, item in enumerate(whole["output"]):
            begun = {**item, "status": "in_progress"}
            if item["type"] == "message":
                text = item["content"][0]["text"]
                where = {"output_index": at, "item_id": item["id"], "content_index": 0}
                yield cls._event("output_item.added", output_index=at, item={**begun, "content": []})
                yield cls._event("output_text.delta", delta=text, **where)
                yield cls._event("output_text.done", text=text, **where)
            else:
                yield cls._event("output_item.added", output_index=at, item={**begun, "arguments": ""})
            yield cls._event("output_item.done", output_index=at, item=item)
        yield cls._event("completed", response=whole)

    @staticmethod
    def _event(kind: str, **fields: Any) -> Event:
        return f"response.{kind}", {"type": f"response.{kind}", **fields}


class Chat:
    """OpenAI's older protocol, used by most servers of open models."""

    @staticmethod
    def tools(body: dict[str, Any]) -> list[str]:
        return [str((tool.get("function") or tool).get("name", "")) for tool in body.get("tools") or []]

    @staticmethod
    def spoken(body: dict[str, Any]) -> list[Spoken]:
        return [spoken_by(message.get("role"), message.get("content")) for message in body.get("messages") or []]

    @staticmethod
    def _calls(say: Say) -> list[dict[str, Any]]:
        if not say.tool:
            return []
        function = {"name": say.tool, "arguments": json.dumps(say.arguments)}
        return [{"index": 0, "id": say.name("call"), "type": "function", "function": function}]

    _USAGE = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}  # noqa: RUF012 - only read

    @classmethod
    def whole(cls, say: Say) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
        if say.tool:
            message["tool_calls"] = cls._calls(say)
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if say.tool else "stop"}
        return cls._frame(say, "chat.completion", [choice], cls._USAGE)

    @classmethod
    def events(cls, say: Say) -> Iterator[Event]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": say.text}] if say.text else []
        deltas += [{"tool_calls": cls._calls(say)}] if say.tool else []
        for delta in deltas:
            yield "", cls._chunk(say, [{"index": 0, "delta": delta, "finish_reason": None}])
        yield "", cls._chunk(say, [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if say.tool else "stop"}])
        yield "", cls._chunk(say, [], cls._USAGE)

    @classmethod
    def _chunk(cls, say: Say, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> dict[str, Any]:
        return cls._frame(say, "chat.completion.chunk", choices, usage)

    @staticmethod
    def _frame(
        say: Say, kind: str, choices: list[dict[str, Any]], usage: dict[str, int] | None = None
    ) -> dict[str, Any]:
        frame = {"id": say.name("chat"), "object": kind, "created": 1, "model": say.model, "choices": choices}
        return {**frame, "usage": usage} if usage else frame


class Gemini:
    """Google's protocol. The model and whether to stream are in the path, not in the body."""

    @staticmethod
    def tools(body: dict[str, Any]) -> list[str]:
        groups = [tool.get("functionDeclarations") or [] for tool in body.get("tools") or []]
        return [str(tool.get("name", "")) for group in groups for tool in group]

    @staticmethod
    def spoken(body: dict[str, Any]) -> list[Spoken]:
        said = []
        for content in body.get("contents") or []:
            parts = [part for part in content.get("parts") or [] if isinstance(part, dict)]
            results = [part["functionResponse"] for part in parts if "functionResponse" in part]
            texts = [part.get("text", "") for part in parts if part.get("text")]
            if results:
                said += [Spoken("result", json.dumps(result.get("response"), ensure_ascii=False)) for result in results]
            elif texts:
                role = {"model": "assistant"}.get(content.get("role"), content.get("role"))
                said.append(spoken_by(role, texts))
        return said

    @classmethod
    def whole(cls, say: Say) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"text": say.text}] if say.text else []
        if say.tool:
            parts.append({"functionCall": {"id": say.name("call"), "name": say.tool, "args": say.arguments}})
        return cls._frame(say, parts, "STOP")

    @classmethod
    def events(cls, say: Say) -> Iterator[Event]:
        if say.text and not say.tool:
            yield "", cls._frame(say, [{"text": say.text}])
            yield "", cls._frame(say, [{"text": ""}], "STOP")
        else:
            yield "", cls.whole(say)

    @staticmethod
    def _frame(say: Say, parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        usage = {"promptTokenCount": 20, "candidatesTokenCount": 10, "totalTokenCount": 30}
        frame = {"candidates": [candidate], "usageMetadata": usage}
        return {**frame, "modelVersion": "scripted", "responseId": say.name("gem")}


Protocol = type[Messages] | type[Responses] | type[Chat] | type[Gemini]
PATHS: dict[str, Protocol] = {
    "/messages": Messages,
    "/responses": Responses,
    "/chat/completions": Chat,
    ":generateContent": Gemini,
    ":streamGenerateContent": Gemini,
}


def protocol_of(path: str) -> Protocol | None:
    """Return the protocol of a request's path."""
    bare = path.split("?", 1)[0]
    return next((protocol for ending, protocol in PATHS.items() if bare.endswith(ending)), None)
