# SPDX-License-Identifier: MIT
"""What is measured, in which ways, and how much of it. Needs no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

WAYS = {
    "bf16": "torch's own linear layers in bfloat16",
    "bitsandbytes": "bitsandbytes' NF4 layers on its own kernels",
    "under": "the same layers with kernelwright underneath",
    "quantizer": "kernelwright's quantizer in transformers",
    "optimize": "the quantizer's model after optimize(model): norms, gated MLPs and LoRA layers too",
    "floor": "bfloat16 with the products of all blocks left out: what generate() costs besides",
    "fused": "bfloat16 after optimize(model), to tune",
    "liger": "bfloat16 with liger-kernel's norms and MLPs, to tune; on a GPU, as they are Triton's",
}
NEEDS = {"bitsandbytes": "bitsandbytes", "under": "bitsandbytes", "liger": "liger_kernel"}
ON_A_GPU = ("liger",)
STEPS = {
    "load": "from_pretrained, and the first token of a new process",
    "eager": "generate(), greedy",
    "prefill": "a forward pass over a prompt, logits of its last token",
    "static": "generate() with a static cache, compiled where transformers compiles",
    "tune": "full fine-tuning of norms and MLPs in bfloat16, checkpointing, torch's fused AdamW",
    "train": "QLoRA: peft, r 16 on all linear layers, checkpointing, torch's fused AdamW",
}
_ALL = tuple(step for step in STEPS if step != "tune")
OF = {  # what is measured of a way, where it is not all but "tune"
    "bf16": tuple(STEPS),
    "floor": ("load", "eager", "static"),  # of a model that computes nothing
    "fused": ("tune",),
    "liger": ("tune",),
}


def steps_of(way: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(step for step in asked if step in OF.get(way, _ALL))


@dataclass(frozen=True)
class Work:
    """How much of each step: lengths in tokens, (rows, length) of training steps, repetitions."""

    prompt: int = 64
    tokens: int = 64
    batches: tuple[int, ...] = (1, 8)
    prefill: tuple[int, ...] = (256, 2048)
    train: tuple[tuple[int, int], ...] = ((4, 1024), (1, 512))
    runs: int = 2
    repeats: int = 5
    rank: int = 16


BRIEF = Work(repeats=3)
QUICK = Work(prompt=8, tokens=3, batches=(1, 2), prefill=(16, 32), train=((2, 16), (1, 8)), runs=1, repeats=2, rank=4)


@dataclass(frozen=True)
class Asked:
    """What a process of one way is asked, as JSON."""

    way: str
    path: str
    device: str
    steps: tuple[str, ...]
    threads: int = 0
    double: bool = True
    counts: bool = True
    """Whether operators are counted."""
    work: Work = field(default_factory=Work)
    started: float = 0.0

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, given: dict[str, Any]) -> Asked:
        work: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in given["work"].items()
        }
        work["train"] = tuple(map(tuple, work["train"]))
        return cls(**{**given, "work": Work(**work), "steps": tuple(given["steps"])})
