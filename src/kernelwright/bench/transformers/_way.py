# SPDX-License-Identifier: MIT
"""One way, in a process of its own: `python -m kernelwright.bench.transformers._way REQUEST`.

A process for each, because compiled graphs, kernels put under bitsandbytes and the peak of memory belong to a process,
and a first token counts the imports. Each step that ends is a line of JSON on standard output, behind MARK.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelwright.bench.transformers._asked import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

MARK = "kernelwright-bench-step "
LOGITS = 512  # as many are compared between the ways


class Way:
    """A loaded model, and the steps that are measured of it."""

    def __init__(self, asked: Asked) -> None:
        import torch

        self.asked, self.work = asked, asked.work
        if asked.threads:
            torch.set_num_threads(asked.threads)
        from kernelwright.bench.transformers import _calls, _models

        _models.prepare(asked.way)
        self._models, self._calls = _models, _calls
        before = time.perf_counter()
        self.model: Any = _models.load(asked.way, asked.path, asked.device, asked.double)
        self._wait()
        self.load_s = time.perf_counter() - before
        self.vocabulary = _models.vocabulary(self.model)

    def _wait(self) -> None:
        import torch

        if self.asked.device == "cuda":
            torch.cuda.synchronize()

    def _memory(self) -> dict[str, int]:
        import torch

        if self.asked.device != "cuda":
            return {}
        return {"bytes": torch.cuda.memory_allocated(), "peak_bytes": torch.cuda.max_memory_allocated()}

    def _ids(self, rows: int, length: int) -> Tensor:
        import torch

        generator = torch.Generator().manual_seed(rows * 100003 + length)
        return torch.randint(3, self.vocabulary, (rows, length), generator=generator).to(self.asked.device)

    def _seconds(self, run: Callable[[], Any]) -> float:
        self._wait()
        before = time.perf_counter()
        run()
        self._wait()
        return time.perf_counter() - before

    def _generate(self, batch: int, tokens: int, **options: Any) -> float:
        ids = self._ids(batch, self.work.prompt)
        return self._seconds(lambda: self._models.generate(self.model, ids, tokens, **options))

    def load(self) -> Iterator[tuple[str, dict[str, Any]]]:
        self._generate(1, 1)
        yield "load", {"load_s": self.load_s, "first_token_s": time.time() - self.asked.started, **self._memory()}

    def _speed(self, batch: int, warm: int, **options: Any) -> dict[str, Any]:
        first = self._generate(batch, self.work.tokens, **options)
        for _ in range(warm - 1):
            self._generate(batch, self.work.tokens, **options)
        best = min(self._generate(batch, self.work.tokens, **options) for _ in range(self.work.runs))
        return {"tokens_per_second": batch * self.work.tokens / best, "first_call_s": first}

    def eager(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for batch in self.work.batches:
            found = self._speed(batch, 1)
            if self.asked.counts:
                found["operators"] = self._calls.a_token(partial(self._generate, batch))
            yield f"eager-{batch}", found

    def static(self) -> Iterator[tuple[str, dict[str, Any]]]:
        from torch._dynamo import utils

        counted: Any = utils.counters
        for batch in self.work.batches:
            self._forget()  # else a second batch size is compiled for sizes that vary
            counted.clear()
            found = self._speed(batch, 2, cache_implementation="static")
            skips = counted["inductor"]["cudagraph_skips"]
            graphs = {"graphs": counted["stats"]["unique_graphs"], "breaks": len(counted["graph_break"])}
            yield f"static-{batch}", {**found, **graphs, "cudagraph_skips": skips}

    def prefill(self) -> Iterator[tuple[str, dict[str, Any]]]:
        import torch

        for length in self.work.prefill:
            ids = self._ids(1, length)
            with torch.no_grad():

                def run(ids: Tensor = ids) -> Any:
                    return self.model(ids, logits_to_keep=1).logits

                run()
                times = [self._seconds(run) for _ in range(self.work.repeats)]
                logits = run()[0, -1, :LOGITS].float().tolist()
            yield f"prefill-{length}", {"ms": 1e3 * statistics.median(times), "logits": logits}

    def _forget(self) -> None:
        """CUDA graphs hold memory of their own, which is no part of a training step's."""
        import torch

        torch.compiler.reset()
        gc.collect()
        if self.asked.device == "cuda":
            torch.cuda.empty_cache()

    def tune(self) -> Iterator[tuple[str, dict[str, Any]]]:
        self._forget()
        yield from self._trained("tune", self._models.tunable(self.model), 1e-5)
        self.model.zero_grad()

    def train(self) -> Iterator[tuple[str, dict[str, Any]]]:
        import torch

        self._forget()
        torch.manual_seed(1)  # the adapter's weights
        yield from self._trained("train", self._models.adapted(self.asked.way, self.model, self.work.rank), 1e-4)

    def _trained(self, name: str, model: Any, rate: float) -> Iterator[tuple[str, dict[str, Any]]]:
        import torch

        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        fused = {"fused": True} if self.asked.device == "cuda" else {}
        optimizer: Any = torch.optim.AdamW(parameters, lr=rate, **fused)
        for rows, length in self.work.train:
            ids = self._ids(rows, length)
            losses: list[Tensor] = []

            def step(ids: Tensor = ids, losses: list[Tensor] = losses) -> None:
                loss = model(input_ids=ids, labels=ids).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.detach())

            self._wait()
            if self.asked.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            times = [self._seconds(step) for _ in range(2 + self.work.repeats)][2:]
            ms, speed = 1e3 * statistics.median(times), rows * length / statistics.median(times)
            found = {"ms": ms, "tokens_per_second": speed, "loss": float(losses[0]), "last_loss": float(losses[-1])}
            yield f"{name}-{rows}x{length}", found | self._memory()


def _told(step: str, found: dict[str, Any]) -> None:
    print(MARK + json.dumps({"step": step, **found}), flush=True)


def main(request: str) -> int:
    asked, failed = Asked.read(json.loads(request)), False
    way = Way(asked)
    for name in asked.steps:
        try:
            for step, found in getattr(way, name)():
                _told(step, found)
        except Exception as error:  # noqa: BLE001 - what other libraries raise; it is told, and the next step measured
            failed = True
            _told(name, {"error": f"{type(error).__name__}: {error}"[:2000]})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
