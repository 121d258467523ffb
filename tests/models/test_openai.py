"""The OpenAI-compatible provider, against a real server on loopback."""

from __future__ import annotations

import base64
import gc
import gzip
import json
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import pytest
from tests.models.embedding_server import Answer, Behaviour, EmbeddingServer, Request, numbers_of, well

from lorelog.core.errors import ConfigError, ModelError, ModelFault, ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import Embedder
from lorelog.models.embed import open_embedder, resolve_embed_options

KEY = "sk-test-Secret+Key/0123456789"


class Rig:
    """Starts servers and embedders for a test, and stops them after it."""

    def __init__(self) -> None:
        self._stop: list[Callable[[], None]] = []

    def serve(self, *script: Behaviour) -> EmbeddingServer:
        server = EmbeddingServer(*script)
        self._stop.append(server.stop)
        return server

    def open(self, server: EmbeddingServer, **options: Any) -> Embedder:
        given = {"api_key": KEY, "base_url": server.url, "timeout_s": 10.0, **options}
        embedder = open_embedder(EmbedOptions(provider="openai", **given))
        self._stop.insert(0, embedder.close)
        return embedder

    def stop(self) -> None:
        for stop in self._stop:
            stop()


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.stop()


def unpacked(vector: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


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


def test_texts_are_embedded_as_base64_in_batches(rig: Rig) -> None:
    """Batches have the configured size, order is kept, and tokens are summed."""
    server = rig.serve()
    texts = ["one", "two!", "three", "4", "fünf"]
    reply = rig.open(server, batch_size=2, model="some/model").embed_documents(texts)
    assert [unpacked(vector) for vector in reply.vectors] == [numbers_of(text) for text in texts]
    assert (reply.tokens, reply.truncated) == (21, 0)
    asked = [request.body["input"] for request in server.requests]
    assert asked[0] == texts[:2]  # alone; the others may be under way at once
    assert sorted(asked) == sorted([texts[:2], texts[2:4], texts[4:]])
    assert {request.body["model"] for request in server.requests} == {"some/model"}
    assert {request.body["encoding_format"] for request in server.requests} == {"base64"}
    assert {request.path for request in server.requests} == {"/v1/embeddings"}
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}


def test_a_connection_is_used_again(rig: Rig) -> None:
    """Consecutive requests use one connection."""
    server = rig.serve()
    embedder = rig.open(server)
    embedder.embed_documents(["one"])
    embedder.embed_query("two")
    embedder.embed_documents(["three"])
    assert len({request.connection for request in server.requests}) == 1


def test_a_query_comes_back_at_unit_length(rig: Rig) -> None:
    """A query's vector is normalized and keeps its direction; zeros stay zeros."""
    embedder = rig.open(rig.serve(answering([3.0, 4.0]), answering([0.0, 0.0])))
    assert unpacked(embedder.embed_query("q")) == pytest.approx([0.6, 0.8])
    assert unpacked(embedder.embed_query("q")) == [0.0, 0.0]


def test_nothing_to_embed_asks_nobody(rig: Rig) -> None:
    """An empty list sends no request."""
    server = rig.serve()
    assert rig.open(server).embed_documents([]).vectors == ()
    assert server.requests == []


def test_lists_of_numbers_are_taken_too(rig: Rig) -> None:
    """Numbers are accepted although base64 was requested."""
    embedder = rig.open(rig.serve(answering([1, 2.5], [3.0, -4.0])))
    assert [unpacked(vector) for vector in embedder.embed_documents(["a", "b"]).vectors] == [[1.0, 2.5], [3.0, -4.0]]


def test_a_server_that_refuses_base64_is_asked_for_numbers(rig: Rig) -> None:
    """A server that rejects base64 gets requests for numbers, and from then on at once."""
    server = rig.serve(saying(400, "unknown value for encoding_format"), well)
    embedder = rig.open(server)
    assert unpacked(embedder.embed_documents(["abc"]).vectors[0]) == numbers_of("abc")
    embedder.embed_documents(["abc"])
    assert [request.body["encoding_format"] for request in server.requests] == ["base64", "float", "float"]


