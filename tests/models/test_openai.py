"""The OpenAI-compatible provider, against a real server on loopback."""

from __future__ import annotations

import base64
import gc
import gzip
import json
import socket
import struct
import time
import traceback
from typing import Any

import pytest
from tests.models.embedding_server import Answer, Behaviour, Request, numbers_of, well
from tests.models.vendors import VENDORS, Rig, unpacked

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.models.embed import open_embedder, resolve_embed_options

OPENAI = VENDORS["openai"]


def well_answer(text: str) -> dict[str, Any]:
    return {"data": [{"index": 0, "embedding": numbers_of(text)}]}


def saying(status: int, message: str = "no", **more: Any) -> Behaviour:
    return lambda request: Answer(status=status, body={"error": {"message": message, "code": "x"}}, **more)


def answering(*embeddings: Any, indices: list[Any] | None = None) -> Behaviour:
    def behave(request: Request) -> Answer:
        places = indices if indices is not None else list(range(len(embeddings)))
        items = [{"index": place, "embedding": item} for place, item in zip(places, embeddings, strict=True)]
        return Answer(body={"data": items})

    return behave


def test_a_connection_is_used_again(rig: Rig) -> None:
    """Consecutive requests use one connection."""
    server = rig.serve(well)
    embedder = rig.open(OPENAI, server)
    embedder.embed_documents(["one"])
    embedder.embed_query("two")
    embedder.embed_documents(["three"])
    assert len({request.connection for request in server.requests}) == 1


def test_an_empty_list_sends_no_request(rig: Rig) -> None:
    """An empty list sends no request."""
    server = rig.serve(well)
    assert rig.open(OPENAI, server).embed_documents([]).vectors == ()
    assert server.requests == []


def test_lists_of_numbers_are_taken_too(rig: Rig) -> None:
    """Numbers are accepted although base64 was requested."""
    embedder = rig.open(OPENAI, rig.serve(answering([1, 2.5], [3.0, -4.0])))
    assert [unpacked(vector) for vector in embedder.embed_documents(["a", "b"]).vectors] == [[1.0, 2.5], [3.0, -4.0]]


def test_a_server_that_refuses_base64_is_asked_for_numbers(rig: Rig) -> None:
    """A server that rejects base64 gets requests for numbers, and from then on at once."""
    server = rig.serve(saying(400, "unknown value for encoding_format"), well)
    embedder = rig.open(OPENAI, server)
    assert unpacked(embedder.embed_documents(["abc"]).vectors[0]) == numbers_of("abc")
    embedder.embed_documents(["abc"])
    assert [request.body["encoding_format"] for request in server.requests] == ["base64", "float", "float"]


def test_odd_texts_are_sent_so_that_servers_take_them(rig: Rig) -> None:
    """An empty text is sent as a blank, and a lone surrogate as a question mark."""
    server = rig.serve(well)
    assert len(rig.open(OPENAI, server).embed_documents(["", "a\udcff"]).vectors) == 2
    assert server.requests[0].body["input"] == [" ", "a?"]


def test_a_reply_that_was_packed_unasked_is_unpacked(rig: Rig) -> None:
    """A gzip reply is decompressed although it was not requested, and an incomplete one is reported."""
    body = gzip.compress(json.dumps(well_answer("abc")).encode())
    packed = {"Content-Encoding": "gzip"}
    server = rig.serve(
        lambda request: Answer(raw=body, headers=packed),
        lambda request: Answer(raw=body[:-9], headers=packed),
        lambda request: Answer(raw=b"{}", headers=packed),
    )
    embedder = rig.open(OPENAI, server)
    assert unpacked(embedder.embed_documents(["abc"]).vectors[0]) == numbers_of("abc")
    for message in ("incomplete gzip", "cannot be decompressed"):
        with pytest.raises(ModelFault, match=message):
            embedder.embed_query("q")
    assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}


def test_answers_in_another_order_are_put_in_ours(rig: Rig) -> None:
    """The `index` of an embedding decides which text it belongs to."""
    embedder = rig.open(OPENAI, rig.serve(answering([2.0], [0.0], [1.0], indices=[2, 0, 1])))
    assert [unpacked(vector) for vector in embedder.embed_documents(["a", "b", "c"]).vectors] == [[0.0], [1.0], [2.0]]


def test_answers_without_any_index_are_in_our_order(rig: Rig) -> None:
    """Without any `index` the reply's order is used."""
    embedder = rig.open(OPENAI, rig.serve(answering([1.0], [2.0], indices=[None, None])))
    assert [unpacked(vector) for vector in embedder.embed_documents(["a", "b"]).vectors] == [[1.0], [2.0]]


