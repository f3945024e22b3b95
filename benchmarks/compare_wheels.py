# SPDX-License-Identifier: MIT
"""Times the norms of two wheels in turns, in one process: has the second become slower than the first?

    python benchmarks/compare_wheels.py OLD NEW [--out FILE] [--seconds N] [--only REGEX]

OLD and NEW are wheels, or folders that have `kernelwright/`. Both libraries are opened beside each other and called
through the C ABI, so that nothing but the kernels and their launches is measured. A case is a CUDA graph of calls over
buffers that have left L2 when their turn comes again; the wheels' graphs are replayed in random turns, medians count.
Results of both are compared first. `model` cases are what models have (goals.toml weighs them), `odd` ones are rows off
16 bytes and views. Printed: each case, then geometric mean and worst of each group as NEW's time over OLD's.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import random
import re
import statistics
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODES = {"float32": 0, "float16": 1, "bfloat16": 2}
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}
TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}  # of a value; sums over rows have more terms
WIDTHS = (2048, 2560, 4096, 5120, 7168, 8192, 12288, 14336, 16384, 20480, 28672)
ROWS = (1, 64, 512, 4096, 32768)
ODD = ((1342177, 100), (2670, 50257), (261632, 513), (10000, 10001), (512, 4097), (500000, 250))
VIEWS = ((8192, 4096), (2048, 16384))
PASSES = {"default": 2, "residual": 4, "backward": 3, "backward+dsum": 4}
POOL = 6 << 30  # bytes of a case's buffers, at most
CHECKED = 1 << 26  # elements of a tensor that are compared
EPS = 1e-6


@dataclass(frozen=True)
class Case:
    """One call: `shift` moves every tensor of rows by as many elements, `apart` the first input alone."""

    group: str
    op: str
    overload: str
    rows: int
    cols: int
    dtype: str
    shift: int = 0
    apart: int = 0

    def __str__(self) -> str:
        where = f"+{self.shift}" * bool(self.shift) + f"+x{self.apart}" * bool(self.apart)
        return f"{self.group} {self.op} {self.overload} {self.rows}x{self.cols}{where} {self.dtype}"

    @property
    def bytes(self) -> int:
        return self.rows * self.cols * SIZES[self.dtype] * PASSES[self.overload]


def cases() -> Iterator[Case]:
    for op in ("rms_norm", "layer_norm"):
        for overload in PASSES:
            for cols in WIDTHS:
                for rows in ROWS:
                    if rows * cols <= 1 << 28:
                        yield Case("model", op, overload, rows, cols, "bfloat16")
                    if rows in (64, 4096) and cols in (4096, 8192, 12288, 28672):
                        yield Case("model", op, overload, rows, cols, "float32")
                        yield Case("model", op, overload, rows, cols, "float16")
            for rows, cols in ODD:
                yield Case("odd", op, overload, rows, cols, "bfloat16")
            for dtype in ("float32", "float16"):
                yield Case("odd", op, overload, 1335, 50257, dtype)
                yield Case("odd", op, overload, 671088, 100, dtype)
            for rows, cols in VIEWS:
                yield Case("odd", op, overload, rows, cols, "bfloat16", shift=1)
                yield Case("odd", op, overload, rows, cols, "bfloat16", apart=1)


class Wheel:
    """The library of a wheel, or of a folder that one was unpacked to."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.path = path
        if path.is_file():
            zipfile.ZipFile(path).extractall(scratch)
            path = scratch
        package = path / "kernelwright"
        if not (package / "signatures.json").is_file():
            raise SystemExit(f"{self.path}: neither a wheel of kernelwright nor a folder that has kernelwright/")
        self.handle = ctypes.CDLL(str(package / "lib" / "libkernelwright.so"))
        self.handle.kw_last_error.restype = ctypes.c_char_p
        self.functions = {
            name: self._bind(name, signature["arguments"])
            for name, signature in json.loads((package / "signatures.json").read_text())["functions"].items()
            if re.fullmatch(r"kw_(rms|layer)_norm(_backward(_workspace)?)?", name)
        }

    def _bind(self, name: str, arguments: list[tuple[str, str]]) -> Callable[..., None]:
        function = getattr(self.handle, name)
        kinds = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "double": ctypes.c_double}
        function.argtypes = [kinds.get(spelling, ctypes.c_void_p) for _, spelling in arguments]

        def call(*given: Any) -> None:
            if function(*given):
                raise RuntimeError(f"{self.path}: {self.handle.kw_last_error().decode()}")

        return call

    def workspace(self, case: Case) -> int:
        found = ctypes.c_int64()
        self.functions[f"kw_{case.op}_backward_workspace"](0, case.rows, case.cols, ctypes.addressof(found))
        return found.value


