# SPDX-License-Identifier: MIT
"""One way of computing, in a process of its own: `python -m kernelwright.bench._measure REQUEST`, both ends JSON.

A process for each way, because the path without kernels is chosen once in a process, and so that the peak of memory is
this way's.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

from kernelwright.bench._shapes import QUANTIZED, SHAPES
from kernelwright.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from kernelwright.bench._model import Model

LOGITS = 512  # as many are compared between the ways
SEED = 20


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _free(device: str) -> int:
    import torch

    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - no path of this package
        sizes = dict(line.split(":") for line in file)
    return int(sizes["MemAvailable"].split()[0]) * 1024


def _peak(device: str) -> int:
    import torch

    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds that half, 90 % and 99 % of the measurements stay within."""
    ordered = sorted(seconds)
    return {f"p{p}": 1e3 * ordered[-(-len(ordered) * p // 100) - 1] for p in (50, 90, 99)}


class Generation:
    """A model that generates for so many requests at once, the best token each time."""

    def __init__(self, model: Model, batch: int, prompt: int, tokens: int, *, graph: bool) -> None:
        import torch

        self.model, self.tokens = model, tokens
        self.device = model.embed.weight.device.type
        generator = torch.Generator().manual_seed(SEED)
        ids = torch.randint(model.shape.vocabulary, (batch, prompt), generator=generator)
        self.prompt = ids.to(self.device)
        self.cache = model.cache(batch, prompt + tokens)
        self.ids = self.prompt[:, :1].clone()
        self.first: Callable[[], Any] = self.read_prompt
        self.step: Callable[[], Any] = self._step
        if graph:
            self.first, self.step = _captured(self.read_prompt), _captured(self._step)

    def _step(self) -> None:
        self.ids.copy_(self.model(self.ids, self.cache).argmax(-1, keepdim=True))

    def read_prompt(self) -> Tensor:
        """The logits after the prompt; the token that they choose is what the next step begins with."""
        self.cache.restart()
        logits = self.model(self.prompt, self.cache)
        self.ids.copy_(logits.argmax(-1, keepdim=True))
        return logits

    def request(self) -> tuple[float, list[float]]:
        """Seconds until the first token, and for each of the others."""
        marks = [time.perf_counter()]
        for turn in range(self.tokens):
            if turn:
                self.step()
            else:
                self.first()
            _wait(self.device)
            marks.append(time.perf_counter())
        steps = [after - before for before, after in itertools.pairwise(marks)]
        return steps[0], steps[1:]


def _captured(work: Callable[[], Any]) -> Callable[[], None]:
    """It as a CUDA graph: a model that waits for Python to launch kernels measures Python."""
    import torch

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        work()  # memory is allocated and kernels are loaded before anything is captured
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    replay: Callable[[], None] = graph.replay
    return replay


def _batch(model: Model, asked: Mapping[str, Any], batch: int) -> dict[str, Any]:
    graph = bool(asked["device"] == "cuda" and asked["way"] != "disabled" and not asked["eager"])
    generation = Generation(model, batch, asked["prompt"], asked["tokens"], graph=graph)
    generation.request()  # warm
    groups = -(-asked["requests"] // batch)
    start = time.perf_counter()
    firsts, steps = [], []
    for _ in range(groups):
        first, others = generation.request()
        firsts.append(first)
        steps += others
    seconds = time.perf_counter() - start
    return {
        "batch": batch,
        "graph": graph,
        "tokens_per_second": groups * batch * asked["tokens"] / seconds,
        "first_token_ms": percentiles(firsts),
        "token_ms": percentiles(steps),
    }


def measure(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about one way."""
    shape, device, way = SHAPES[asked["model"]], asked["device"], asked["way"]
    needed = shape.bytes(way, max(asked["batches"]), asked["prompt"] + asked["tokens"])
    free = _free(device)
    if needed > free:
        raise OutOfMemory(
            f"{asked['model']} takes about {needed / 1e9:.1f} GB as {way}, and {free / 1e9:.1f} GB are free on "
            f"{'the GPU' if device == 'cuda' else 'this machine'}: choose a smaller --model, or --ways without {way}"
        )
    import torch

    from kernelwright.bench._model import Model

    if asked["threads"]:
        torch.set_num_threads(asked["threads"])
    torch.manual_seed(SEED)
    with torch.inference_mode():
        model = Model(shape, device, quantized=way in QUANTIZED, attention=asked["attention"])
        logits = Generation(model, 1, asked["prompt"], 1, graph=False).read_prompt()
        batches = [_batch(model, asked, batch) for batch in asked["batches"]]
    return {
        "way": way,
        "logits": logits[0, :LOGITS].double().tolist(),
        "weights_bytes": sum(t.nbytes for t in model.state_dict().values()),
        "peak_bytes": _peak(device),
        "batches": batches,
    }


if __name__ == "__main__":
    try:
        print(json.dumps(measure(json.loads(sys.argv[1]))))
    except OutOfMemory as error:
        sys.exit(str(error))