NAN = base64.b64encode(struct.pack("<2f", 1.0, float("nan"))).decode()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (answering([1.0], [1.0], indices=[0, 0]), "index"),
        (answering([1.0], [1.0], indices=[1, 2]), "index"),
        (answering([1.0], [1.0], indices=[0, None]), "index"),
        (answering([1.0], [1.0], indices=["0", "1"]), "index"),
        (answering([1.0], ""), "empty"),
        (answering([1.0], [None]), "32-bit numbers"),
        (answering([1.0], "!!!!"), "32-bit numbers"),
        (answering([1.0], base64.b64encode(b"12345").decode()), "32-bit numbers"),
        (answering([1.0, 1.0], [1.0, 1e300]), "not finite"),
        (answering(NAN, NAN), "not finite"),
        (lambda request: Answer(body={"data": None}), "without a list"),
        (lambda request: Answer(body={"data": [1, 2]}), "does not hold embeddings"),
    ],
)
def test_nonsense_is_a_fault_that_says_what_is_wrong(behaviour: Behaviour, message: str, rig: Rig) -> None:
    """A reply without one valid vector per text is rejected, and the message names the fault."""
    server = rig.serve(behaviour)
    with pytest.raises(ModelFault, match=message) as caught:
        rig.open(OPENAI, server).embed_documents(["a", "b"])
    assert "127.0.0.1" in caught.value.message
    assert len(server.requests) == (2 if message == "not finite" else 1)  # it may have been about one of the texts


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_other_refusals_are_faults_with_the_servers_words(status: int, rig: Rig) -> None:
    """A bad request is reported with the server's message and not repeated."""
    server = rig.serve(saying(status, "the model `x` does not exist"))
    with pytest.raises(ModelFault, match=f"HTTP {status}.*the model `x` does not exist"):
        rig.open(OPENAI, server).embed_query("q")
    assert len(server.requests) == 1


def test_an_empty_account_is_not_asked_again(rig: Rig) -> None:
    """A 429 for an exhausted quota is final."""
    server = rig.serve(lambda request: Answer(429, {"error": {"message": "pay", "code": "insufficient_quota"}}))
    with pytest.raises(ModelUnavailable, match="pay"):
        rig.open(OPENAI, server).embed_query("q")
    assert len(server.requests) == 1


def test_a_connection_that_went_stale_is_replaced(rig: Rig) -> None:
    """A kept connection that the server has closed is replaced without a failure."""
    server = rig.serve(lambda request: Answer(**{**vars(well(request)), "close_after": True}))
    embedder = rig.open(OPENAI, server)
    for _ in range(3):
        embedder.embed_query("q")
        time.sleep(0.05)
    assert len({request.connection for request in server.requests}) == 3


def test_a_server_that_is_not_there_is_named() -> None:
    """A refused connection makes the model unavailable, and the message names host and port."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    embedder = open_embedder(EmbedOptions(provider="openai", base_url=f"http://127.0.0.1:{port}/v1", timeout_s=60.0))
    with pytest.raises(ModelUnavailable, match=f"127.0.0.1:{port}"):
        embedder.embed_query("q")


def test_a_reply_that_is_not_http_is_a_fault(rig: Rig) -> None:
    """A reply that is not HTTP is reported as such."""
    with pytest.raises(ModelFault, match="sent an invalid HTTP reply"):
        rig.open(OPENAI, rig.serve(lambda request: Answer(garbage=True))).embed_query("q")


def test_a_local_server_needs_no_key(rig: Rig) -> None:
    """Without a key a server on loopback is used without one."""
    server = rig.serve(well)
    assert rig.open(OPENAI, server, api_key="").embed_query("q")
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("url", ["", "https://api.example.com/v1", "http://10.0.0.7:8080", "http://localhost.example"])
def test_a_server_elsewhere_needs_a_key(url: str) -> None:
    """Without a key no connection to another machine is opened, and the hint names the variable."""
    with pytest.raises(ModelUnavailable, match="no API key") as caught:
        open_embedder(EmbedOptions(provider="openai", base_url=url)).embed_query("q")
    assert caught.value.hint == "set OPENAI_API_KEY"


def test_key_and_url_come_from_the_environment_unless_set(rig: Rig) -> None:
    """The provider's variables are used unless the settings override them."""
    server = rig.serve(well)
    environment = {"OPENAI_API_KEY": "from-environment", "OPENAI_BASE_URL": server.url + "/"}
    embedder = open_embedder(resolve_embed_options(EmbedOptions(provider="openai"), environment))
    embedder.embed_query("q")
    embedder.close()
    embedder = open_embedder(
        resolve_embed_options(EmbedOptions(provider="openai", api_key="from-settings"), environment)
    )
    embedder.embed_query("q")
    embedder.close()
    assert [request.headers["authorization"][7:] for request in server.requests] == [
        "from-environment",
        "from-settings",
    ]
    assert {request.path for request in server.requests} == {"/v1/embeddings"}


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1",
        "host:80",
        "http://",
        "http://u:hunter2@host/v1",
        "http://host:x/",
        "http://host/?key=hunter2",
        "http://host/#hunter2",
    ],
)
def test_a_base_url_that_cannot_be_used_is_a_config_error(url: str) -> None:
    """A malformed base URL is rejected on opening and not repeated in the message, as it may contain a password."""
    with pytest.raises(ConfigError, match="base URL") as caught:
        open_embedder(EmbedOptions(provider="openai", base_url=url))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-with\nnewline", "sk-with-ünicode", "sk-\x00"])
def test_a_key_that_no_header_can_carry_is_not_shown(key: str, rig: Rig) -> None:
    """A key with invalid characters makes the model unavailable and is not shown."""
    server = rig.serve(well)
    with pytest.raises(ModelUnavailable, match="invalid characters") as caught:
        rig.open(OPENAI, server, api_key=key).embed_query("q")
    assert key not in "".join(traceback.format_exception(caught.value))
    assert server.requests == []


@pytest.mark.slow
def test_closing_leaves_no_socket_open(rig: Rig) -> None:
    """After close, which may be called twice, no connection is left."""
    embedder = rig.open(OPENAI, rig.serve(well))
    embedder.embed_query("q")
    embedder.close()
    embedder.close()
    del embedder
    gc.collect()  # a socket left open would warn here, and warnings are errors
    assert not [get_object for get_object in gc.get_objects() if type(get_object).__name__ == "HTTPConnection"]
