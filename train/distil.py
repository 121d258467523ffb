"""Trains the student: its cosines follow the sum of the teachers, first as it is, then as if it were int8.

python -m train.distil --shards DIR --taught FILE --vocabulary FILE --init FILE [--layers 0,2,4,7,9,11] --out FILE --seconds N

A batch holds texts of a few topics, so that its passages are hard to tell apart. Three things are asked of the student: its
vectors point where the teachers' main directions do; its cosines rank passages for questions and questions for passages as the
sum does (both directions of a Kullback-Leibler divergence); and a passage is found by what is known to ask for it.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from train import measure
from train.network import Encoder, TokenStore
from train.teach import Sum, prefix_tokens, read_shards
from train.tokens import WordPieces
from train.weights import read, with_layers, write

SEED = 20
SHARPNESS = 1.25
"""Of the sum, whose spread over pairs of chance is 1, in a softmax."""
PAIR_SHARE = 0.1
"""Of the aim that lies on the passage that a question is known to ask for."""
AIM_WEIGHT = 2.0
"""At first; it goes down with the rate, so that in the end only the ranking counts."""
NEAR = 32
TOPIC_SIZE = 160


class Lessons:
    """Training text on the device, what the teachers say of it, and batches of a few topics each."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.device = args.device
        questions, passages = read_shards(args.shards)
        self.asked, self.told = TokenStore(questions, args.device), TokenStore(passages, args.device)
        vectors = torch.load(args.taught, map_location=args.device)
        self.sum = Sum(vectors)
        self.asked_aim, self.told_aim = self.sum.narrow(vectors, 0), self.sum.narrow(vectors, 1)
        # Their means are left in what ranks: without them it ranks worse (measured on the judged sets: .610 for .625).
        whole = Sum(vectors, is_centred=False)
        self.asked_sum, self.told_sum = whole.wide_half(vectors, 0), whole.wide_half(vectors, 1)
        del vectors
        self.has_question = self.asked.lengths > 0
        self.has_passage = self.told.lengths > 0
        sample = torch.randperm(self.asked_sum.shape[0], device=self.device)[:4000]
        chance = self.asked_sum[sample].float() @ self.told_sum[sample.flip(0)].float().T
        self.mean, self.spread = chance.mean().item(), chance.std().item()
        self._group(args.per_batch)

    def _group(self, per_batch: int) -> None:
        """Find each question's nearest passages, and topics of passages by a few rounds of k-means."""
        count = self.told_aim.shape[0]
        whole = self.told_sum.clone()
        whole[~self.has_passage] = 0
        near = min(NEAR, count)
        found = [(chunk @ whole.T).topk(near, dim=1).indices.int() for chunk in self.asked_sum.split(4096)]
        self.near = torch.cat(found)
        topics = max(1, count // TOPIC_SIZE)
        unit = functional.normalize(self.told_aim.float(), dim=-1).half()
        centres = unit[torch.randperm(count, device=self.device)[:topics]].clone()
        topic = torch.zeros(count, dtype=torch.long, device=self.device)
        for _ in range(6):
            topic = torch.cat([(chunk @ centres.T).argmax(dim=1) for chunk in unit.split(65_536)])
            sums = torch.zeros(topics, unit.shape[1], device=self.device).index_add_(0, topic, unit.float())
            centres = functional.normalize(sums, dim=-1).half()
        of_question = topic[self.near[:, 0].long()]
        of_question[~self.has_question] = topics
        self.by_topic = of_question.argsort()
        sizes = torch.bincount(of_question, minlength=topics + 1)[:topics]
        self.topic_starts, self.topic_sizes = torch.cumsum(sizes, 0) - sizes, sizes
        self.filled = (
            torch.nonzero(sizes > 3).flatten() if bool((sizes > 3).any()) else torch.nonzero(sizes > 0).flatten()
        )
        self.per_batch = per_batch

    def draw(self) -> tuple[Tensor, Tensor]:
        """Return places of questions, and of passages: near ones, those known to belong to them, and some by chance."""
        chosen = self.filled[
            torch.randint(self.filled.shape[0], (max(1, self.per_batch // 48),), device=self.device)
        ].unique()
        parts = []
        for topic in chosen.tolist():
            start, size = int(self.topic_starts[topic]), int(self.topic_sizes[topic])
            parts.append(self.by_topic[start + torch.randperm(size, device=self.device)[:48]])
        questions = torch.cat([*parts, self._by_chance(self.has_question, self.per_batch // 4)]).unique()
        near = self.near[questions].long()
        pick = torch.randint(near.shape[1], (near.shape[0], 1), device=self.device)
        own = questions[self.has_passage[questions]]
        passages = torch.cat(
            [near[:, 0], near.gather(1, pick).flatten(), own, self._by_chance(self.has_passage, self.per_batch // 8)]
        )
        return questions, passages.unique()

    def _by_chance(self, mask: Tensor, count: int) -> Tensor:
        drawn = torch.randint(mask.shape[0], (count,), device=self.device)
        return drawn[mask[drawn]]

    def judgement(self, questions: Tensor, passages: Tensor) -> Tensor:
        return (
            (self.asked_sum[questions].float() @ self.told_sum[passages].float().T - self.mean)
            / self.spread
            * SHARPNESS
        )


class Student:
    """The network in training, its optimizer, and the running average of its weights."""

    def __init__(self, network: Encoder, lessons: Lessons, args: argparse.Namespace) -> None:
        self.network, self.lessons, self.rate = network, lessons, args.rate
        self.sharpness = nn.Parameter(torch.tensor(math.log(20.0), device=args.device))
        # Turns the student's space into the aim's: the aim of a vector need not be the vector itself.
        self.turn = nn.Parameter(torch.eye(384, device=args.device))
        pieces = WordPieces(args.vocabulary)
        self.prefixes = [
            prefix_tokens(pieces, text, args.device) for text in (measure.QUESTION_PREFIX, measure.PASSAGE_PREFIX)
        ]
        ranges = [value for name, value in network.named_parameters() if "ranges" in name]
        body = [value for name, value in network.named_parameters() if "ranges" not in name]
        is_fused = args.device != "cpu"
        self.optimizer = torch.optim.AdamW(
            [
                {"params": body, "weight_decay": 0.01, "share": 1.0},
                {"params": [self.sharpness], "weight_decay": 0.0, "share": 10.0},
                {"params": [self.turn], "weight_decay": 0.0, "share": 3.0},
                {"params": ranges, "weight_decay": 0.0, "share": 10.0},
            ],
            lr=args.rate,
            betas=(0.9, 0.98),
            fused=is_fused,
        )
        self.average = copy.deepcopy(network)
        self.steps = 0

    def step(self, share: float, warm: int, decay: float) -> float:
        """Take one step at a share of the highest rate; return the loss."""
        lessons = self.lessons
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * share * group["share"] * min(1.0, (self.steps + 1) / warm)
        questions, passages = lessons.draw()
        asked = self.network(lessons.asked.batch(questions, self.prefixes[0]))
        told = self.network(lessons.told.batch(passages, self.prefixes[1]))
        loss = self._loss(questions, passages, asked, told, AIM_WEIGHT * share)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        if torch.isfinite(norm) and torch.isfinite(loss):
            self.optimizer.step()
            with torch.no_grad():
                pairs = zip(self.average.parameters(), self.network.parameters(), strict=True)
                averages, values = map(list, zip(*pairs, strict=True))
                torch._foreach_lerp_(averages, values, 1 - decay)
        self.steps += 1
        return loss.item()

    def _loss(self, questions: Tensor, passages: Tensor, asked: Tensor, told: Tensor, aim_weight: float) -> Tensor:
        lessons = self.lessons
        with torch.no_grad():
            judged = lessons.judgement(questions, passages)
            by_question, by_passage = functional.softmax(judged, 1), functional.softmax(judged.T, 1)
            own = (questions[:, None] == passages[None, :]).float()
            known = own.sum(1, keepdim=True)
            by_question = by_question * (1 - PAIR_SHARE * known) + PAIR_SHARE * own
        scores = asked @ told.T * self.sharpness.clamp(1.0, 4.6).exp()
        ranked = functional.kl_div(functional.log_softmax(scores, 1), by_question, reduction="batchmean")
        ranked = ranked + 0.5 * functional.kl_div(
            functional.log_softmax(scores.T, 1), by_passage, reduction="batchmean"
        )
        aims = torch.cat([lessons.asked_aim[questions], lessons.told_aim[passages]]).float()
        missed = 1 - functional.cosine_similarity(torch.cat([asked, told]) @ self.turn, aims, dim=-1)
        return ranked + aim_weight * missed.mean()


def main() -> int:
    args = _arguments()
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    started = time.perf_counter()
    lessons = Lessons(args)
    print(f"lessons ready, {lessons.sum.kept:.3f} of the sum kept, {time.perf_counter() - started:.0f} s", flush=True)
    weights = read(args.init)
    if args.layers:
        weights = with_layers(weights, [int(layer) for layer in args.layers.split(",")])
    student = Student(Encoder(weights).to(args.device), lessons, args)
    train(student, args)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write(args.out, student.average.exported())
    if args.last:
        write(args.last, student.network.exported())
    if args.judged:
        _report(student, args)
    return 0


def train(student: Student, args: argparse.Namespace) -> None:
    """Train for so many seconds; for the last share of them, as if the network were int8."""
    begun = time.perf_counter()
    recent = 0.0
    quantise_at = args.seconds * (1 - args.quantised)
    while (passed := time.perf_counter() - begun) < args.seconds and (not args.steps or student.steps < args.steps):
        if (
            args.quantised
            and not student.network.mode
            and (passed >= quantise_at or student.steps * 2 >= args.steps > 0)
        ):
            if args.before:
                write(args.before, student.average.exported())
            look(student)
            print(f"int8 from step {student.steps} on", flush=True)
        share = max(0.02, math.cos(math.pi / 2 * min(1.0, passed / args.seconds)))
        loss = student.step(share, args.warm, min(args.decay, student.steps / (student.steps + 10)))
        recent = loss if student.steps == 1 else 0.97 * recent + 0.03 * loss
        if student.steps % 100 == 0 or student.steps in {1, 3, 10, 30}:
            sharp = student.sharpness.exp().item()
            print(
                f"step {student.steps} loss {recent:.4f} sharpness {sharp:.1f} {time.perf_counter() - begun:.0f} s",
                flush=True,
            )


@torch.no_grad()
def look(student: Student) -> None:
    """Find the ranges of activations, then compute with them."""
    for network in (student.network, student.average):
        network.mode = "look"
        for _ in range(4):
            questions, passages = student.lessons.draw()
            network(student.lessons.asked.batch(questions, student.prefixes[0]))
            network(student.lessons.told.batch(passages, student.prefixes[1]))
        network.mode = "quantised"


def _report(student: Student, args: argparse.Namespace) -> None:
    pieces = WordPieces(args.vocabulary)
    sets = measure.read_sets(args.judged, 1000)
    columns: dict[str, Any] = {}
    columns["average"] = measure.measure(sets, measure.torch_embed(student.average.eval(), pieces, args.device))
    if student.network.mode:
        student.average.mode = ""
        columns["average-fp"] = measure.measure(sets, measure.torch_embed(student.average, pieces, args.device))
    print(measure.table(columns), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m train.distil", description="Trains the student.")
    parser.add_argument("--shards", type=Path, required=True, metavar="DIR")
    parser.add_argument("--taught", type=Path, required=True, metavar="FILE")
    parser.add_argument("--vocabulary", type=Path, required=True, metavar="FILE")
    parser.add_argument("--init", type=Path, required=True, metavar="FILE", help="weights to start from")
    parser.add_argument("--layers", default="", metavar="A,B", help="only these layers of it")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="average of the weights, .npz")
    parser.add_argument("--last", type=Path, metavar="FILE", help="last weights, .npz")
    parser.add_argument("--before", type=Path, metavar="FILE", help="average before the int8 part, .npz")
    parser.add_argument("--judged", type=Path, metavar="FILE", help="measure at the end")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--steps", type=int, default=0, help="at most; 0: as many as there is time for")
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--warm", type=int, default=200, help="steps until the highest rate")
    parser.add_argument("--decay", type=float, default=0.998, help="of the average")
    parser.add_argument("--per-batch", type=int, default=1536, help="questions, about")
    parser.add_argument("--quantised", type=float, default=0.0, help="share of the time, at the end, as if int8")
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
