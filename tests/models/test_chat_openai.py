"""Chat completions, against a real server on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import pytest
from tests.models.embedding_server import Answer, Behaviour, EmbeddingServer

from lorelog.core.errors import ConfigError, ModelError, ModelFault, ModelUnavailable
from lorelog.core.options import SummarizeOptions
from lorelog.core.ports import Completion
from lorelog.models.chat import open_language_model
from lorelog.models.chat.openai import DEFAULT_MODEL, OpenAILanguageModel

KEY = "sk-test-Secret+Key/0123456789"


def writing(text: Any, **more: Any) -> Behaviour:
    """A server that returns this text, with 11 tokens in and 7 out."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}
    body = {"choices": [choice], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}
    return lambda request: Answer(body=body)


def saying(status: int, message: str = "no", **more: Any) -> Behaviour:
    return lambda request: Answer(status=status, body={"error": {"message": message}}, **more)


Serve = Callable[..., tuple[EmbeddingServer, OpenAILanguageModel]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server with a script, and a model that uses it."""
    servers: list[EmbeddingServer] = []

    def start(*script: Behaviour, **options: Any) -> tuple[EmbeddingServer, OpenAILanguageModel]:
        server = EmbeddingServer(*script)
        servers.append(server)
        given = {"api_key": KEY, "base_url": server.url, "timeout_s": 5.0, **options}
        return server, OpenAILanguageModel(SummarizeOptions(provider="openai", **given))

    yield start
    for server in servers:
        server.stop()


def test_a_text_is_written_and_what_it_cost_is_told(serve: Serve) -> None:
    """System and text are two messages, sent with model, limit and key; text and tokens come back."""
    server, model = serve(writing("- User asked"), model="small/one")

    assert model.complete("Write.", "A turn \udcff", 99) == Completion("- User asked", 11, 7)

    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "small/one",
        "messages": [{"role": "system", "content": "Write."}, {"role": "user", "content": "A turn ?"}],
        "max_tokens": 99,
    }


def test_a_small_model_is_asked_unless_another_is_named(serve: Serve) -> None:
    """Without a model name the default model is used and reported."""
    server, model = serve(writing("x"))

    model.complete("s", "t", 9)

    assert server.requests[0].body["model"] == model.model == DEFAULT_MODEL


def test_a_server_that_calls_the_limit_otherwise_is_asked_its_way(serve: Serve) -> None:
    """A server that rejects one name of the limit gets the other, and from then on at once."""
    server, model = serve(saying(400, "Unsupported parameter: 'max_tokens'"), writing("a"), writing("b"))

    assert [model.complete("s", "t", 9).text for _ in range(2)] == ["a", "b"]
    limits = [{"max_tokens", "max_completion_tokens"} & set(request.body) for request in server.requests]
    assert limits == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]


def test_a_cut_answer_loses_its_last_line(serve: Serve) -> None:
    """A truncated completion loses its unfinished line."""
    _, model = serve(writing("- one\n- two is unfin", finish_reason="length"))

    assert model.complete("s", "t", 9).text == "- one"


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 503])
def test_a_refusal_is_not_an_answer(serve: Serve, status: int) -> None:
    """A server that refuses or fails is unavailable, and its message never shows the key."""
    _, model = serve(saying(status, f"bad key {KEY}"), timeout_s=0.6)

    with pytest.raises(ModelUnavailable) as raised:
        model.complete("s", "t", 9)

    assert KEY not in f"{raised.value.message}{raised.value.hint}"


@pytest.mark.slow
@pytest.mark.parametrize("after", ["0", formatdate(1_700_000_000, usegmt=True)])
def test_a_busy_server_is_asked_again(serve: Serve, after: str) -> None:
    """After 429 and 500 the request is repeated when Retry-After says so."""
    busy = saying(429, "slow down", headers={"Retry-After": after})
    server, model = serve(busy, saying(500, headers={"Retry-After": "0"}), writing("- done"))

    assert model.complete("s", "t", 9).text == "- done"
    assert len(server.requests) == 3


def test_a_server_that_wants_a_long_wait_is_given_up(serve: Serve) -> None:
    """A Retry-After beyond the time limit is not waited for."""
    server, model = serve(saying(429, headers={"Retry-After": "600"}))

    with pytest.raises(ModelUnavailable, match="429"):
        model.complete("s", "t", 9)

    assert len(server.requests) == 1


def test_an_answer_that_breaks_off_is_not_asked_for_twice(serve: Serve) -> None:
    """An incomplete reply may have been charged: it is a fault, and the request is not repeated."""
    server, model = serve(lambda request: Answer(raw=b'{"choices": [', promised=100))

    with pytest.raises(ModelFault, match="broke off"):
        model.complete("s", "t", 9)

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(raw=b"<html>hello</html>"),
        Answer(raw=b"[" * 100_000),
        Answer(body=[]),
        Answer(body={"choices": []}),
        Answer(body={"choices": [{"message": {"content": None, "refusal": "no"}}]}),
        Answer(body={"choices": [{"message": {"content": [1]}}]}),
        Answer(garbage=True),
    ],
)
def test_what_is_no_completion_is_a_fault(serve: Serve, answer: Answer) -> None:
    """A reply that is not JSON with a message is rejected."""
    _, model = serve(lambda request: answer)

    with pytest.raises(ModelFault):
        model.complete("s", "t", 9)


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "7"}, {"prompt_tokens": -1, "completion_tokens": True}])
def test_a_server_need_not_say_what_it_cost(serve: Serve, usage: object) -> None:
    """Missing or invalid usage counts as unknown."""
    _, model = serve(lambda request: Answer(body={"choices": [{"message": {"content": "x"}}], "usage": usage}))

    assert model.complete("s", "t", 9) == Completion("x", 0, 0)


@pytest.mark.parametrize("slow", [Answer(body={}, delay_s=2.0), Answer(raw=b"x" * 200, drip_s=0.05)])
def test_a_slow_server_is_given_up(serve: Serve, slow: Answer) -> None:
    """A late reply, or one byte by byte, does not exceed the time limit."""
    _, model = serve(lambda request: slow, timeout_s=0.3)

    with pytest.raises(ModelUnavailable, match=r"within 0\.3 s"):
        model.complete("s", "t", 9)


def test_no_key_is_needed_on_this_machine_only(serve: Serve) -> None:
    """Without a key only a server on loopback is used."""
    server, model = serve(writing("x"), api_key="")
    assert model.complete("s", "t", 9).text == "x"
    assert "authorization" not in server.requests[0].headers

    elsewhere = OpenAILanguageModel(SummarizeOptions(provider="openai", base_url="https://models.example/v1"))
    with pytest.raises(ModelUnavailable, match="no API key"):
        elsewhere.complete("s", "t", 9)


def test_the_address_may_come_from_the_environment(serve: Serve) -> None:
    """OPENAI_BASE_URL is used unless the settings have a base URL."""
    server, _ = serve(writing("here"))
    named, _ = serve(writing("there"))
    environment = {"OPENAI_BASE_URL": server.url}

    for url, said in (("", "here"), (named.url, "there")):
        model = open_language_model(SummarizeOptions(provider="openai", base_url=url), "claude", environment)
        assert model is not None
        assert model.complete("s", "t", 9).text == said


def test_an_unusable_address_or_provider_is_told() -> None:
    """A base URL with a password and an unknown provider are configuration errors."""
    with pytest.raises(ConfigError, match="language model base URL"):
        OpenAILanguageModel(SummarizeOptions(provider="openai", base_url="http://me:secret@host/v1"))
    with pytest.raises(ConfigError, match="unknown language model"):
        open_language_model(SummarizeOptions(provider="oracle"), "claude", {})


def test_a_server_that_is_not_there_fails_at_once() -> None:
    """A refused connection fails at once."""
    model = OpenAILanguageModel(SummarizeOptions(provider="openai", base_url="http://127.0.0.1:9/v1", api_key="k"))

    with pytest.raises(ModelError, match="cannot reach"):
        model.complete("s", "t", 9)
