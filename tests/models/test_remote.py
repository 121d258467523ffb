"""Remote embedders against a loopback server: what each vendor's server answers, and the transport once."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import threading
import time
import traceback
from email.utils import formatdate
from typing import Any

import pytest
from tests.models.embedding_server import Answer, Behaviour, Request, numbers_of, well
from tests.models.vendors import KEY, VENDORS, Rig, Vendor, each_vendor, packed, unpacked

from lorelog.core.errors import ConfigError, ModelError, ModelFault, ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import TokenReportingEmbedder
from lorelog.models.embed import PROVIDERS, open_embedder, resolve_embed_options

PLAIN = {"query_prefix": "", "document_prefix": ""}
OPENAI, GOOGLE = VENDORS["openai"], VENDORS["google"]
saying = OPENAI.saying


def answering(*embeddings: Any, indices: list[Any] | None = None) -> Behaviour:
    places = indices if indices is not None else list(range(len(embeddings)))
    items = [{"index": place, "embedding": item} for place, item in zip(places, embeddings, strict=True)]
    return lambda request: Answer(body={"data": items})


@pytest.fixture
def vendor() -> Vendor:
    """The vendor for tests of the transport, which is the same for all; `each_vendor` overrides it."""
    return OPENAI


def test_every_remote_provider_is_tested_here() -> None:
    """Every provider with a key variable has a wire format in these tests."""
    assert set(VENDORS) == {name for name, provider in PROVIDERS.items() if provider.key_variable}


# -- replies ---------------------------------------------------------------------------------------------------------


@each_vendor
def test_texts_come_back_in_order(vendor: Vendor, rig: Rig) -> None:
    """Vectors keep the order of the texts, for any number of batches and any order of replies."""

    def slower_for_early_ones(request: Request) -> Answer:
        answer = vendor.well(request)
        answer.delay_s = 0.0 if "y" in vendor.texts(request)[0] else 0.05
        return answer

    server = rig.serve(slower_for_early_ones)
    texts = [letter * (number + 1) for number, letter in enumerate("abcdefgxy")]
    reply = rig.open(vendor, server, batch_size=2, **PLAIN).embed_documents(texts)
    assert [unpacked(vector) for vector in reply.vectors] == [numbers_of(text) for text in texts]
    assert (reply.tokens, reply.truncated) == (35 if vendor.tokens else 0, 0)
    assert sorted(len(vendor.texts(request)) for request in server.requests) == [1, 2, 2, 2, 2]


@each_vendor
def test_the_server_the_path_and_the_key_are_those_chosen(vendor: Vendor, rig: Rig) -> None:
    """Requests go to the vendor's path below base_url, with the key of the vendor's variable in the vendor's header only."""
    server = rig.serve(vendor.well)
    from_variable = resolve_embed_options(
        EmbedOptions(provider=vendor.name), {PROVIDERS[vendor.name].key_variable: KEY}
    )
    embedder = rig.open(vendor, server, api_key=from_variable.api_key)
    embedder.embed_documents(["a"])
    embedder.embed_query("q")
    assert {request.path for request in server.requests} == {vendor.path}
    for request in server.requests:
        assert request.headers[vendor.key_header] == vendor.key_value
        others = {name: value for name, value in request.headers.items() if name != vendor.key_header}
        assert KEY not in f"{others} {request.path} {request.body}"


@each_vendor
def test_a_question_says_what_it_costs(vendor: Vendor, rig: Rig) -> None:
    """The tokens of a query are reported if the vendor reports them."""
    embedder = rig.open(vendor, rig.serve(vendor.well))
    assert isinstance(embedder, TokenReportingEmbedder)
    question = embedder.embed_query_with_usage("q")
    assert question.vectors == (embedder.embed_query("q"),)
    assert question.tokens == (7 if vendor.tokens else 0)


def test_the_dimension_is_learned_from_the_first_answer(vendor: Vendor, rig: Rig) -> None:
    """The dimension is taken from the first reply, and the first batch is sent alone."""
    server = rig.serve(vendor.well)
    embedder = rig.open(vendor, server, batch_size=1)
    assert (embedder.dimension, server.requests) == (0, [])  # type: ignore[attr-defined]
    embedder.embed_documents(["a"])
    assert (embedder.dimension, len(server.requests)) == (3, 1)  # type: ignore[attr-defined]


