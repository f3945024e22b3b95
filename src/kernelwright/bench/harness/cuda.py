# SPDX-License-Identifier: MIT
"""Timing on a GPU: CUDA graphs of calls over many working sets, replayed in turns."""

from __future__ import annotations

import functools
import math
import statistics
import subprocess
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CACHE = 128 << 20  # no GPU has more, for a torch that does not say
MOST_CALLS = 4096  # in one graph: what it takes to leave L2 with the few kilobytes of one row
CALLS_A_FILLER = 64  # of a graph, whose launch the processor has done in the time of one reading of the filler
FEWEST_CALLS = 4
START_US = 10.0  # that a graph's first call takes more on an H200
START_SHARE = 0.005  # of a figure, at most
BYTES_A_US, FLOPS_A_US, LEAST_US = 4e6, 7e8, 1.0  # no GPU is faster, and no kernel
TARGET_US = 300_000.0  # for all rounds of one contestant


class Graph:
    """A contestant's calls, captured. As many of their outputs stay alive as there are working sets, so that what a
    call writes has left L2 as what it reads has, and long graphs need no more memory than short ones."""

    def __init__(self, prepare: Callable[[], list[Callable[[], Any]]]) -> None:
        self.graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # a backward pass runs on the stream of its forward pass
            calls = prepare()
            calls[0]()
        torch.cuda.synchronize()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with torch.cuda.graph(self.graph, stream=stream):
                self.kept = deque((call() for call in calls), maxlen=len({id(call) for call in calls}))
        # Some launch on the default stream whatever the current one is; a graph has nothing of them then.
        self.empty = any("Graph is empty" in str(warning.message) for warning in said)
        self.calls = calls
        self.samples: list[float] = []

    def _run(self) -> None:
        if self.empty:
            for call in self.calls:
                call()
        else:
            self.graph.replay()

    def replay(self, filler: torch.Tensor) -> float:
        """Microseconds a call. The GPU has something to read until the graph's launch has reached it: an event
        recorded on an idle GPU would count the processor's time for that as the graph's, 10 µs and more."""
        for _ in range(1 + len(self.calls) // CALLS_A_FILLER):
            filler.sum()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self._run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / len(self.calls)


class Gpu:
    kind = "cuda"

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(0)
        self.name = properties.name
        self.cache = int(properties.L2_cache_size) if hasattr(properties, "L2_cache_size") else MOST_CACHE
        self.filler = torch.randn(self.cache, device="cuda")  # four times L2

    def facts(self) -> dict[str, Any]:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.partition("\n")[0]
        return {"device": self.name, "driver": driver or "unknown", "cache": self.cache}

    def sets(self, bytes_: int) -> int:
        """How many working sets it takes to leave L2 behind twice."""
        return max(1, min(MOST_CALLS, -(-2 * self.cache // bytes_)))

    def calls(self, bytes_: int, flops: int) -> int:
        """How many a graph has at least, everybody's alike. The first one takes START_US more, since nothing of the
        kernel is near then, not even its instructions: among 39 of 4.5 µs that is 6 % of a figure. Working sets have
        left L2 each time their turn comes again."""
        us = max(bytes_ / BYTES_A_US, flops / FLOPS_A_US, LEAST_US)
        return max(FEWEST_CALLS, math.ceil(START_US / START_SHARE / us))

    def memory(self) -> int:
        return int(torch.cuda.mem_get_info()[0])

    def copy(self, bytes_: int, sets: int) -> list[Callable[[], Any]]:
        """Reads and writes half of the bytes each; a kernel, since a captured copy_ is slower than one."""
        count = max(1, bytes_ // 8)
        buffers = [torch.randn(2, count, device="cuda") for _ in range(sets)]
        return [functools.partial(torch.neg, source, out=target) for source, target in buffers]

    def times(
        self, contestants: dict[str, Callable[[], list[Callable[[], Any]]]], rounds: int
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Medians; and why a contestant has none, or what is to be said of it."""
        graphs, said = {}, {}
        for name, prepare in contestants.items():
            try:
                graphs[name] = Graph(prepare)
            except torch.cuda.OutOfMemoryError:
                said[name] = "not enough memory"
            else:
                if graphs[name].empty:
                    said[name] = "launches on the default stream, which no graph records: timed call by call"
        for graph in graphs.values():
            graph.replay(self.filler)
        for _ in range(rounds):
            for graph in graphs.values():
                if sum(graph.samples) * len(graph.calls) < TARGET_US or len(graph.samples) < rounds // 2:
                    graph.samples.append(graph.replay(self.filler))
        return {name: statistics.median(graph.samples) for name, graph in graphs.items()}, said

    def clean(self) -> None:
        torch.cuda.empty_cache()