class Buffers:
    """The tensors of one call, side by side in a pool of numbers; outputs too, of which each wheel has its own."""

    def __init__(self, case: Case, pool: Any, start: int, workspace: int) -> None:
        self.case, self.pool, self.at = case, pool, start
        self.rows = [self._take(case.rows * case.cols, case.shift) for _ in range(PASSES[case.overload])]
        if case.apart:
            self.rows[0] = self._take(case.rows * case.cols, case.apart)
        self.columns = [self._take(case.cols, 0) for _ in range(4)]
        self.scratch = self._take(-(-workspace // SIZES[case.dtype]), 0), workspace
        self.bytes = self.at - start

    def _take(self, elements: int, shift: int) -> int:
        """Where it begins, in bytes from the pool's first."""
        size = SIZES[self.case.dtype]
        found = self.at + shift * size
        self.at += -(-(elements + shift) * size // 256) * 256
        return found

    def view(self, start: int, *shape: int) -> Any:
        import torch

        size = math.prod(shape) * SIZES[self.case.dtype]
        return self.pool[start : start + size].view(getattr(torch, self.case.dtype)).view(shape)

    def results(self) -> list[Any]:
        """Copies of what the call wrote, as far as it is compared."""
        import torch

        case, few = self.case, max(1, min(self.case.rows, CHECKED // self.case.cols))
        rows = [self.view(start, case.rows, case.cols)[:few] for start in self.outputs()]
        columns = self.columns[2 : 3 + (case.op == "layer_norm")] if "backward" in case.overload else []
        both = (*rows, *(self.view(start, case.cols) for start in columns))
        return [tensor.to(torch.float32, copy=True) for tensor in both]

    def outputs(self) -> list[int]:
        return self.rows[-2:] if self.case.overload == "residual" else self.rows[-1:]

    def call(self, wheel: Wheel) -> Callable[[], None]:
        import torch

        case, base, stride = self.case, self.pool.data_ptr(), self.case.cols
        code, centered = CODES[case.dtype], case.op == "layer_norm"
        rows, columns = [base + start for start in self.rows], [base + start for start in self.columns]
        tail = (case.rows, case.cols, code, code, EPS)
        middle: tuple[Any, ...]
        if "backward" in case.overload:
            function = wheel.functions[f"kw_{case.op}_backward"]
            dsum = rows[2] if "dsum" in case.overload else None
            sums, given = columns[2 : 3 + centered], (None,) * (1 + centered)
            scratch = (base + self.scratch[0], self.scratch[1])
            middle = (rows[-1], stride, *sums, rows[0], stride, dsum, stride, rows[1], stride)
            middle = (*middle, columns[0], *given, *scratch)
        else:
            function = wheel.functions[f"kw_{case.op}"]
            both = case.overload == "residual"
            sum_, residual = (rows[3], rows[1]) if both else (None, None)
            middle = (rows[2 if both else 1], stride, sum_, stride, rows[0], stride, residual, stride)
            middle = (*middle, *columns[: 1 + centered], *(None,) * (1 + centered))
        return lambda: function(0, torch.cuda.current_stream().cuda_stream, *middle, *tail)


def differing(case: Case, buffers: Buffers, wheels: list[Wheel]) -> str | None:
    """What the wheels' results differ in; none may have left anything unwritten."""
    found = []
    for wheel in wheels:
        for start in buffers.outputs():
            buffers.view(start, case.rows, case.cols).fill_(math.nan)
        buffers.call(wheel)()
        found.append(buffers.results())
    for number, (a, b) in enumerate(zip(*found, strict=True)):
        terms = math.sqrt(case.rows) if b.dim() == 1 else 1.0
        off = (a - b).abs() / (b.abs() + terms)
        worst = float(off.nan_to_num(nan=math.inf).max())
        if worst > TOLERANCE[case.dtype]:
            return f"result {number} differs by {worst:.3g} of its value"
    return None


def timed(case: Case, pool: Any, wheels: list[Wheel], gpu: Any, us: float) -> tuple[list[float], str | None]:
    """Median microseconds a call of each wheel, in random turns of about `us` for each; and what differs."""
    import torch

    from kernelwright.bench.harness.cuda import Graph

    workspace = max(wheel.workspace(case) for wheel in wheels) if "backward" in case.overload else 0
    one = Buffers(case, pool, 0, workspace)
    count = max(1, min(gpu.sets(case.bytes), pool.numel() // one.bytes))
    # What cases before have left there need not be numbers of this type. Pairs of bfloat16 make a float32, too.
    pool[: count * one.bytes].view(torch.bfloat16).normal_()
    wrong = differing(case, one, wheels)
    sets = [Buffers(case, pool, index * one.bytes, workspace) for index in range(count)]
    again = -(-min(64, gpu.calls(case.bytes, 0)) // count)
    graphs = [Graph(lambda wheel=wheel: [own.call(wheel) for own in sets] * again) for wheel in wheels]  # type: ignore[misc]
    rough = [graph.replay(gpu.filler) * len(graph.calls) for graph in graphs]
    rounds = max(5, min(31, int(us / max(rough))))
    for _ in range(rounds):
        for graph in random.sample(graphs, len(graphs)):
            graph.samples.append(graph.replay(gpu.filler))
    return [statistics.median(graph.samples) for graph in graphs], wrong


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """By group and direction: the geometric mean of NEW / OLD, the worst case, how many there are."""
    found: dict[str, Any] = {}
    for record in records:
        direction = "backward" if "backward" in record["case"] else "forward"
        for name in (record["group"], f"{record['group']} {direction}"):
            found.setdefault(name, []).append(record)
    return {
        name: {
            "geomean": math.exp(statistics.fmean(math.log(r["ratio"]) for r in some)),
            "worst": max(some, key=lambda r: r["ratio"])["ratio"],
            "worst_case": max(some, key=lambda r: r["ratio"])["case"],
            "cases": len(some),
        }
        for name, some in sorted(found.items())
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs=2, type=Path, metavar="WHEEL")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON, written after each case")
    parser.add_argument("--seconds", type=float, default=280.0, help="cases are left out when so many have passed")
    parser.add_argument("--only", default="", metavar="REGEX", help='such as "model .*backward"')
    asked = parser.parse_args()
    import torch

    from kernelwright.bench.harness.cuda import Gpu

    begun, gpu = time.monotonic(), Gpu()
    records: list[dict[str, Any]] = []
    chosen = [case for case in cases() if re.search(asked.only, str(case))]
    random.Random(0).shuffle(chosen)  # noqa: S311 - what is left out for want of time is of every kind
    pool = torch.randn(POOL // 2, device="cuda", dtype=torch.bfloat16).view(torch.uint8)
    with tempfile.TemporaryDirectory() as scratch:
        wheels = [Wheel(path, Path(scratch, str(number))) for number, path in enumerate(asked.wheels)]
        about = {"device": gpu.name, **gpu.facts(), "torch": torch.__version__, "wheels": [str(w.path) for w in wheels]}
        print(about, flush=True)
        for case in chosen:
            if time.monotonic() - begun > asked.seconds:
                print(f"{len(chosen) - len(records)} cases left out: {asked.seconds:.0f} seconds have passed")
                break
            us, wrong = timed(case, pool, wheels, gpu, 15_000.0)
            record = {"case": str(case), "group": case.group, "us": us, "ratio": us[1] / us[0], "wrong": wrong}
            records.append(record)
            print(f"{record['ratio']:.3f} {us[0]:9.2f} {us[1]:9.2f} {case} {wrong or ''}", flush=True)
            if asked.out:
                found = {**about, "summary": summary(records), "cases": records}
                asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, group in summary(records).items():
        worst = f"worst {group['worst']:.3f} ({group['worst_case']})"
        print(f"{name}: {group['cases']} cases, geometric mean {group['geomean']:.4f}, {worst}")
    wrongs = [record for record in records if record["wrong"]]
    print(f"{len(wrongs)} cases differ")
    return int(bool(wrongs))


if __name__ == "__main__":
    sys.exit(main())