def test_batches_are_under_way_at_once(vendor: Vendor, rig: Rig) -> None:
    """After the first batch several are in flight at the same time."""
    parallel = PROVIDERS[vendor.name].parallel_batches
    assert parallel > 1
    together = threading.Barrier(parallel, timeout=20)

    def wait_for_others(request: Request) -> Answer:
        together.wait()
        return vendor.well(request)

    server = rig.serve(vendor.well, wait_for_others)
    texts = [f"text {number}" for number in range(1 + parallel)]
    reply = rig.open(vendor, server, batch_size=1, **PLAIN).embed_documents(texts)
    assert [unpacked(vector) for vector in reply.vectors] == [numbers_of(text) for text in texts]


# -- refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "status"), [*((name, 401) for name in VENDORS), ("openai", 403)])
def test_a_refused_key_is_told_once_and_names_the_variable(name: str, status: int, rig: Rig) -> None:
    """A wrong key is reported once for all batches, and the hint names the variable."""
    vendor = VENDORS[name]
    server = rig.serve(vendor.saying(status, f"Incorrect API key provided: {KEY}\x1b[31m\n."))
    with pytest.raises(ModelUnavailable, match=f"refused the API key.*{status}.*Incorrect") as caught:
        rig.open(vendor, server, batch_size=1).embed_documents(["a", "b", "c"])
    assert PROVIDERS[vendor.name].key_variable in caught.value.hint
    assert caught.value.message.isprintable()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *((name, "") for name in VENDORS if name != "ollama"),
        *(
            ("openai", url)
            for url in ("https://api.example.com/v1", "http://10.0.0.7:8080", "http://localhost.example")
        ),
    ],
)
def test_a_vendor_is_not_asked_without_a_key(name: str, url: str) -> None:
    """Without a key no connection to another machine is opened, and the hint names the variable to set."""
    with pytest.raises(ModelUnavailable, match="no API key for") as caught:
        open_embedder(EmbedOptions(provider=name, base_url=url)).embed_query("q")
    assert caught.value.hint == f"set {PROVIDERS[name].key_variable}"


@pytest.mark.slow
def test_a_limit_is_waited_out_as_long_as_the_server_says(vendor: Vendor, rig: Rig) -> None:
    """After a 429 with Retry-After the request is sent again once that time has passed."""
    server = rig.serve(vendor.saying(429, headers={"Retry-After": "0.6"}), vendor.well)
    began = time.monotonic()
    assert rig.open(vendor, server).embed_query("q")
    assert time.monotonic() - began >= 0.6
    assert len(server.requests) == 2


@pytest.mark.slow
def test_passing_failures_are_survived(vendor: Vendor, rig: Rig) -> None:
    """A 500, a 503, a closed connection and an incomplete reply are each retried."""
    server = rig.serve(
        vendor.saying(500, headers={"Retry-After": "0"}),
        vendor.saying(503, headers={"Retry-After": "0"}),
        lambda request: Answer(hang_up=True),
        lambda request: Answer(raw=b'{"data": [', promised=100),
        vendor.well,
    )
    assert unpacked(rig.open(vendor, server, **PLAIN).embed_documents(["abc"]).vectors[0]) == numbers_of("abc")
    assert len(server.requests) == 5


def test_a_silent_server_keeps_one_search_waiting_and_not_the_next(vendor: Vendor, rig: Rig) -> None:
    """After a query times out, later queries fail at once until documents were embedded."""
    server = rig.serve(lambda request: Answer(body={}, delay_s=30), vendor.well)
    embedder = rig.open(vendor, server, timeout_s=0.4)
    for message in ("did not answer within", "timed out; queries skip it", "timed out; queries skip it"):
        with pytest.raises(ModelUnavailable, match=message):
            embedder.embed_query("q")
    assert len(server.requests) == 1
    embedder.embed_documents(["a"])
    assert embedder.embed_query("q")


