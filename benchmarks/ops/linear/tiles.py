# SPDX-License-Identifier: MIT
"""Every way to launch csrc/ops/linear on a GPU, checked, then timed in turns with cuBLAS (torch.mm).

    python -m toolchain device --out DIR --archs 90a --ops linear
    python benchmarks/ops/linear/tiles.py DIR/kernels/sm_90a/linear.cubin [--out FILE] [--shapes MxNxK,…]

The kernels are launched by the driver, without the wheel: what the launcher's plan is chosen by. CUDA graphs of calls
over rotated weights (256 MB at least), normal random data; the median of turns. One JSON line a result, as it comes.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import statistics
from pathlib import Path
from typing import Any

import torch

ROWS, COLUMNS, THREADS = 128, 128, 384
SHARED = 1024 + 6 * (ROWS + COLUMNS) * 128 + 20480 + 256
PAIRS = (False, True)
SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 14336, 4096), (256, 28672, 8192), (256, 4096, 14336))
CHECKED = ((300, 780, 1000), (257, 1031, 72), (100, 513, 8), (1, 128, 4096), (640, 2048, 2048))
ACTIVATIONS = (
    lambda v: v, torch.relu, lambda v: torch.relu(v) ** 2, torch.nn.functional.silu, torch.nn.functional.gelu,
    lambda v: torch.nn.functional.gelu(v, approximate="tanh"),
)  # fmt: skip
SILU = 3
ROTATED_BYTES = 256 << 20
REPEATS = 9


class Params(ctypes.Structure):
    """KwLinearParams of csrc/ops/linear/params.h."""

    _fields_ = (
        ("maps", ctypes.c_ubyte * 256), ("y", ctypes.c_void_p), ("bias", ctypes.c_void_p), ("pitch", ctypes.c_int64),
        ("m", ctypes.c_uint), ("n", ctypes.c_uint), ("steps", ctypes.c_uint), ("rows", ctypes.c_uint),
        ("columns", ctypes.c_uint), ("group", ctypes.c_uint), ("activation", ctypes.c_int), ("vectors", ctypes.c_int),
        ("rest", ctypes.c_ubyte * 8),
    )  # fmt: skip


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16))


class Config(ctypes.Structure):
    _fields_ = (("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint))  # fmt: skip


class Kernels:
    """The image, loaded by the driver into torch's context."""

    def __init__(self, cubin: Path) -> None:
        torch.zeros(1, device="cuda")
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.library = ctypes.c_void_p()
        self.image = cubin.read_bytes()
        self.call("cuLibraryLoadData", ctypes.byref(self.library), self.image, None, None, 0, None, None, 0)
        self.functions: dict[str, ctypes.c_void_p] = {}

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.driver, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} gave error {code} of the driver")

    def function(self, name: str, shared: int) -> ctypes.c_void_p:
        if name not in self.functions:
            kernel, function = ctypes.c_void_p(), ctypes.c_void_p()
            self.call("cuLibraryGetKernel", ctypes.byref(kernel), self.library, name.encode())
            self.call("cuKernelGetFunction", ctypes.byref(function), kernel)
            self.call("cuFuncSetAttribute", function, 8, shared)  # the most dynamic shared memory
            self.functions[name] = function
        return self.functions[name]

    def describe(self, to: int, matrix: Any, rows: int) -> None:
        kind = 9 if matrix.dtype == torch.bfloat16 else 6
        two = ctypes.c_uint32 * 2
        sizes = (ctypes.c_uint64 * 2)(matrix.shape[1], matrix.shape[0])
        pitch = (ctypes.c_uint64 * 1)(matrix.stride(0) * 2)
        self.call(
            "cuTensorMapEncodeTiled", ctypes.c_void_p(to), kind, 2, ctypes.c_void_p(matrix.data_ptr()), sizes, pitch,
            two(64, rows), two(1, 1), 0, 3, 2, 0,
        )  # fmt: skip


