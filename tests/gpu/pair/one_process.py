# SPDX-License-Identifier: MIT
"""Both GPUs from one process: first calls from many threads at once, calls in turns, torch.nn.DataParallel.

    python -m tests.gpu.pair.one_process FILE [--device cpu --quick]

Nothing sets the current device: a call runs where its tensors are.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import torch

import kernelwright
from kernelwright import nn
from tests.gpu.pair import ranks

if TYPE_CHECKING:
    from torch import Tensor

THREADS = 4  # for each GPU


class Layer(torch.nn.Module):
    """A norm, 4-bit, 8-bit and ternary layers, SwiGLU, an adapter that is trained."""

    def __init__(self, hidden: int = 256) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(hidden)
        self.gate, self.up = nn.LinearNF4(hidden, 512, bias=False), nn.LinearFP4(hidden, 512)
        self.adapter = torch.nn.Linear(hidden, 512, bias=False)
        self.down = nn.Linear8bitLt(512, hidden, has_fp16_weights=False)
        self.ternary = nn.BitLinear(hidden, hidden).pack_()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        found: Tensor = self.ternary(x + self.down(kernelwright.swiglu(self.gate(y) + self.adapter(y), self.up(y))))
        return found


def model(device: str) -> Any:
    torch.manual_seed(3)
    return torch.nn.Sequential(nn.EmbeddingNF4(64, 256), Layer(), Layer()).to(torch.bfloat16).to(device)


def work(layer: Any, device: str, seed: int, times: int) -> list[Tensor]:
    """Calls of several families, forward and backward, again and again; the last results."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 64, (3, 5 + seed), generator=generator).to(device)
    q, k, v = (torch.randn(2, 4, 33 + seed, 64, generator=generator).bfloat16().to(device) for _ in range(3))
    for _ in range(times):
        y = layer(ids)
        (grad,) = torch.autograd.grad(y.float().square().sum(), [layer[1].adapter.weight])
        seen = kernelwright.attention(q, k, v, causal=True)
        codes, scales = kernelwright.quantize_blockwise(y.detach().float())[:2]
    return [y.detach(), grad, seen, codes, scales]


def in_threads(layers: dict[str, Any], places: list[str], times: int) -> dict[str, Any]:
    """All begin at once, with this process's first calls of these kernels; afterwards the same one by one."""
    begin = threading.Barrier(len(places))
    found: dict[int, list[Tensor]] = {}
    failed: list[str] = []

    def one(index: int, device: str) -> None:
        stream: Any = contextlib.nullcontext()
        if device != "cpu":
            stream = torch.cuda.stream(torch.cuda.Stream(device))
        try:
            begin.wait()
            with stream:
                found[index] = work(layers[device], device, index, times)
                if device != "cpu":
                    torch.cuda.current_stream(device).synchronize()
        except Exception as error:  # noqa: BLE001 - said in the result
            failed.append(f"{device}, thread {index}: {type(error).__name__}: {error}")

    started = [threading.Thread(target=one, args=(index, device)) for index, device in enumerate(places)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    differ = []
    for index, device in enumerate(places):
        expected = work(layers[device], device, index, 1)
        pairs = zip(found.get(index, []), expected, strict=False)
        differ += [
            f"thread {index} on {device}: result {at}" for at, (a, b) in enumerate(pairs) if not ranks.same_bits(a, b)
        ]
    return {
        "threads": len(places), "times": times, "failed": failed[:3], "differ": differ[:8], "ok": not failed + differ
    }  # fmt: skip


def in_turns(layers: dict[str, Any], devices: list[str], times: int) -> dict[str, Any]:
    """Every call on another GPU than the one before."""
    first = [work(layers[device], device, 1, 1) for device in devices]
    differ = []
    for turn in range(times):
        device = devices[turn % 2]
        again = work(layers[device], device, 1, 1)
        differ += [
            f"turn {turn}: {at}"
            for at, pair in enumerate(zip(again, first[turn % 2], strict=True))
            if not ranks.same_bits(*pair)
        ]
    across = [at for at, (a, b) in enumerate(zip(*first, strict=True)) if not ranks.same_bits(a, b.to(a.device))]
    return {"turns": times, "differ": differ[:8], "results that differ between GPUs": across, "ok": not differ + across}


def data_parallel(layer: Any, devices: list[str]) -> dict[str, Any]:
    """Forward and backward of DataParallel over both beside one."""
    ids = torch.randint(0, 64, (8, 7), generator=torch.Generator().manual_seed(1)).to(devices[0])
    trained = [p for p in layer.parameters() if p.requires_grad]
    both = torch.nn.DataParallel(layer, [torch.device(device).index for device in devices])
    results = []
    for each in (layer, both):
        y = each(ids)
        results.append([y.detach(), *torch.autograd.grad(y.float().square().mean(), trained)])
    worst = max(ranks.apart(found, expected) for expected, found in zip(*results, strict=True))
    return {"rows": len(ids), "gradients": len(trained), "apart": worst, "ok": worst < 1e-2}


def main() -> None:
    asked = ranks.options(__doc__)
    gpus = asked.device == "cuda"
    devices = ["cuda:0", "cuda:1"] if gpus else ["cpu", "cpu"]
    layers = {device: model(device) for device in devices}
    times = 3 if asked.quick else 30
    found: dict[str, Any] = {"threads": in_threads(layers, devices * THREADS, times)}
    ranks.write(asked.out, found)
    found["turns"] = in_turns(layers, devices, times)
    if gpus:
        found["current device"] = torch.cuda.current_device()
        ranks.write(asked.out, found)
        found["DataParallel"] = data_parallel(layers[devices[0]], devices)
    parts = [part for part in found.values() if isinstance(part, dict)]
    ranks.write(asked.out, found | {"ok": all(part["ok"] for part in parts)})


if __name__ == "__main__":
    main()