WRONG_KEY = {
    "error": {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
    }
}
EXHAUSTED = {"error": {"message": "pay", "code": "insufficient_quota"}}
FINAL: dict[str, tuple[Behaviour, type[ModelError], str]] = {
    "Google's wrong key": (lambda _: Answer(400, WRONG_KEY), ModelUnavailable, "refused the API key"),
    "a long wait": (
        saying(429, "slow down", headers={"Retry-After": formatdate(time.time() + 3600)}),
        ModelUnavailable,
        r"429.*slow down",
    ),
    "an empty account": (lambda _: Answer(429, EXHAUSTED), ModelUnavailable, "pay"),
    "silence": (lambda _: Answer(body={}, delay_s=30), ModelUnavailable, r"did not answer within 0\.4 s"),
    "dripping": (lambda _: Answer(raw=b"x" * 10_000, drip_s=0.01), ModelUnavailable, r"did not answer within 0\.4 s"),
    "no HTTP": (lambda _: Answer(garbage=True), ModelFault, "sent an invalid HTTP reply"),
    "half a gzip": (
        lambda _: Answer(raw=gzip.compress(b"{}")[:-9], headers={"Content-Encoding": "gzip"}),
        ModelFault,
        "incomplete gzip",
    ),
    "no gzip": (
        lambda _: Answer(raw=b"{}", headers={"Content-Encoding": "gzip"}),
        ModelFault,
        "cannot be decompressed",
    ),
    **{
        f"HTTP {status}": (saying(status, "the model `x` does not exist"), ModelFault, f"HTTP {status}.*`x` does not")
        for status in (400, 404, 413, 422)
    },
}


@pytest.mark.parametrize(("behaviour", "error", "message"), FINAL.values(), ids=FINAL)
def test_a_final_failure_is_not_repeated(behaviour: Behaviour, error: type[ModelError], message: str, rig: Rig) -> None:
    """A failure that a retry cannot cure, or would wait for too long, is reported at once, in the server's words."""
    server = rig.serve(behaviour)
    with pytest.raises(error, match=message) as caught:
        rig.open(OPENAI, server, timeout_s=0.4).embed_query("q")
    assert caught.value.hint == "check OPENAI_API_KEY" or "refused the API key" not in message
    assert len(server.requests) == 1