def test_odd_texts_are_sent_so_that_servers_take_them(rig: Rig) -> None:
    """An empty text is sent as a blank, and a lone surrogate as a question mark."""
    server = rig.serve()
    assert len(rig.open(server).embed_documents(["", "a\udcff"]).vectors) == 2
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
    embedder = rig.open(server)
    assert unpacked(embedder.embed_documents(["abc"]).vectors[0]) == numbers_of("abc")
    for message in ("incomplete gzip", "cannot be decompressed"):
        with pytest.raises(ModelFault, match=message):
            embedder.embed_query("q")
    assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}


def test_answers_in_another_order_are_put_in_ours(rig: Rig) -> None:
    """The `index` of an embedding decides which text it belongs to."""
    embedder = rig.open(rig.serve(answering([2.0], [0.0], [1.0], indices=[2, 0, 1])))
    assert [unpacked(vector) for vector in embedder.embed_documents(["a", "b", "c"]).vectors] == [[0.0], [1.0], [2.0]]


def test_answers_without_any_index_are_in_our_order(rig: Rig) -> None:
    """Without any `index` the reply's order is used."""
    embedder = rig.open(rig.serve(answering([1.0], [2.0], indices=[None, None])))
    assert [unpacked(vector) for vector in embedder.embed_documents(["a", "b"]).vectors] == [[1.0], [2.0]]


NAN = base64.b64encode(struct.pack("<2f", 1.0, float("nan"))).decode()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (answering([1.0]), "1 embeddings for 2 texts"),
        (answering([1.0], [1.0], [1.0]), "3 embeddings for 2 texts"),
        (answering([1.0], [1.0], indices=[0, 0]), "index"),
        (answering([1.0], [1.0], indices=[1, 2]), "index"),
        (answering([1.0], [1.0], indices=[0, None]), "index"),
        (answering([1.0], [1.0], indices=["0", "1"]), "index"),
        (answering([1.0], [1.0, 2.0]), "different dimensions"),
        (answering([1.0], []), "empty"),
        (answering([1.0], ""), "empty"),
        (answering([1.0], ["a"]), "32-bit numbers"),
        (answering([1.0], [None]), "32-bit numbers"),
        (answering([1.0], "!!!!"), "32-bit numbers"),
        (answering([1.0], base64.b64encode(b"12345").decode()), "32-bit numbers"),
        (answering([1.0], None), "neither a list nor base64"),
        (answering([1.0, 1.0], [1.0, float("nan")]), "not finite"),
        (answering([1.0, 1.0], [1.0, 1e300]), "not finite"),
        (answering([1.0, 1.0], [float("inf"), float("-inf")]), "not finite"),
        (answering(NAN, NAN), "not finite"),
        (lambda request: Answer(body=[]), "without a list"),
        (lambda request: Answer(body={"data": None}), "without a list"),
        (lambda request: Answer(body={"data": [1, 2]}), "does not hold embeddings"),
        (lambda request: Answer(raw=b'{"data": [{"ind'), "not JSON"),
        (lambda request: Answer(raw=b"\xff\xfe"), "not JSON"),
        (lambda request: Answer(raw=b""), "not JSON"),
    ],
)
def test_nonsense_is_a_fault_that_says_what_is_wrong(behaviour: Behaviour, message: str, rig: Rig) -> None:
    """A reply without one valid vector per text is rejected, and the message names the fault."""
    server = rig.serve(behaviour)
    with pytest.raises(ModelFault, match=message) as caught:
        rig.open(server).embed_documents(["a", "b"])
    assert "127.0.0.1" in caught.value.message
    assert len(server.requests) == (2 if message == "not finite" else 1)  # it may have been about one of the texts


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_variable_and_not_the_key(status: int, rig: Rig) -> None:
    """A wrong key makes the model unavailable at once; the hint names the variable to check."""
    server = rig.serve(saying(status, f"Incorrect API key provided: {KEY}\x1b[31m\n."))
    with pytest.raises(ModelUnavailable, match=str(status)) as caught:
        rig.open(server).embed_query("q")
    assert "OPENAI_API_KEY" in caught.value.hint
    assert caught.value.message.isprintable()
    assert "[key]" in caught.value.message
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_other_refusals_are_faults_with_the_servers_words(status: int, rig: Rig) -> None:
    """A bad request is reported with the server's message and not repeated."""
    server = rig.serve(saying(status, "the model `x` does not exist"))
    with pytest.raises(ModelFault, match=f"HTTP {status}.*the model `x` does not exist"):
        rig.open(server).embed_query("q")
    assert len(server.requests) == 1


