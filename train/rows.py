"""Teaches a finished encoder to read other scripts, without changing what it says of any other text.

python -m train.rows pack --texts parallel.jsonl.gz --judged judged.npz.xz --vocabulary vocab.txt --out lessons.npz.xz
python -m train.rows learn --lessons lessons.npz.xz --vocabulary vocab.txt --model model.onnx --seconds 500 --out rows.npz --device cuda
python -m train.rows put --rows rows.npz --vocabulary vocab.txt --model model.onnx --out model.onnx

Only the rows of word pieces of those scripts are learned; layers and all other rows stay, bit for bit. A passage's vector is to be that of
its English, and a question's nearest that of its passage among those of the same language.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from train.parallel import LANGUAGES
from train.tokens import Sequences, WordPieces, read_arrays, word_mask, write_arrays
from train.vocabulary import is_trained

PARTS = ("questions", "passages", "english_questions", "english")
MOST_TOKENS = {"questions": 40, "passages": 224, "english_questions": 24, "english": 200}
SHARPNESS = 20.0
HELD = 3000
REPEATED = 0.999
"""Passages of this cosine are the same."""
SEED = 31


def pack(texts: Path, judged: Path, vocabulary: Path, out: Path, most: int) -> None:
    """Write the samples as tokens, without those that share text with the judged sets."""
    from train.overlap import JudgedText, judged_sequences

    pieces = WordPieces(vocabulary)
    shared = JudgedText(judged_sequences(judged), word_mask(vocabulary))
    with gzip.open(texts, "rt", encoding="utf-8") as lines:
        samples = [json.loads(line) for line in lines]
    packed = {
        name: pieces([sample[place + 1] for sample in samples], MOST_TOKENS[name]) for place, name in enumerate(PARTS)
    }
    clean = ~(shared.shared(packed["questions"]) | shared.shared(packed["passages"]))
    clean &= (packed["questions"].lengths > 0) & (packed["passages"].lengths > 0)
    clean &= np.cumsum(clean) <= most
    arrays: dict[str, Any] = {
        "languages": np.array([LANGUAGES.index(sample[0]) for sample in samples], np.uint8)[clean]
    }
    for name, sequences in packed.items():
        kept = sequences.chosen(clean)
        arrays |= {name: kept.tokens, f"{name}/lengths": kept.lengths.astype(np.uint8)}
    write_arrays(out, arrays)
    unknown = (packed["passages"].tokens == 100).mean()
    print(
        f"{int(clean.sum())} of {len(samples)} samples, {unknown:.4f} of passages unknown, {out.stat().st_size / 1e6:.1f} MB"
    )


class Lessons:
    """The samples on the device, and where the English of each is: there the teacher, the encoder as it was, puts it."""

    def __init__(self, path: Path, teacher: Any, prefixes: Any, device: str) -> None:
        import torch

        from train.network import TokenStore, embed

        arrays = read_arrays(path)
        self.stores = {
            name: TokenStore(Sequences(arrays[name], arrays[f"{name}/lengths"].astype(np.int64)), device)
            for name in PARTS
        }
        self.languages = torch.from_numpy(arrays["languages"].astype("int64")).to(device)
        self.held = torch.arange(self.languages.shape[0], device=device) < HELD
        self.english_questions = embed(teacher, self.stores["english_questions"], prefixes[0])
        self.english = embed(teacher, self.stores["english"], prefixes[1])
        self._pools = [
            torch.nonzero((self.languages == place) & ~self.held).flatten() for place in range(len(LANGUAGES))
        ]
        self._shares = torch.tensor(
            [float(pool.shape[0]) ** 0.6 if pool.shape[0] > 200 else 0.0 for pool in self._pools]
        )

    def has(self, name: str) -> Any:
        return self.stores[name].lengths > 0

    def drawn(self, count: int) -> Any:
        """Return samples by chance, all in one language: passages of another would be told apart by their letters."""
        import torch

        pool = self._pools[int(torch.multinomial(self._shares, 1))]
        return pool[torch.randint(pool.shape[0], (count,), device=pool.device)].unique()


class Table:
    """The word rows of an encoder, some of which are learned."""

    def __init__(self, network: Any, words: Any, vocabulary: Path) -> None:
        import torch
        from torch import nn

        device = network.norm.weight.device
        entries = vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
        self.ids = torch.tensor([place for place, entry in enumerate(entries) if is_trained(entry)], device=device)
        more = np.zeros((len(entries) - len(words), words.shape[1]), np.float32)
        self._whole = torch.from_numpy(np.vstack([words, more])).to(device)
        noise = torch.randn(len(self.ids), words.shape[1], device=device) * float(words.std()) * 0.5
        self.rows = nn.Parameter(torch.from_numpy(words.mean(0)).to(device) + noise)
        self._network = network

    def put(self, rows: Any) -> None:
        """Let the network read with these rows."""
        from torch.nn import functional

        whole = self._whole.index_copy(0, self.ids, rows)
        self._network.words.forward = lambda tokens: functional.embedding(tokens, whole)


def learn(args: argparse.Namespace) -> None:
    """Learn the rows and write them with their ids."""
    import torch

    from train.network import Encoder
    from train.teach import student_prefixes
    from train.weights import read

    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    weights = read(args.model)
    pieces = WordPieces(args.vocabulary)
    prefixes = student_prefixes(pieces, args.device)
    network = Encoder(weights).to(args.device).eval().requires_grad_(False)
    table = Table(network, weights["embeddings.word_embeddings.weight"], args.vocabulary)
    table.put(table.rows.detach())
    lessons = Lessons(args.lessons, network, prefixes, args.device)
    print(f"{len(table.ids)} rows, {lessons.languages.shape[0]} samples", flush=True)
    table.put(_learned(network, lessons, table, prefixes, args))
    _report(network, lessons, prefixes)
    if args.measured:
        from train import measure

        sets = measure.read_sets(args.measured, 1000)
        print(measure.table({"rows": measure.measure(sets, measure.torch_embed(network, pieces, args.device))}))


def _learned(network: Any, lessons: Lessons, table: Table, prefixes: Any, args: argparse.Namespace) -> Any:
    """Return the running average of the rows; every minute it is also written, with the ids."""
    import torch

    optimizer = torch.optim.AdamW([table.rows], lr=args.rate, betas=(0.9, 0.98), weight_decay=0.0)
    average = table.rows.detach().clone()
    begun, kept, step, recent = time.perf_counter(), 0.0, 0, 0.0
    while (passed := time.perf_counter() - begun) < args.seconds and not 0 < args.steps <= step:
        done = max(passed / args.seconds, step / args.steps if args.steps else 0)
        optimizer.param_groups[0]["lr"] = args.rate * min(1.0, (step + 1) / 100) * max(0.02, 1 - done)
        table.put(table.rows)
        loss = _loss(network, lessons, prefixes, lessons.drawn(args.per_batch), args.aim)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if torch.isfinite(table.rows.grad).all():
            optimizer.step()
            average.lerp_(table.rows.detach(), 1 - min(0.995, step / (step + 10)))
        step += 1
        recent = loss.item() if step == 1 else 0.97 * recent + 0.03 * loss.item()
        if step % 250 == 0 or step in {1, 10, 50}:
            size = table.rows.norm(dim=1).mean().item()
            print(f"step {step} loss {recent:.4f} norm {size:.3f} {time.perf_counter() - begun:.0f} s", flush=True)
        if passed - kept > 60:
            kept = passed
            _write(args.out, table.ids, average)
    _write(args.out, table.ids, average)
    return average


def _write(path: Path, ids: Any, rows: Any) -> None:
    write_arrays(path, {"ids": ids.cpu().numpy(), "rows": rows.cpu().numpy().astype(np.float16)})


def _loss(network: Any, lessons: Lessons, prefixes: Any, drawn: Any, aim: float) -> Any:
    """Return how far the samples are from where they should be: questions at their passages, both at their English."""
    import torch
    from torch.nn import functional

    asked = network(lessons.stores["questions"].batch(drawn, prefixes[0]))
    told = network(lessons.stores["passages"].batch(drawn, prefixes[1]))
    own = torch.arange(drawn.shape[0], device=drawn.device)
    cosines = asked @ told.T
    with torch.no_grad():  # one passage that is asked for twice is no wrong answer
        repeated = (told @ told.T > REPEATED).fill_diagonal_(False)
    cosines = cosines.masked_fill(repeated, -1.0)
    loss = functional.cross_entropy(cosines * SHARPNESS, own) + 0.5 * functional.cross_entropy(
        cosines.T * SHARPNESS, own
    )
    known = lessons.has("english")[drawn]
    english = lessons.english[drawn][known].float()
    if english.shape[0] > 1:
        same = torch.arange(english.shape[0], device=drawn.device)
        for found in (told[known], asked[known]):
            loss = loss + 0.5 * functional.cross_entropy(found @ english.T * SHARPNESS, same)
        loss = loss + aim * (1 - (told[known] * english).sum(1)).mean()
        judged = functional.softmax(english @ english.T * SHARPNESS, 1)
        ours = functional.log_softmax(told[known] @ told[known].T * SHARPNESS, 1)
        loss = loss + 0.5 * functional.kl_div(ours, judged, reduction="batchmean")
    known = lessons.has("english_questions")[drawn]
    if known.any():
        english = lessons.english_questions[drawn][known].float()
        loss = loss + 0.5 * aim * (1 - (asked[known] * english).sum(1)).mean()
    return loss


def _report(network: Any, lessons: Lessons, prefixes: Any) -> None:
    """Print how well held questions find their passages, and held passages their English, by language."""
    import torch

    from train.network import embed

    places = torch.nonzero(lessons.held).flatten()
    asked = embed(network, lessons.stores["questions"], prefixes[0])[places].float()
    told = embed(network, lessons.stores["passages"], prefixes[1])[places].float()
    languages, known = lessons.languages[places], lessons.has("english")[places]
    every = torch.ones_like(known)
    aims = {
        "question to passage": (asked, told, every),
        "passage to English": (told, lessons.english[places].float(), known),
    }
    for name, (left, aim, counted) in aims.items():
        cosines = left @ aim.T
        found = 1 / (1 + (cosines > cosines.diagonal()[:, None]).sum(1).float())
        said = [
            f"{code} {found[counted & (languages == place)].mean().item():.3f}" for place, code in enumerate(LANGUAGES)
        ]
        print(f"held, {name}: {' '.join(said)}", flush=True)


def put(rows: Path, vocabulary: Path, model: Path, out: Path) -> None:
    """Write the rows into the model: its other numbers stay as they are."""
    import onnx
    from onnx import numpy_helper

    from train.quantise import quantised_rows

    arrays = read_arrays(rows)
    steps, scale = quantised_rows(arrays["rows"].astype(np.float32), 127)
    entries = len(vocabulary.read_text("utf-8").removesuffix("\n").split("\n"))
    whole = onnx.load(str(model))
    for place, item in enumerate(whole.graph.initializer):
        if item.name in {"words", "words.scale"}:
            value = numpy_helper.to_array(item)
            more = np.zeros((max(0, entries - len(value)), value.shape[1]), value.dtype)
            value = np.concatenate([value, more])
            value[arrays["ids"]] = steps if item.name == "words" else scale[:, None]
            whole.graph.initializer[place].CopyFrom(numpy_helper.from_array(value, item.name))
    onnx.save(whole, str(out))
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB, {len(arrays['ids'])} rows")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m train.rows", description="Teaches an encoder other scripts.")
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="write the samples as tokens")
    packing.add_argument("--texts", type=Path, required=True, metavar="FILE", help="what train.parallel wrote")
    packing.add_argument("--judged", type=Path, required=True, metavar="FILE")
    packing.add_argument("--most", type=int, default=1_000_000, help="samples")
    learning = commands.add_parser("learn", help="learn the rows")
    learning.add_argument("--lessons", type=Path, required=True, metavar="FILE")
    learning.add_argument("--seconds", type=float, default=500)
    learning.add_argument("--steps", type=int, default=0)
    learning.add_argument("--rate", type=float, default=2e-3)
    learning.add_argument("--aim", type=float, default=2.0, help="weight of being where the English is")
    learning.add_argument("--per-batch", type=int, default=1536)
    learning.add_argument("--measured", type=Path, metavar="FILE", help="judged sets, measured at the end")
    learning.add_argument("--device", default="cpu")
    putting = commands.add_parser("put", help="write the rows into the model")
    putting.add_argument("--rows", type=Path, required=True, metavar="FILE")
    for command in (learning, putting):
        command.add_argument("--model", type=Path, required=True, metavar="FILE")
    for command in (packing, learning, putting):
        command.add_argument("--vocabulary", type=Path, required=True, metavar="FILE")
        command.add_argument("--out", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    if args.command == "pack":
        pack(args.texts, args.judged, args.vocabulary, args.out, args.most)
    elif args.command == "learn":
        learn(args)
    else:
        put(args.rows, args.vocabulary, args.model, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
