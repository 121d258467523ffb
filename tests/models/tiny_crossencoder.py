"""A real cross-encoder of a few hundred bytes: its logit is how many pairs of equal tokens question and text have, plus a bias.

The network is written down as ONNX by hand, field by field, so that no test needs the onnx package or a download. The
tokenizer is the built-in encoder's own.
"""

from __future__ import annotations

import struct
from pathlib import Path

from tests.models.reference_tokenizer import write_tokenizer

FLOAT, INT64 = 1, 7
SEPARATOR_PAIRS = 1
"""Question and text each end in the same separator, which is a pair of equal tokens too."""


def write_model(folder: Path, *, weights: str = "model.onnx", bias: float = 0.0, outputs: int = 1) -> Path:
    """Put a model into a folder and return the folder; `outputs` numbers come out, all of them the logit but for the first of two."""
    (folder / weights).parent.mkdir(parents=True, exist_ok=True)
    (folder / weights).write_bytes(network(bias, outputs))
    write_tokenizer(folder)
    return folder


def network(bias: float, outputs: int) -> bytes:
    nodes = [
        _node("Cast", ["token_type_ids"], "of_text", _whole("to", FLOAT)),
        _node("Sub", ["one", "of_text"], "of_question"),
        _node("Transpose", ["of_question"], "question_down"),
        _node("Transpose", ["input_ids"], "ids_down"),
        _node("Equal", ["ids_down", "input_ids"], "same"),
        _node("Cast", ["same"], "same_number", _whole("to", FLOAT)),
        _node("Mul", ["same_number", "question_down"], "same_from_question"),
        _node("Mul", ["same_from_question", "of_text"], "pairs"),
        _node("ReduceSum", ["pairs"], "count", _whole("keepdims", 0)),
        _node("Add", ["count", "bias"], "logit"),
        _node("Mul", ["logit", "spread"], "logits"),
    ]
    spread = [0.0, 1.0] if outputs == 2 else [1.0] * outputs
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"tiny")
    graph += b"".join(
        _field(5, _tensor(*constant)) for constant in (("one", [1.0]), ("bias", [bias]), ("spread", spread))
    )
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        graph += _field(11, _described(name, INT64))
    graph += _field(12, _described("logits", FLOAT, rank=1))
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 17))


def _node(kind: str, inputs: list[str], output: str, *attributes: bytes) -> bytes:
    named = b"".join(_field(1, name.encode()) for name in inputs)
    return (
        named
        + _field(2, output.encode())
        + _field(4, kind.encode())
        + b"".join(_field(5, attribute) for attribute in attributes)
    )


def _whole(name: str, value: int) -> bytes:
    return _field(1, name.encode()) + _number(3, value) + _number(20, 2)


def _tensor(name: str, values: list[float]) -> bytes:
    data = struct.pack(f"<{len(values)}f", *values)
    return _number(1, len(values)) + _number(2, FLOAT) + _field(8, name.encode()) + _field(9, data)


def _described(name: str, kind: int, rank: int = 2) -> bytes:
    shape = b"".join(_field(1, _field(2, f"{name}_{axis}".encode())) for axis in range(rank))
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))


def _field(number: int, content: bytes) -> bytes:
    """A protobuf field that has a length."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    done = bytearray()
    while value > 0x7F:
        done.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*done, value])