@pytest.mark.slow
def test_a_limit_is_waited_out_as_long_as_the_server_says(rig: Rig) -> None:
    """After a 429 with Retry-After the request is sent again once that time has passed."""
    server = rig.serve(saying(429, headers={"Retry-After": "0.7"}), well)
    began = time.monotonic()
    assert rig.open(server).embed_query("q")
    assert time.monotonic() - began >= 0.7
    assert len(server.requests) == 2


@pytest.mark.slow
@pytest.mark.parametrize("header", ["soon", formatdate(0, usegmt=True), "-3"])
def test_a_retry_after_that_makes_no_sense_stops_nothing(header: str, rig: Rig) -> None:
    """A malformed Retry-After, or one in the past, still leads to a retry."""
    server = rig.serve(saying(429, headers={"Retry-After": header}), well)
    assert rig.open(server).embed_query("q")


def test_a_wait_beyond_the_time_limit_is_not_begun(rig: Rig) -> None:
    """A Retry-After beyond the time limit makes the model unavailable at once."""
    server = rig.serve(saying(429, "slow down", headers={"Retry-After": "3600"}))
    with pytest.raises(ModelUnavailable, match=r"429.*slow down"):
        rig.open(server).embed_query("q")
    assert len(server.requests) == 1


def test_an_empty_account_is_not_asked_again(rig: Rig) -> None:
    """A 429 for an exhausted quota is final."""
    server = rig.serve(lambda request: Answer(429, {"error": {"message": "pay", "code": "insufficient_quota"}}))
    with pytest.raises(ModelUnavailable, match="pay"):
        rig.open(server).embed_query("q")
    assert len(server.requests) == 1


@pytest.mark.slow
def test_passing_failures_are_survived(rig: Rig) -> None:
    """A 500, a 503, a closed connection and an incomplete reply are each retried."""
    server = rig.serve(
        saying(500, headers={"Retry-After": "0"}),
        saying(503, headers={"Retry-After": "0"}),
        lambda request: Answer(hang_up=True),
        lambda request: Answer(raw=b'{"data": [', promised=100),
        well,
    )
    assert unpacked(rig.open(server).embed_documents(["abc"]).vectors[0]) == numbers_of("abc")
    assert len(server.requests) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (saying(500, "out of memory"), "HTTP 500.*out of memory"),
        (lambda request: Answer(hang_up=True), "keeps breaking off"),
        (lambda request: Answer(raw=b'{"data": [', promised=100), "100 bytes of the reply are missing"),
    ],
)
def test_lasting_failures_end(behaviour: Behaviour, message: str, rig: Rig) -> None:
    """Repeated failures make the model unavailable, and a pause beyond the time limit is not started."""
    server = rig.serve(behaviour)
    with pytest.raises(ModelUnavailable, match=message):
        rig.open(server, timeout_s=1.4).embed_query("q")
    assert len(server.requests) == 2


@pytest.mark.parametrize("answer", [Answer(body={}, delay_s=30), Answer(raw=b"x" * 10_000, drip_s=0.01)])
def test_a_server_that_is_too_slow_is_left(answer: Answer, rig: Rig) -> None:
    """Neither a silent server nor one that replies byte by byte exceeds the time limit."""
    server = rig.serve(lambda request: answer)
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.4 s"):
        rig.open(server, timeout_s=0.4).embed_query("q")
    assert len(server.requests) == 1