LASTING: dict[str, tuple[Behaviour, str]] = {
    "500": (saying(500, "out of memory"), "failed.*HTTP 500.*out of memory"),
    "hang up": (lambda _: Answer(hang_up=True), "breaking off"),
    "truncated": (lambda _: Answer(raw=b'{"data": [', promised=100), "100 bytes of the reply"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("behaviour", "message"), LASTING.values(), ids=LASTING)
def test_lasting_failures_end(behaviour: Behaviour, message: str, rig: Rig) -> None:
    """Repeated failures make the model unavailable within the time limit."""
    server = rig.serve(behaviour)
    with pytest.raises(ModelUnavailable, match=message):
        rig.open(OPENAI, server, timeout_s=1.4).embed_documents(["a"])
    assert len(server.requests) == 2


# -- malformed replies -------------------------------------------------------------------------------------------------------------


NAN = packed([1.0, float("nan")])
MALFORMED: list[tuple[Behaviour, str]] = [
    (answering([1.0], [1.0], indices=[0, 0]), "index"),
    (answering([1.0], [1.0], indices=[1, 2]), "index"),
    (answering([1.0], [1.0], indices=[0, None]), "index"),
    (answering([1.0], [1.0], indices=["0", "1"]), "index"),
    (answering([1.0], ""), "empty"),
    (answering([1.0], "!!!!"), "32-bit numbers"),
    (answering([1.0], base64.b64encode(b"12345").decode()), "32-bit numbers"),
    (answering([1.0, 1.0], [1.0, 1e300]), "not finite"),
    (answering(NAN, NAN), "not finite"),
    (lambda request: Answer(body={"data": None}), "without a list"),
    (lambda request: Answer(body={"data": [1, 2]}), "does not hold embeddings"),
    *(
        (lambda request, raw=raw: Answer(raw=raw), r"not JSON|without a list")
        for raw in (b'{"data": [{"ind', b"\xff\xfe", b"", b"<html>", b"[]", b'"x"', b"{}", b"[" * 50_000)
    ),
]
MALFORMED_ROWS: list[tuple[list[Any], str]] = [
    ([[1.0, 1.0, 1.0]], "1 embeddings for 2 texts"),
    ([[1.0, 1.0, 1.0]] * 3, "3 embeddings for 2 texts"),
    ([[1.0, 1.0, 1.0], [1.0, float("nan"), 1.0]], "not finite"),
    ([[1.0, 1.0, 1.0], [1.0, float("inf"), 1.0]], "not finite"),
    ([[1.0, 1.0, 1.0], [1.0, 1.0]], "dimensions"),
    ([[1.0, 1.0, 1.0], []], "empty"),
    ([[1.0, 1.0, 1.0], None], "neither a list nor base64"),
    ([[1.0, 1.0, 1.0], ["a"]], "32-bit numbers"),
]
BY_VENDOR = [
    (VENDORS[name], VENDORS[name].answering(*rows), message)
    for name in ("openai", "voyage", "google")  # numbers, base64, and requested dimensions
    for rows, message in MALFORMED_ROWS
]


@pytest.mark.parametrize(
    ("vendor", "behaviour", "message"), [*BY_VENDOR, *((OPENAI, *row) for row in MALFORMED)], ids=lambda _: ""
)
def test_a_malformed_reply_is_a_fault(vendor: Vendor, behaviour: Behaviour, message: str, rig: Rig) -> None:
    """A reply without one valid vector per text is rejected, and the message names the fault."""
    server = rig.serve(behaviour)
    with pytest.raises(ModelFault, match=message) as caught:
        rig.open(vendor, server).embed_documents(["a", "b"])
    assert "127.0.0.1" in caught.value.message
    assert len(server.requests) == (2 if message == "not finite" else 1)  # it may have been about one of the texts


def test_a_later_answer_of_another_dimension_is_refused(vendor: Vendor, rig: Rig) -> None:
    """After the first reply, vectors of another dimension are rejected, for documents and queries."""
    server = rig.serve(vendor.answering([1.0, 2.0, 3.0]), vendor.answering([1.0, 2.0]))
    embedder = rig.open(vendor, server)
    embedder.embed_documents(["a"])
    with pytest.raises(ModelFault, match="dimensions"):
        embedder.embed_documents(["b"])
    with pytest.raises(ModelFault, match="dimensions"):
        embedder.embed_query("q")


@each_vendor
def test_an_error_that_passes_for_an_answer_is_told(vendor: Vendor, rig: Rig) -> None:
    """A 200 with an error instead of vectors is reported with the server's message, without the key."""
    server = rig.serve(lambda request: Answer(body=vendor.refusal(200, f"the quota of {KEY} is used up")))
    with pytest.raises(ModelFault, match=r"without a list of embeddings: the quota of \[key\] is used up"):
        rig.open(vendor, server).embed_query("q")


def test_a_redirect_is_not_followed(vendor: Vendor, rig: Rig) -> None:
    """A redirect is not followed, so no other server sees a text or a key."""
    other = rig.serve(vendor.well)
    for status in (301, 302, 307, 308):
        server = rig.serve(vendor.saying(status, headers={"Location": f"{other.url}/embeddings"}))
        with pytest.raises(ModelFault, match=f"redirects elsewhere.*{status}") as caught:
            rig.open(vendor, server).embed_query("q")
        assert "base URL" in caught.value.hint
        assert len(server.requests) == 1
    assert other.requests == []


# -- partial failures ------------------------------------------------------------------------------------------------


def test_what_was_made_before_a_failure_is_handed_over(vendor: Vendor, rig: Rig) -> None:
    """If one of several batches fails, the error carries the vectors and tokens of the others."""
    served: list[str] = []

    def fail_for_one(request: Request) -> Answer:
        texts = vendor.texts(request)
        if "d" in texts[0]:
            return vendor.saying(401)(request)
        served.extend(texts)
        return Answer(**{**vars(vendor.well(request)), "delay_s": 0.2})  # so that some are under way meanwhile

    texts = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]
    with pytest.raises(ModelUnavailable) as caught:
        rig.open(vendor, rig.serve(fail_for_one), batch_size=1, **PLAIN).embed_documents(texts)
    done = {texts[place]: unpacked(vector) for place, vector in caught.value.done.items()}
    assert done == {text: numbers_of(text) for text in served}
    assert {"a", "bb", "ccc"} <= set(served)
    assert caught.value.tokens == (7 * len(served) if vendor.tokens else 0)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["400", "NaN"])
