"""Remote language models: each vendor's format, good and bad, against a real server on loopback."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import read, rows
from tests.models.embedding_server import Answer, Behaviour, EmbeddingServer
from tests.models.fake_docker import FakeDocker
from tests.models.vendors import Rig

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable
from lorelog.core.options import LANGUAGE_PROVIDERS, LanguageOptions, OllamaOptions
from lorelog.core.ports import Completion, LanguageModel
from lorelog.models.chat import CHAT_PROVIDERS, open_language_model, resolve_language_options

KEY = "Sesame+open/0123456789abcdef"


@dataclass(frozen=True)
class ChatVendor:
    """One vendor's requests and replies according to its documentation."""

    name: str
    path: str
    key: tuple[str, str]
    """The header that shows the key, and what stands before it."""
    asked: dict[str, Any]
    """The body of a request for at most 99 tokens: "Write." and "A turn ?", of the model small/one."""
    reply: Callable[[str], dict[str, Any]]
    """An answer with this text, for 11 tokens in and 7 out."""
    cut: Callable[[str], dict[str, Any]]
    refusals: tuple[dict[str, Any], ...]
    error: Callable[[int, str], dict[str, Any]]


def _chat(text: Any, reason: str = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **more}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}


def _message(text: str, reason: str = "end_turn") -> dict[str, Any]:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 6, "output_tokens": 7}
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": reason, "usage": usage}


def _candidate(text: str, reason: str = "STOP") -> dict[str, Any]:
    parts = [{"text": "hm", "thought": True}, {"text": text[:2]}, {"text": text[2:]}]
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 3, "thoughtsTokenCount": 4, "totalTokenCount": 18}
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": reason}], "usageMetadata": usage}


def _ollama(text: Any, reason: str = "stop", *, done: bool = True) -> dict[str, Any]:
    counts = {"prompt_eval_count": 11, "eval_count": 7, "total_duration": 5}
    message = {"role": "assistant", "content": text, "thinking": "hm"}
    return {"model": "m", "message": message, "done": done, "done_reason": reason, **counts}


_SAID = [{"role": "system", "content": "Write."}, {"role": "user", "content": "A turn ?"}]

VENDORS = {
    "openai": ChatVendor(
        "openai",
        "/v1/chat/completions",
        ("authorization", "Bearer "),
        {"model": "small/one", "messages": _SAID, "max_tokens": 99},
        _chat,
        lambda text: _chat(text, "length"),
        (_chat(None, refusal="I cannot."), _chat("x", refusal="I cannot."), _chat("", "content_filter")),
        lambda status, said: {"error": {"message": said, "type": "t", "code": None}},
    ),
    "anthropic": ChatVendor(
        "anthropic",
        "/v1/messages",
        ("x-api-key", ""),
        {"model": "small/one", "max_tokens": 99, "system": "Write.", "messages": _SAID[1:]},
        _message,
        lambda text: _message(text, "max_tokens"),
        (_message("I cannot.", "refusal"),),
        lambda status, said: {"type": "error", "error": {"type": "t", "message": said}, "request_id": "r"},
    ),
    "gemini": ChatVendor(
        "gemini",
        "/v1/models/small%2Fone:generateContent",
        ("x-goog-api-key", ""),
        {
            "systemInstruction": {"parts": [{"text": "Write."}]},
            "contents": [{"role": "user", "parts": [{"text": "A turn ?"}]}],
            "generationConfig": {"maxOutputTokens": 99 + 1024, "thinkingConfig": {"thinkingLevel": "low"}},
        },
        _candidate,
        lambda text: _candidate(text, "MAX_TOKENS"),
        (
            _candidate("I cannot.", "SAFETY"),
            _candidate("", "RECITATION"),
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
        ),
        lambda status, said: {"error": {"code": status, "message": said, "status": "T"}},
    ),
    "ollama": ChatVendor(
        "ollama",
        "/v1/api/chat",
        ("authorization", "Bearer "),
        {
            "model": "small/one",
            "messages": _SAID,
            "stream": False,
            "think": False,
            "options": {"num_predict": 99, "num_ctx": 8192},
        },
        _ollama,
        lambda text: _ollama(text, "length"),
        (),
        lambda status, said: {"error": said},
    ),
}
each_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
OPENAI = VENDORS["openai"]

