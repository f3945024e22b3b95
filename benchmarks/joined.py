# SPDX-License-Identifier: MIT
"""What one product of several 4-bit layers takes beside the layers' own, on this machine's GPU.

    python benchmarks/joined.py --out joined.json

Layers of Llama-3-8B's shapes, NF4, their scales plain or quantized too: q, k and v; gate and up. Each way is a CUDA
graph of so many sets of weights that L2 holds none of them; medians of replays in turns. Exit code 1 where the results
differ by more than the rounding of another order of sums.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LAYERS = {"q, k, v": (4096, 1024, 1024), "gate, up": (14336, 14336)}
WIDTH, SETS, REPLAYS = 4096, 12, 21


def _layers(torch: Any, rows: tuple[int, ...], double: bool, device: str) -> list[Any]:
    from kernelwright import nn

    settings = {"bias": False, "compute_dtype": torch.bfloat16, "compress_statistics": double, "device": device}
    return [nn.LinearNF4(WIDTH, n, **settings).to(device) for n in rows]


def _graph(torch: Any, run: Callable[[], object]) -> Any:
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def _microseconds(torch: Any, graphs: list[Any]) -> list[float]:
    """Of each graph, of one set."""
    found: list[list[float]] = [[] for _ in graphs]
    for _ in range(REPLAYS):
        for graph, times in zip(graphs, found, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / SETS)
    return [statistics.median(times) for times in found]


def _both(torch: Any, name: str, double: bool) -> tuple[list[Any], list[Any]]:
    """Sets of layers, and the same again, joined."""
    from kernelwright.nn import _joined

    apart, together = ([_layers(torch, LAYERS[name], double, "cuda") for _ in range(SETS)] for _ in range(2))
    for layers, others in zip(together, apart, strict=True):
        for layer, other in zip(layers, others, strict=True):
            layer.load_state_dict(other.state_dict())
        if (why := _joined.join(layers)) is not None:
            raise SystemExit(f"{name}: {why}")
    return apart, together


def measured(torch: Any, both: tuple[list[Any], list[Any]], rows: int) -> dict[str, float]:
    from kernelwright.nn import _joined

    apart, together = both
    x = torch.randn(rows, WIDTH, device="cuda", dtype=torch.bfloat16)
    expected = torch.cat([layer(x) for layer in apart[0]], -1).double()
    found: Any = _joined.product(together[0], x)
    graphs = [
        _graph(torch, lambda: [layer(x) for layers in apart for layer in layers]),
        _graph(torch, lambda: [_joined.product(layers, x) for layers in together]),
    ]
    one_by_one, one = _microseconds(torch, graphs)
    far = float((found.double() - expected).norm() / expected.norm())
    return {"rows": rows, "apart_us": one_by_one, "joined_us": one, "far": far}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("joined.py measures on a GPU, and torch sees none here", file=sys.stderr)
        return 2
    lines = []
    with torch.no_grad():
        for name in LAYERS:
            for double in (False, True):
                both = _both(torch, name, double)
                for rows in (1, 8, 16, 64, 256):
                    lines.append({"layers": name, "double": double, **measured(torch, both, rows)})
                    print(lines[-1], flush=True)
    if given.out:
        facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        given.out.write_text(json.dumps({**facts, "lines": lines}, indent=1) + "\n", encoding="utf-8")
    return 1 if any(not line["far"] < 2**-7 for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