@pytest.mark.parametrize("bad", [{0}, {5}, {0, 1}, {2, 6}])
def test_a_text_that_is_refused_does_not_keep_the_others_back(
    vendor: Vendor, way: str, bad: set[int], rig: Rig
) -> None:
    """Texts that a server rejects are listed with the reason, and all others get their vectors."""

    def picky(request: Request) -> Answer:
        texts = vendor.texts(request)
        if not any(text.startswith("bad") for text in texts):
            return vendor.well(request)
        if way == "400":
            return vendor.saying(400, "this input is not allowed")(request)
        rows = [[float("nan")] * 3 if text.startswith("bad") else numbers_of(text) for text in texts]
        return Answer(body=vendor.reply(rows, 7))

    texts = [("bad " if place in bad else "good ") + str(place) for place in range(8)]
    reply = rig.open(vendor, rig.serve(picky), **PLAIN).embed_documents(texts)
    assert set(reply.refused) == bad
    assert all(("not allowed" if way == "400" else "not finite") in why for why in reply.refused.values())
    for place, text in enumerate(texts):
        assert place in bad or unpacked(reply.vectors[place]) == numbers_of(text)


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
def test_a_server_that_refuses_all_texts_is_found_out_soon(vendor: Vendor, known: object, rig: Rig) -> None:
    """If a server rejects every text, few requests are sent before the error is raised."""
    server = rig.serve(*[vendor.well] * bool(known), vendor.saying(400, "no such model"))
    embedder = rig.open(vendor, server)
    if known:
        embedder.embed_documents(["a"])
    with pytest.raises(ModelFault, match="no such model"):
        embedder.embed_documents([f"text {number}" for number in range(64)])
    assert len(server.requests) < 20


def test_a_text_that_ollama_has_no_numbers_for_is_not_tried_again_and_again(rig: Rig) -> None:
    """Ollama's 500 for a NaN concerns one text: it is not retried, and the others get their vectors."""
    vendor = VENDORS["ollama"]

    def broken(request: Request) -> Answer:
        if "bad" in vendor.texts(request):
            return vendor.saying(500, "failed to encode response: json: unsupported value: NaN")(request)
        return vendor.well(request)

    server = rig.serve(broken)
    reply = rig.open(vendor, server, **PLAIN).embed_documents(["a", "bad", "c"])
    assert list(reply.refused) == [1]
    assert len(server.requests) < 6


# -- limits -----------------------------------------------------------------------------------------------------

TOO_MUCH = {
    "openai": "Requested 416735 tokens, max 300000 tokens per request",
    "google": "at most 100 requests can be in one batch",
    "voyage": "The max allowed tokens per submitted batch is 120000. Your batch has 160000 tokens after truncation.",
    "jina": "The input exceeds the maximum length of 8194 tokens",
    "mistral": "Too many tokens in batch. Max is 16384 got 17555",
    "ollama": "the input length exceeds the context length",
}


@each_vendor
def test_a_batch_that_is_too_large_is_asked_for_in_halves(vendor: Vendor, rig: Rig) -> None:
    """A batch that a server finds too large is sent in halves, and the order is kept."""

    def at_most_two(request: Request) -> Answer:
        if len(vendor.texts(request)) > 2:
            return vendor.saying(400, TOO_MUCH[vendor.name])(request)
        return vendor.well(request)

    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    reply = rig.open(vendor, rig.serve(at_most_two), **PLAIN).embed_documents(texts)
    assert [unpacked(vector) for vector in reply.vectors] == [numbers_of(text) for text in texts]
    assert reply.truncated == 0


def test_a_text_that_is_too_long_is_cut_and_counted(vendor: Vendor, rig: Rig) -> None:
    """A text that is too long is embedded by its beginning and counts as truncated."""

    def at_most_a_thousand(request: Request) -> Answer:
        if max(map(len, vendor.texts(request))) > 1000:
            return vendor.saying(400, TOO_MUCH[vendor.name])(request)
        return vendor.well(request)

    reply = rig.open(vendor, rig.serve(at_most_a_thousand), **PLAIN).embed_documents(["short", "x" * 3000])
    assert [unpacked(vector)[0] for vector in reply.vectors] == [5.0, 750.0]
    assert reply.truncated == 1