Serve = Callable[..., tuple[EmbeddingServer, LanguageModel]]


@pytest.fixture
def serve(rig: Rig) -> Serve:
    """Starts a server with a script, and a vendor's model that uses it."""

    def start(vendor: ChatVendor, *script: Behaviour | Answer | dict[str, Any], **options: Any) -> Any:
        server = rig.serve(*map(_behaviour, script))
        given = {"model": "small/one", "api_key": KEY, "base_url": server.url, "timeout_s": 5.0, **options}
        chosen = LanguageOptions(vendor.name, **given)
        return server, open_language_model(chosen, "", {})

    return start


def _behaviour(reply: Behaviour | Answer | dict[str, Any]) -> Behaviour:
    if callable(reply):
        return reply
    answer = reply if isinstance(reply, Answer) else Answer(body=reply)
    return lambda request: answer


def refusing(vendor: ChatVendor, status: int, said: str = "no", **headers: str) -> Answer:
    return Answer(
        status, vendor.error(status, said), {name.replace("_", "-"): value for name, value in headers.items()}
    )


def test_every_provider_is_registered() -> None:
    """The settings accept exactly the registered providers, and each remote one is tested here."""
    assert {*CHAT_PROVIDERS, "none"} == set(LANGUAGE_PROVIDERS)
    assert {name for name, provider in CHAT_PROVIDERS.items() if provider.key_variables} == set(VENDORS)
    with pytest.raises(ConfigError, match="unknown language model provider 'oracle'") as raised:
        open_language_model(LanguageOptions("oracle"), "", {})
    assert "anthropic" in raised.value.hint


def test_the_page_names_every_provider_with_its_defaults() -> None:
    """docs/llm.md has a row for each, with the usual model, the window, and the variables for key and address."""
    table = {row[0].strip("`"): row[1:] for row in rows(read("docs/llm.md")) if len(row) == 6 and row[0][0] == "`"}
    assert list(table) == list(CHAT_PROVIDERS)
    for name, provider in CHAT_PROVIDERS.items():
        _, model, window, key, address = table[name]
        assert window == f"{provider.window_tokens:,}", name
        assert all(f"`{key_variable}`" in key for key_variable in provider.key_variables), name
        assert f"`{provider.url_variable}`" in address or not provider.url_variable, name
        if provider.key_variables:
            opened = open_language_model(LanguageOptions(name), "", {})
            assert opened is not None
            assert model == f"`{opened.model}`"


@each_vendor
def test_a_text_is_written_and_what_it_cost_is_told(vendor: ChatVendor, serve: Serve) -> None:
    """A request has the vendor's format with model, limit and key; text and tokens come back, thoughts do not."""
    server, model = serve(vendor, vendor.reply("- User asked"))

    assert model.complete("Write.", "A turn \udcff", 99) == Completion("- User asked", 11, 7)

    (request,) = server.requests
    name, before = vendor.key
    assert (request.path, request.headers[name]) == (vendor.path, f"{before}{KEY}")
    assert KEY not in request.path
    assert request.body == vendor.asked
    assert (model.provider, model.model) == (vendor.name, "small/one")


@each_vendor
def test_the_default_model_is_requested_by_name(vendor: ChatVendor, serve: Serve) -> None:
    """Without a model in the settings, a request names the vendor's default, and so does the receipt."""
    server, model = serve(vendor, vendor.reply("x x"), model="")
    model.complete("s", "t", 9)

    (request,) = server.requests
    named = request.body.get("model") or request.path.rpartition("/")[2].partition(":")[0]
    assert named == model.model != ""