def prepared(kernels: Kernels, y: Any, x: Any, weight: Any, bias: Any, variant: tuple[bool, int], act: int) -> Any:
    """The call as a function of no arguments."""
    pair, group = variant
    (m, k), n, cluster = x.shape, weight.shape[0], 2 if pair else 1
    room = ctypes.create_string_buffer(ctypes.sizeof(Params) + 64)
    p = Params.from_buffer(room, -ctypes.addressof(room) % 64)
    kernels.describe(ctypes.addressof(p), x, ROWS)
    kernels.describe(ctypes.addressof(p) + 128, weight, COLUMNS // cluster)
    p.y, p.bias, p.pitch = y.data_ptr(), 0 if bias is None else bias.data_ptr(), y.stride(0) * 2
    p.m, p.n, p.steps, p.activation = m, n, -(-k // 64), act
    p.rows, p.columns, p.group = -(-m // (ROWS * cluster)) * cluster, -(-n // COLUMNS), group
    p.vectors = int(n % 4 == 0 and y.stride(0) % 4 == 0)
    kind = "bfloat16" if x.dtype == torch.bfloat16 else "float16"
    function = kernels.function(f"linear_{'pair' if pair else 'single'}_{kind}", SHARED)
    many = torch.cuda.get_device_properties(0).multi_processor_count // cluster
    grid = min(many, p.rows // cluster * p.columns) * cluster
    attributes = (Attribute * 2)(Attribute(4, 0, (cluster, 1, 1)), Attribute(6, 0, (1,)))
    pointer = (ctypes.c_void_p * 1)(ctypes.addressof(p))

    def call() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        config = Config((grid, 1, 1), (THREADS, 1, 1), SHARED, stream, ctypes.addressof(attributes), 2)
        kernels.call("cuLaunchKernelEx", ctypes.byref(config), function, pointer, None)

    call.kept = room, y, x, weight, bias  # type: ignore[attr-defined]
    return call


def check(kernels: Kernels) -> None:
    """Against float64."""
    for (m, n, k), dtype in itertools.product(CHECKED, (torch.bfloat16, torch.float16)):
        x = torch.randn(m, k, device="cuda", dtype=dtype)
        weight = (torch.randn(n, k, device="cuda") / k**0.5).to(dtype)
        bias = torch.randn(n, device="cuda", dtype=dtype)
        wide = x.double() @ weight.double().t()
        for act, pair in itertools.product(range(len(ACTIVATIONS)), PAIRS):
            with_bias = act % 2 == 0
            y = torch.full((m, n), float("nan"), device="cuda", dtype=dtype)
            prepared(kernels, y, x, weight, bias if with_bias else None, (pair, 2), act)()
            torch.cuda.synchronize()
            expected = ACTIVATIONS[act](wide + bias.double() if with_bias else wide)
            bound = expected.abs() * (2**-8 if dtype == torch.bfloat16 else 2**-10) + k**0.5 * 1e-5 * (1 + wide.abs())
            worst = ((y.double() - expected).abs() / bound).max().item()
            if not worst <= 1.0:
                raise SystemExit(f"{m}x{n}x{k} {dtype} pair {pair} activation {act}: {worst} times")
    print(json.dumps({"checked": len(CHECKED) * 2 * len(ACTIVATIONS) * len(PAIRS)}), flush=True)


def graph_of(calls: list[Any]) -> Any:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def times(graphs: dict[str, Any], count: int) -> dict[str, float]:
    """Microseconds a call; graphs in turns."""
    taken: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(REPEATS):
        for name, graph in graphs.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            taken[name].append(begin.elapsed_time(end) * 1000 / count)
    return {name: statistics.median(values) for name, values in taken.items()}


def timed(kernels: Kernels, shape: tuple[int, int, int], groups: list[int]) -> dict[str, float]:
    m, n, k = shape
    count = max(2, -(-ROTATED_BYTES // (n * k * 2)))
    x, y = (
        torch.randn(m, k, device="cuda", dtype=torch.bfloat16),
        torch.empty(m, n, device="cuda", dtype=torch.bfloat16),
    )
    weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    bias = torch.randn(n, device="cuda", dtype=torch.bfloat16)
    graphs = {"cuBLAS": graph_of([lambda w=w: torch.mm(x, w.t(), out=y) for w in weights])}
    for variant in itertools.product(PAIRS, groups):
        name = f"{'pair' if variant[0] else 'single'} group {variant[1]}"
        graphs[name] = graph_of([prepared(kernels, y, x, w, None, variant, 0) for w in weights])
        name += " silu bias"
        graphs[name] = graph_of([prepared(kernels, y, x, w, bias, variant, SILU) for w in weights])
    return times(graphs, count)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cubin", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shapes", default=",".join("x".join(map(str, shape)) for shape in SHAPES))
    parser.add_argument("--groups", default="4,8,16")
    asked = parser.parse_args()
    kernels, lines = Kernels(asked.cubin), []
    check(kernels)
    for text in asked.shapes.split(","):
        m, n, k = (int(part) for part in text.split("x"))
        found = timed(kernels, (m, n, k), [int(group) for group in asked.groups.split(",")])
        rounded = {name: round(value, 1) for name, value in sorted(found.items(), key=lambda pair: pair[1])}
        lines.append(json.dumps({"shape": text, "device": torch.cuda.get_device_name(), "us": rounded}))
        print(lines[-1], flush=True)
        if asked.out:
            asked.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
