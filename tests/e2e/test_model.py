"""The scripted model that stands behind the end-to-end run: what it must do for a proof to mean something."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.model import Model, Step, directives

ASKED: dict[str, Any] = {
    "/v1/messages": {"tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": "QUESTION"}]},
    "/v1/responses": {
        "tools": [{"type": "function", "name": "Bash"}],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "QUESTION"}]}],
    },
    "/v1/chat/completions": {
        "tools": [{"type": "function", "function": {"name": "Bash"}}],
        "messages": [{"role": "user", "content": "QUESTION"}],
    },
}
RESULTS: dict[str, Any] = {
    "/v1/messages": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "done"}]},
    "/v1/responses": {"type": "function_call_output", "call_id": "1", "output": "done"},
    "/v1/chat/completions": {"role": "tool", "tool_call_id": "1", "content": "done"},
}


@pytest.fixture
def model() -> Iterator[Model]:
    running = Model()
    running.start()
    yield running
    running.stop()


def ask(model: Model, path: str, question: str, *more: Any, **fields: Any) -> str:
    body = json.loads(json.dumps(ASKED[path] | fields).replace("QUESTION", question))
    body["input" if "input" in body else "messages"] += more
    request = urllib.request.Request(model.address + path, json.dumps(body).encode(), method="POST")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
        return str(answer.read().decode())


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ASKED)
def test_a_script_is_followed_step_by_step(model: Model, path: str, stream: bool) -> None:  # noqa: FBT001
    """In each protocol, the first step answers the prompt and the next one the tool's result."""
    model.script("the mark", Step(tool="Bash", arguments={"command": "ls"}), Step("It is settled."))
    first = ask(model, path, "do the mark", stream=stream)
    second = ask(model, path, "do the mark", RESULTS[path], stream=stream)
    assert "Bash" in first
    assert "It is settled." not in first
    assert "It is settled." in second
    assert [request.results for request in model.requests()] == [[], ["done"]]


def test_a_prompt_may_hold_its_own_script() -> None:
    """Directives become steps in their order, and a wait belongs to the next."""
    told = 'first <<use Bash {"command": "ls"}>> then <<wait 2>><<say done>>, at last <<fail 500>>'
    expected = (Step(tool="Bash", arguments={"command": "ls"}), Step("done", wait_s=2.0), Step(status=500))
    assert directives(told) == expected


def test_what_a_host_says_in_the_users_name_is_not_the_question(model: Model) -> None:
    """The script of the prompt is followed although the host has put something behind it."""
    model.script("the mark", Step("It is settled."))
    aside = {"role": "user", "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone"}
    assert "It is settled." in ask(model, "/v1/chat/completions", "do the mark", aside)