@pytest.mark.slow
@each_vendor
def test_a_busy_server_is_asked_again(vendor: ChatVendor, serve: Serve) -> None:
    """After 429, 500 and 529 the same request is sent again when Retry-After says so."""
    script = [refusing(vendor, status, "slow down", Retry_After="0") for status in (429, 500, 529)]
    server, model = serve(vendor, *script, vendor.reply("- done"))

    assert model.complete("s", "t", 9).text == "- done"
    assert [request.body for request in server.requests] == [server.requests[0].body] * 4


def test_openai_servers_may_call_the_limit_otherwise(serve: Serve) -> None:
    """A server that rejects one name of the limit gets the other, and from then on at once."""
    vendor = VENDORS["openai"]
    refused = refusing(vendor, 400, "Unsupported parameter: 'max_tokens'")
    server, model = serve(vendor, refused, _chat("a"), _chat("b"))

    assert [model.complete("s", "t", 9).text for _ in range(2)] == ["a", "b"]
    limits = [{"max_tokens", "max_completion_tokens"} & set(request.body) for request in server.requests]
    assert limits == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]


def test_anthropic_is_told_which_version_is_spoken(serve: Serve) -> None:
    """Its API wants to know; a base URL may end with /v1 or before it."""
    server, model = serve(VENDORS["anthropic"], _message("x"))
    model.complete("s", "t", 9)
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"

    _, model = serve(VENDORS["anthropic"], _message("x"), base_url=server.url.removesuffix("/v1") + "/")
    model.complete("s", "t", 9)
    assert [request.path for request in server.requests] == ["/v1/messages"] * 2


@each_vendor
def test_a_cut_answer_loses_its_last_line(vendor: ChatVendor, serve: Serve) -> None:
    """A truncated completion loses its unfinished line; an empty one is returned with its cost."""
    _, model = serve(vendor, vendor.cut("- one\n- two is unfin"), vendor.reply(""))

    assert model.complete("s", "t", 9) == Completion("- one", 11, 7)
    assert model.complete("s", "t", 9) == Completion("", 11, 7)


@pytest.mark.parametrize(
    ("vendor", "reply"),
    [(vendor, reply) for vendor in VENDORS.values() for reply in vendor.refusals],
    ids=lambda value: "",
)
def test_a_refusal_is_a_fault(vendor: ChatVendor, reply: dict[str, Any], serve: Serve) -> None:
    """A refusal is a fault, and none of it becomes text."""
    _, model = serve(vendor, reply)

    with pytest.raises(ModelFault, match=r"a refusal|without text") as raised:
        model.complete("s", "t", 9)

    assert "cannot" not in raised.value.message


@each_vendor
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_a_status_is_not_an_answer(vendor: ChatVendor, status: int, serve: Serve) -> None:
    """A server that refuses is unavailable; its message is shown without the key, with a hint what to check."""
    server, model = serve(vendor, refusing(vendor, status, f"bad key {KEY}"))

    with pytest.raises(ModelUnavailable, match=rf"HTTP {status}\): bad key \[key\]") as raised:
        model.complete("s", "t", 9)

    assert KEY not in f"{raised.value!r}{raised.value.hint}"
    assert len(server.requests) == 1
    if status == 401:
        assert CHAT_PROVIDERS[vendor.name].key_variables[0] in raised.value.hint


LOST: dict[str, tuple[list[Answer], str]] = {
    "an incomplete reply": ([Answer(raw=b'{"choices": [', promised=100)], "broke off"),
    "HTTP 502": ([refusing(OPENAI, 502, "upstream", Retry_After="0")], "502"),
    "HTTP 504": ([refusing(OPENAI, 504, "upstream", Retry_After="0")], "504"),
    # It may have been a stale connection, or the reply lost.
    "after a wait": ([refusing(OPENAI, 429, "slow down", Retry_After="0"), Answer(hang_up=True)], "broke off"),
}


