"""Writes the student as an int8 ONNX model whose vector of a text does not depend on what else is in the batch.

python -m train.quantise --student FILE.npz --out model.onnx [--float]

Weights have 7 bits and a scale for each output, activations 8 bits in ranges fixed by training, so nothing is taken from the
batch. The graph is written by hand from onnxruntime's fused operators, so nothing is left to optimise when it is loaded. Word
embeddings have 8 bits and a scale for each word. The model pools and normalises: its only output is a unit vector for each text.

7 bits, because without VNNI x86 adds two products of unsigned and signed bytes in 16 bits: 2 * 255 * 63 fits, so the results are
exact there without `session.x64quantprecision`, which makes int8 half as fast where it is not needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from train.weights import layer_count, read

HEADS = 12
WIDTH = 384
EPSILON = 1e-12
WEIGHT_STEPS = 63
FUSED = "com.microsoft"
OPSET = 17


class Graph:
    """Nodes and constants of a model in the making."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def model(self) -> Any:
        texts = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
            for name in ("input_ids", "attention_mask")
        ]
        vectors = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", WIDTH])
        graph = helper.make_graph(self.nodes, "encoder", texts, [vectors], self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="lorelog train.quantise")


def quantised_rows(matrix: Any, steps: int) -> tuple[Any, Any]:
    """Return a matrix as int8 and the scale of each row."""
    scale = np.maximum(np.abs(matrix).max(axis=1), 1e-8).astype(np.float32) / np.float32(steps)
    return np.round(matrix / scale[:, None]).astype(np.int8), scale


def activation_scale(low: float, high: float) -> tuple[Any, Any]:
    """Return scale and zero point (uint8) of a range, as `train.network.Range` has them."""
    low, high = min(low, -1e-4), max(high, 1e-4)
    scale = np.float32((high - low) / 255)
    return scale, np.uint8(np.clip(np.round(-low / scale), 0, 255))


class _Writer:
    def __init__(self, weights: Mapping[str, Any], *, is_float: bool) -> None:
        self.weights, self.is_float, self.graph = weights, is_float, Graph()

    def linear(self, value: str, name: str, matrix: Any, bias: Any, limits: Any) -> str:
        graph = self.graph
        if self.is_float:
            product = graph.node("MatMul", [value, graph.constant(f"{name}.weight", matrix.T)], f"{name}.product")
            return graph.node("Add", [product, graph.constant(f"{name}.bias", bias)], name)
        steps, scale = quantised_rows(matrix, WEIGHT_STEPS)
        in_scale, in_zero = activation_scale(float(limits[0]), float(limits[1]))
        inputs = [graph.constant(f"{name}.in_scale", in_scale), graph.constant(f"{name}.in_zero", in_zero)]
        small = graph.node("QuantizeLinear", [value, *inputs], f"{name}.in")
        return graph.node(
            "MatMulIntegerToFloat",
            [
                small,
                graph.constant(f"{name}.weight", steps.T),
                inputs[0],
                graph.constant(f"{name}.scale", scale),
                inputs[1],
                graph.constant(f"{name}.zero", np.zeros(scale.size, np.int8)),
                graph.constant(f"{name}.bias", bias.astype(np.float32)),
            ],
            name,
            FUSED,
        )

    def embeddings(self) -> str:
        graph, weights = self.graph, self.weights
        steps, scale = quantised_rows(weights["embeddings.word_embeddings.weight"], 127)
        words = graph.node("Gather", [graph.constant("words", steps), "input_ids"], "words.steps")
        words = graph.node("Cast", [words], "words.float", to=TensorProto.FLOAT)
        scales = graph.node("Gather", [graph.constant("words.scale", scale[:, None]), "input_ids"], "words.scales")
        words = graph.node("Mul", [words, scales], "words.value")
        table = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        length = graph.node("Shape", ["input_ids"], "length", start=1, end=2)
        zero = graph.constant("zero", np.zeros(1, np.int64))
        places = graph.node(
            "Slice", [graph.constant("places", table.astype(np.float32)), zero, length, zero], "places.used"
        )
        summed = graph.node("Add", [words, places], "embeddings.sum")
        return self.norm_of("LayerNormalization", [summed], "embeddings.LayerNorm", "embeddings", "", axis=-1)

    def norm_of(self, kind: str, inputs: list[str], name: str, output: str, domain: str, **attributes: Any) -> str:
        graph = self.graph
        both = [graph.constant(f"{name}.{part}", self.weights[f"{name}.{part}"]) for part in ("weight", "bias")]
        return graph.node(kind, [*inputs, *both], output, domain, epsilon=EPSILON, **attributes)

    def layer(self, value: str, number: int, mask: str) -> str:
        graph, weights, name = self.graph, self.weights, f"encoder.layer.{number}"
        limits = {
            site: weights.get(f"{name}.range.{site}", (0.0, 0.0)) for site in ("inputs", "context", "middle", "hidden")
        }
        parts = ("query", "key", "value")
        matrix, bias = (
            np.concatenate([weights[f"{name}.attention.self.{p}.{kind}"] for p in parts]) for kind in ("weight", "bias")
        )
        whole = self.linear(value, f"{name}.qkv", matrix, bias, limits["inputs"])
        split = [f"{name}.{part}" for part in parts]
        sizes = graph.constant(f"{name}.sizes", np.full(3, WIDTH, np.int64))
        graph.nodes.append(helper.make_node("Split", [whole, sizes], split, name=f"{name}.split", axis=-1))
        context = graph.node("MultiHeadAttention", [*split, "", mask], f"{name}.context", FUSED, num_heads=HEADS)

        def dense(source: str, place: str, site: str) -> str:
            full = f"{name}.{place}.dense"
            return self.linear(source, full, weights[f"{full}.weight"], weights[f"{full}.bias"], limits[site])

        out = dense(context, "attention.output", "context")
        skip = "SkipLayerNormalization"
        middle = self.norm_of(skip, [out, value], f"{name}.attention.output.LayerNorm", f"{name}.middle", FUSED)
        hidden = graph.node("Gelu", [dense(middle, "intermediate", "middle")], f"{name}.hidden", FUSED)
        return self.norm_of(
            skip, [dense(hidden, "output", "hidden"), middle], f"{name}.output.LayerNorm", f"{name}.end", FUSED
        )

    def pool(self, value: str) -> None:
        """The mean of the states that are no padding, made a unit vector: the length of the mean does not matter, so a sum does."""
        graph = self.graph
        shares = graph.node("Cast", ["attention_mask"], "mask.float", to=TensorProto.FLOAT)
        shares = graph.node("Unsqueeze", [shares, graph.constant("one", np.ones(1, np.int64))], "mask.row")
        summed = graph.node("MatMul", [shares, value], "pooled")
        flat = graph.node("Squeeze", [summed, "one"], "pooled.flat")
        graph.node("LpNormalization", [flat], "sentence_embedding", axis=-1, p=2)


def student_model(weights: Mapping[str, Any], *, is_float: bool = False) -> Any:
    """Return the ONNX model of a student's weights and ranges."""
    writer = _Writer(weights, is_float=is_float)
    mask = writer.graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    value = writer.embeddings()
    for number in range(layer_count(weights)):
        value = writer.layer(value, number, mask)
    writer.pool(value)
    return writer.graph.model()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.quantise", description="Writes the student as int8 ONNX.")
    parser.add_argument("--student", type=Path, required=True, metavar="FILE", help="what train.distil wrote")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=".onnx")
    parser.add_argument("--float", dest="is_float", action="store_true", help="float32 layers, to compare with")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(student_model(read(args.student), is_float=args.is_float), str(args.out))
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
