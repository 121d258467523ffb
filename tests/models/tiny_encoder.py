"""A real encoder of a few hundred bytes: the state of a token is its number times three weights, plus three others.

Written down as ONNX field by field, as `tiny_crossencoder` is, with the built-in encoder's own tokenizer. It can put out its
states, or one vector for the text (the greatest states), under any name.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from tests.models.reference_tokenizer import write_tokenizer
from tests.models.tiny_crossencoder import FLOAT, INT64, _described, _field, _node, _number, _varint, _whole

WEIGHTS, OFFSETS = (0.001, -0.002, 0.0005), (1.0, 2.0, 3.0)


def write_encoder(
    folder: Path,
    *,
    states: str = "last_hidden_state",
    vector: str = "",
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    weights: str = "model.onnx",
    **files: Any,
) -> Path:
    """Put an encoder into a folder, with outputs of these names, and JSON files beside it (`modules` is modules.json)."""
    (folder / weights).parent.mkdir(parents=True, exist_ok=True)
    (folder / weights).write_bytes(_network(states, vector, inputs))
    write_tokenizer(folder)
    for name, content in files.items():
        place = folder / ("1_Pooling/config.json" if name == "pooling" else f"{name}.json")
        place.parent.mkdir(exist_ok=True)
        place.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return folder


def states_of(ids: list[int]) -> list[list[float]]:
    """Return what the network puts out for each token."""
    return [[id_ * weight + offset for weight, offset in zip(WEIGHTS, OFFSETS, strict=True)] for id_ in ids]


def _network(states: str, vector: str, inputs: tuple[str, ...]) -> bytes:
    nodes = [
        _node("Cast", ["input_ids"], "numbers", _whole("to", FLOAT)),
        _node("Transpose", ["numbers"], "down"),
        _node("Mul", ["down", "weights"], "weighed"),
        _node("Add", ["weighed", "offsets"], states or "hidden"),
    ]
    if vector:
        nodes.append(_node("ReduceMax", [states or "hidden"], vector, _axis(1), _whole("keepdims", 0)))
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"tiny")
    graph += _field(5, _constant("weights", WEIGHTS)) + _field(5, _constant("offsets", OFFSETS))
    for name in inputs:
        graph += _field(11, _described(name, INT64))
    if states:
        graph += _field(12, _described(states, FLOAT, rank=3))
    if vector:
        graph += _field(12, _described(vector, FLOAT, rank=2))
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 17))


def _axis(number: int) -> bytes:
    return _field(1, b"axes") + _varint(8 << 3) + _varint(number) + _number(20, 7)


def _constant(name: str, values: tuple[float, ...]) -> bytes:
    """A tensor of shape 1, 1, n."""
    data = struct.pack(f"<{len(values)}f", *values)
    shape = _number(1, 1) + _number(1, 1) + _number(1, len(values))
    return shape + _number(2, FLOAT) + _field(8, name.encode()) + _field(9, data)