@pytest.mark.parametrize(("script", "message"), LOST.values(), ids=LOST)
def test_an_answer_that_was_lost_is_not_asked_for_twice(script: list[Answer], message: str, serve: Serve) -> None:
    """A reply that breaks off, or that a gateway lost, may have been charged: a fault, and no further request."""
    server, model = serve(OPENAI, *script, OPENAI.reply("- twice"))

    with pytest.raises(ModelFault, match=message):
        model.complete("s", "t", 9)

    assert len(server.requests) == len(script)


@each_vendor
def test_a_malformed_answer_is_a_fault(vendor: ChatVendor, serve: Serve) -> None:
    """A reply that is not JSON with a message is rejected."""
    odd = [
        Answer(raw=b"<html>hello</html>"),
        Answer(raw=b"[" * 100_000),
        Answer(raw=b""),
        Answer(body=[]),
        Answer(body={}),
        Answer(body={"choices": [], "content": 3, "candidates": [], "message": {}}),
        Answer(body={"choices": [7], "content": {"text": "x"}, "candidates": [7], "message": 7, "done": True}),
        Answer(garbage=True),
    ]
    for answer in odd:
        _, model = serve(vendor, answer)
        with pytest.raises(ModelFault):
            model.complete("s", "t", 9)


@each_vendor
@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "7", "input_tokens": -1, "promptTokenCount": True}])
def test_a_server_need_not_say_what_it_cost(vendor: ChatVendor, usage: object, serve: Serve) -> None:
    """Missing or invalid usage counts as unknown."""
    body = vendor.reply("x x")
    odd: dict[str, object] = {name: usage for name in ("usage", "usageMetadata") if name in body}
    odd |= {name: "7" for name in ("prompt_eval_count", "eval_count") if name in body}
    _, model = serve(vendor, {**body, **odd})

    assert model.complete("s", "t", 9) == Completion("x x", 0, 0)


@each_vendor
def test_a_key_is_needed_unless_the_server_is_ones_own(vendor: ChatVendor, serve: Serve) -> None:
    """Without a key only a server on loopback is used, and the message names the variable to set."""
    server, model = serve(vendor, vendor.reply("x"), api_key="")
    assert model.complete("s", "t", 9).text == "x"
    assert vendor.key[0] not in server.requests[0].headers
    if vendor.name == "ollama":
        return

    elsewhere = open_language_model(LanguageOptions(vendor.name, base_url="https://models.example/v1"), "", {})
    assert elsewhere is not None
    with pytest.raises(ModelUnavailable, match=r"no API key for models\.example") as raised:
        elsewhere.complete("s", "t", 9)
    assert raised.value.hint == f"set {' or '.join(CHAT_PROVIDERS[vendor.name].key_variables)}"


@each_vendor
def test_key_and_address_may_come_from_the_vendors_variables(vendor: ChatVendor, serve: Serve) -> None:
    """The vendor's variables are used unless the settings override them."""
    provider = CHAT_PROVIDERS[vendor.name]
    server, _ = serve(vendor, vendor.reply("here"))
    environment = {name: f"{KEY}-{number}" for number, name in enumerate(provider.key_variables)}
    environment |= {provider.url_variable: server.url, "MINE": "mine"} if provider.url_variable else {"MINE": "mine"}

    found = resolve_language_options(LanguageOptions(vendor.name), environment)
    assert (found.api_key, found.base_url) == (f"{KEY}-0", server.url if provider.url_variable else "")
    assert (found.window_tokens, found.key_variable) == (provider.window_tokens, provider.key_variables[0])
    named = LanguageOptions(vendor.name, base_url="http://h", api_key="k", key_variable="MINE", window_tokens=5)
    assert resolve_language_options(named, environment) == named
    assert resolve_language_options(LanguageOptions(vendor.name, key_variable="GONE"), environment).api_key == ""