def test_a_server_that_finds_everything_too_large_is_given_up(rig: Rig) -> None:
    """Truncation ends at a minimum, and then the server's message is reported."""
    server = rig.serve(saying(413, "payload size exceeds the limit"))
    with pytest.raises(ModelFault, match="payload size"):
        rig.open(OPENAI, server).embed_documents(["x" * 3000] * 4)
    assert len(server.requests) < 10


# -- secrets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
def test_the_key_appears_in_no_error_and_no_repr(vendor: Vendor, status: int, rig: Rig) -> None:
    """The key is in no message, hint, traceback or repr, even if the server repeats it."""
    server = rig.serve(vendor.saying(status, f"crash: Authorization: Bearer {KEY}", headers={"Retry-After": "99"}))
    embedder = rig.open(vendor, server, timeout_s=0.5)
    with pytest.raises(ModelError) as caught:
        embedder.embed_query("q")
    shown = "".join(traceback.format_exception(caught.value)) + caught.value.hint + repr(caught.value)
    assert KEY not in shown + repr(embedder) + repr(vars(embedder))


def test_vertex_is_not_taken_for_gemini() -> None:
    """A setting for Vertex AI is rejected, not silently sent to the Gemini API."""
    with pytest.raises(ConfigError, match="Vertex AI") as caught:
        resolve_embed_options(
            EmbedOptions(provider="google"), {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": KEY}
        )
    assert "unset the variable" in caught.value.hint


# -- connections and settings of a server ------------------------------------------------------------------------------


def test_a_connection_is_used_again(rig: Rig) -> None:
    """Consecutive requests use one connection; an empty list sends no request."""
    server = rig.serve(well)
    embedder = rig.open(OPENAI, server)
    embedder.embed_documents(["one"])
    embedder.embed_query("two")
    embedder.embed_documents(["three"])
    assert embedder.embed_documents([]).vectors == ()
    assert len({request.connection for request in server.requests}) == 1
    assert len(server.requests) == 3


def test_vectors_are_taken_as_numbers_and_by_their_index(rig: Rig) -> None:
    """Numbers are accepted although base64 was requested; `index` decides the text, and without any the order does."""
    for behaviour, expected in (
        (answering([1, 2.5], [3.0, -4.0], [0.0, 1.0]), [[1.0, 2.5], [3.0, -4.0], [0.0, 1.0]]),
        (answering([2.0], [0.0], [1.0], indices=[2, 0, 1]), [[0.0], [1.0], [2.0]]),
        (answering([1.0], [2.0], [3.0], indices=[None] * 3), [[1.0], [2.0], [3.0]]),
    ):
        reply = rig.open(OPENAI, rig.serve(behaviour)).embed_documents(["a", "b", "c"])
        assert [unpacked(vector) for vector in reply.vectors] == expected


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
    """A gzip reply is decompressed although it was not requested."""
    body = gzip.compress(json.dumps({"data": [{"index": 0, "embedding": numbers_of("abc")}]}).encode())
    server = rig.serve(lambda request: Answer(raw=body, headers={"Content-Encoding": "gzip"}))
    assert unpacked(rig.open(OPENAI, server).embed_documents(["abc"]).vectors[0]) == numbers_of("abc")
    assert server.requests[0].headers["accept-encoding"] == "identity"


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


def test_a_local_server_needs_no_key(rig: Rig) -> None:
    """Without a key a server on loopback is used without one."""
    server = rig.serve(well)
    assert rig.open(OPENAI, server, api_key="").embed_query("q")
    assert "authorization" not in server.requests[0].headers


def test_key_and_url_come_from_the_environment_unless_set(rig: Rig) -> None:
    """The provider's variables are used unless the settings override them."""
    server = rig.serve(well)
    environment = {"OPENAI_API_KEY": "from-environment", "OPENAI_BASE_URL": server.url + "/"}
    for options in (EmbedOptions(provider="openai"), EmbedOptions(provider="openai", api_key="from-settings")):
        embedder = open_embedder(resolve_embed_options(options, environment))
        embedder.embed_query("q")
        embedder.close()
    keys = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    assert keys == ["from-environment", "from-settings"]
    assert {request.path for request in server.requests} == {"/v1/embeddings"}


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://host/v1", "host:80", "http://", "http://u:hunter2@host/v1", "http://host:x/"),
        *("http://host/?key=hunter2", "http://host/#hunter2"),
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