def test_a_connection_that_went_stale_is_replaced(rig: Rig) -> None:
    """A kept connection that the server has closed is replaced without a failure."""
    server = rig.serve(lambda request: Answer(**{**vars(well(request)), "close_after": True}))
    embedder = rig.open(server)
    for _ in range(3):
        embedder.embed_query("q")
        time.sleep(0.05)
    assert len({request.connection for request in server.requests}) == 3


def test_threads_do_not_share_a_connection_at_the_same_time(rig: Rig) -> None:
    """Several threads may use one embedder, and each gets its own results."""
    embedder = rig.open(rig.serve(lambda request: Answer(**{**vars(well(request)), "delay_s": 0.02})))
    wrong: list[str] = []

    def work(name: str) -> None:
        for number in range(5):
            text = name * (number + 1)
            if unpacked(embedder.embed_documents([text]).vectors[0]) != numbers_of(text):
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_server_that_is_not_there_is_named() -> None:
    """A refused connection makes the model unavailable, and the message names host and port."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    embedder = open_embedder(EmbedOptions(provider="openai", base_url=f"http://127.0.0.1:{port}/v1", timeout_s=60.0))
    with pytest.raises(ModelUnavailable, match=f"127.0.0.1:{port}"):
        embedder.embed_query("q")


def test_something_that_is_no_http_server_is_a_fault(rig: Rig) -> None:
    """A reply that is not HTTP is reported as such."""
    with pytest.raises(ModelFault, match="sent an invalid HTTP reply"):
        rig.open(rig.serve(lambda request: Answer(garbage=True))).embed_query("q")


def test_a_local_server_needs_no_key(rig: Rig) -> None:
    """Without a key a server on loopback is used without one."""
    server = rig.serve()
    assert rig.open(server, api_key="").embed_query("q")
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("url", ["", "https://api.example.com/v1", "http://10.0.0.7:8080", "http://localhost.example"])
def test_a_server_elsewhere_needs_a_key(url: str) -> None:
    """Without a key no connection to another machine is opened, and the hint names the variable."""
    with pytest.raises(ModelUnavailable, match="no API key") as caught:
        open_embedder(EmbedOptions(provider="openai", base_url=url)).embed_query("q")
    assert caught.value.hint == "set OPENAI_API_KEY"


def test_key_and_url_come_from_the_environment_unless_set(rig: Rig) -> None:
    """The provider's variables are used unless the settings override them."""
    server = rig.serve()
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
    server = rig.serve()
    with pytest.raises(ModelUnavailable, match="invalid characters") as caught:
        rig.open(server, api_key=key).embed_query("q")
    assert key not in "".join(traceback.format_exception(caught.value))
    assert server.requests == []


@pytest.mark.parametrize(
    "behaviour",
    [
        saying(401, f"bad key {KEY}"),
        saying(400, f"bad request with Bearer {KEY}"),
        saying(500, f"crash: Authorization: Bearer {KEY}"),
        saying(429, KEY, headers={"Retry-After": "99"}),
        lambda request: Answer(raw=f"<html>{KEY}</html>".encode(), status=404),
        lambda request: Answer(raw=KEY.encode()),
        lambda request: Answer(hang_up=True),
        lambda request: Answer(garbage=True),
    ],
)
def test_the_key_appears_in_no_error_and_no_repr(behaviour: Behaviour, rig: Rig) -> None:
    """The key is in no message, hint, traceback or repr, even if the server repeats it."""
    embedder = rig.open(rig.serve(behaviour), timeout_s=0.5)
    with pytest.raises(ModelError) as caught:
        embedder.embed_query("q")
    shown = "".join(traceback.format_exception(caught.value)) + caught.value.hint + repr(caught.value) + repr(embedder)
    assert KEY not in shown + repr(EmbedOptions(api_key=KEY))


@pytest.mark.slow
def test_closing_leaves_no_socket_open(rig: Rig) -> None:
    """After close, which may be called twice, no connection is left."""
    embedder = rig.open(rig.serve())
    embedder.embed_query("q")
    embedder.close()
    embedder.close()
    del embedder
    gc.collect()  # a socket left open would warn here, and warnings are errors
    assert not [get_object for get_object in gc.get_objects() if type(get_object).__name__ == "HTTPConnection"]