def test_the_second_variable_counts_where_the_first_is_not_set() -> None:
    """Google's key may be in either of two variables, and the message names the one that was read."""
    found = resolve_language_options(LanguageOptions("gemini"), {"GOOGLE_API_KEY": "g"})

    assert (found.api_key, found.key_variable) == ("g", "GOOGLE_API_KEY")


@pytest.mark.parametrize(
    ("model", "little"),
    [
        ("gemini-2.5-flash", {"thinkingBudget": 0}),
        ("models/gemini-2.5-pro", {"thinkingBudget": 128}),
        ("gemini-3.5-flash", {"thinkingLevel": "low"}),
        ("gemini-flash-latest", {"thinkingLevel": "low"}),
    ],
)
def test_gemini_is_asked_to_think_little_in_its_own_words(model: str, little: dict[str, Any], serve: Serve) -> None:
    """Older models get a number, newer ones a level; a model that rejects both is asked without, from then on at once."""
    vendor = VENDORS["gemini"]
    server, asked = serve(vendor, _candidate("x"), model=model)
    asked.complete("s", "t", 9)
    assert server.requests[0].body["generationConfig"]["thinkingConfig"] == little

    refused = refusing(vendor, 400, "Thinking level is not supported for this model.")
    server, asked = serve(vendor, refused, _candidate("a a"), _candidate("b b"), model=model)
    assert [asked.complete("s", "t", 9).text for _ in range(2)] == ["a a", "b b"]
    assert ["thinkingConfig" in request.body["generationConfig"] for request in server.requests] == [True, False, False]


def test_ollama_models_that_cannot_think_are_asked_all_the_same(serve: Serve) -> None:
    """A server that rejects `think` is asked without it; thoughts inside the text are removed."""
    vendor = VENDORS["ollama"]
    refused = refusing(vendor, 400, '"llama3" does not support thinking')
    thought = _ollama("<think>\nhm\n</think>\n\n- one")
    server, model = serve(vendor, refused, thought, _ollama("<think> on and on", "length"))

    assert model.complete("s", "t", 9).text == "- one"
    assert model.complete("s", "t", 9).text == ""
    assert ["think" in request.body for request in server.requests] == [True, False, False]


def test_ollama_tells_which_model_to_pull(serve: Serve) -> None:
    """A missing model is reported with the command that pulls it; an unfinished reply is a fault."""
    vendor = VENDORS["ollama"]
    _, model = serve(vendor, refusing(vendor, 404, 'model "small/one" not found, try pulling it first'))
    with pytest.raises(ModelUnavailable, match="does not have the model small/one") as raised:
        model.complete("s", "t", 9)
    assert raised.value.hint == "run: ollama pull small/one"

    _, model = serve(vendor, _ollama("half", done=False))
    with pytest.raises(ModelFault, match="not done"):
        model.complete("s", "t", 9)


def test_ollama_is_told_how_much_it_must_hold(serve: Serve) -> None:
    """The window is always that of the settings, so that the model stays loaded."""
    server, model = serve(VENDORS["ollama"], _ollama("x"), window_tokens=20_000)

    for text in ("t", "t" * 9000):
        model.complete("s", text, 9)

    assert [request.body["options"]["num_ctx"] for request in server.requests] == [20_000, 20_000]


@pytest.mark.slow
def test_ollama_is_started_where_that_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ollama.manage a container is run and the model pulled once."""
    docker = FakeDocker.at(tmp_path / "docker")
    monkeypatch.setenv("PATH", f"{docker.bin}{os.pathsep}{os.environ['PATH']}")
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    managed = OllamaOptions(manage=True, idle_s=0, folder=str(tmp_path / "ollama"))
    model = open_language_model(LanguageOptions("ollama", base_url=url, timeout_s=20.0, ollama=managed), "", {})
    assert model is not None
    try:
        assert [model.complete("s", "hello", 9) for _ in range(2)] == [Completion("- hello", 0, 3)] * 2
        assert docker.verbs().count("run") == 1
    finally:
        docker.kill()
