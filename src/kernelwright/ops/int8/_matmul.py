# SPDX-License-Identifier: MIT
"""matmul_int8: what is refused, the definition in plain torch, cases, the check without torch."""

from __future__ import annotations

import ctypes
import random
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._byte_products import FLOATS, check_codes, check_factors, dtypes, scaled, sums
from kernelwright.ops._record import Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops._tensors import settled

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.ops._selfcheck import Place

NAME = "matmul_int8"
DEEPEST = 131071
LARGEST = 3e38
BY_ABSMAX = 1.0 / (127 * 127)
"""What the product of two rows' absmax, as quantize_rows_int8 gives it, is multiplied by."""


# --- what is refused ------------------------------------------------------------


def check(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    factor: float,
    dtype: Any,
) -> None:
    import torch

    check_codes(NAME, x, weight, "int8")
    if x.shape[-1] > DEEPEST:
        raise InvalidArgument(
            f"{NAME}: x has shape {tuple(x.shape)}; sums of more than {DEEPEST} products may not fit into int32"
        )
    if dtype == torch.int32:
        given = {"x_scale": x_scale, "weight_scale": weight_scale, "bias": bias}
        names = [name for name, tensor in given.items() if tensor is not None]
        if names:
            raise InvalidArgument(f"{NAME}: dtype is torch.int32, which has the sums alone; leave out {names[0]}")
    elif dtype not in dtypes(*FLOATS, "float64"):
        raise InvalidArgument(
            f"{NAME}: dtype is {dtype}, but must be torch.int32, torch.float32, torch.float16, torch.bfloat16 or "
            "torch.float64"
        )
    if not abs(factor) <= LARGEST:
        raise InvalidArgument(f"{NAME}: factor is {factor}, but must be a finite float32")
    check_factors(NAME, x, weight, x_scale, weight_scale, bias)


# --- in plain torch ----------------------------------------------------------------


def matmul(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    factor: float,
    dtype: Any,
) -> Tensor:
    import torch

    exact = sums(x, weight)
    if dtype == torch.int32:
        return settled(exact, dtype)
    value = scaled(exact, x_scale, weight_scale) * factor
    return settled(value if bias is None else value + bias.to(torch.float64), dtype)


def terms(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    factor: float,
    dtype: Any,
) -> tuple[Tensor]:
    """The scaled sum and the bias may cancel."""
    import torch

    if dtype == torch.int32:
        return (torch.zeros_like(sums(x, weight)),)
    sizes = matmul(x, weight, x_scale, weight_scale, None, factor, torch.float64).abs()
    return (sizes if bias is None else sizes + bias.abs(),)


# --- cases ------------------------------------------------------------------------

TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-30, 1e-12),
    "int32": Tolerance(0.0, 1e-9),
    "float32": Tolerance(1e-6, 1e-30, 5e-7),
    "float16": Tolerance(2.0**-10 * 1.01, 6e-8, 5e-7),  # a unit in the last place: the reference is rounded, too
    "bfloat16": Tolerance(2.0**-7 * 1.01, 1e-30, 5e-7),
}
_SIZES = (  # m, n, k
    (1, 1, 1), (1, 7, 16), (2, 40, 48), (3, 5, 0), (0, 8, 16), (4, 0, 16), (8, 33, 144), (9, 64, 128),
    (16, 100, 1040), (5, 96, 2064), (17, 40, 32), (20, 300, 272), (40, 33, 80), (64, 64, 31), (70, 65, 130),
    (130, 257, 144), (129, 300, 400), (300, 520, 1040), (257, 24, 4112), (33, 1000, 16), (1, 4096, 2048), (24, 100, 96),
)  # fmt: skip
_KINDS = (  # result, scales, bias
    ("int32", False, None), ("float16", True, "float16"), ("bfloat16", True, "float32"), ("float32", True, None),
    ("float16", False, None), ("bfloat16", True, "bfloat16"),
)  # fmt: skip


def _case(m: int, n: int, k: int, kind: tuple[str, bool, str | None]) -> Case:
    out, scaled, bias = kind
    return Case("default", (m, k), out, {"n": n, "scaled": scaled, "bias": bias})


CASES = (
    *(_case(3, 12, k, kind) for k in (33, 64) for kind in _KINDS),
    *(_case(*sizes, kind) for number, sizes in enumerate(_SIZES) for kind in (_KINDS * 2)[number % 6 :: 2][:3]),
    Case("default", (16,), "float32", {"n": 5, "scaled": True, "bias": "float32"}),
    Case("default", (2, 3, 32), "float16", {"n": 9, "scaled": True, "bias": None}),
)
_LAYERS = ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 14336, 4096), (256, 28672, 8192))
_FEW = tuple((m, 28672, 8192) for m in (1, 2, 4, 8, 16, 32, 64))
BENCHMARKS = (
    *(_case(*sizes, ("float16", True, None)) for sizes in (*_LAYERS, *_FEW, (1, 4096, 4096), (512, 4096, 4096))),
    _case(8192, 8192, 8192, ("int32", False, None)),
)


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    *rows, k = case.shape
    n, options = case.options["n"], case.options

    def codes(*shape: int) -> Any:
        return torch.randint(-127, 128, shape, generator=generator, device=device, dtype=torch.int8)

    def scales(*shape: int) -> Any:
        return (torch.rand(shape, generator=generator, device=device) + 0.5) if options["scaled"] else None

    bias = None
    if options["bias"]:
        bias = torch.randn(n, generator=generator, device=device).to(getattr(torch, options["bias"]))
    factor = 1.0 if case.dtype == "int32" else BY_ABSMAX / (8 if options["scaled"] else 64)
    dtype = getattr(torch, case.dtype)
    return codes(*rows, k), codes(n, k), scales(*rows), scales(n), bias, factor, dtype


# --- the check of the C function without torch ------------------------------------

_M, _N, _K, _STRIDE = 5, 7, 19, 24


def _bytes(values: list[int]) -> Any:
    return ctypes.create_string_buffer(bytes(v & 255 for v in values), len(values))


def _once(place: Place, dtype: str, draw: random.Random) -> float:
    x, weight = ([draw.randint(-127, 127) for _ in range(rows * _STRIDE)] for rows in (_M, _N))
    of_x, of_weight, bias = (rounded("float32", [draw.uniform(0.5, 2) for _ in range(count)]) for count in (_M, _N, _N))
    found = pack(dtype, [7.0] * (_M * _STRIDE))
    place.call(
        "kw_matmul_int8", place.device, None, found, _STRIDE, _bytes(x), _STRIDE, _bytes(weight), _STRIDE,
        pack("float32", of_x), pack("float32", of_weight), pack("float32", bias), _M, _N, _K,
        place.constants[f"KW_{dtype.upper()}"], place.constants["KW_FLOAT32"], BY_ABSMAX,
    )  # fmt: skip
    expected = [7.0] * (_M * _STRIDE)
    for row in range(_M):
        for column in range(_N):
            total = sum(x[row * _STRIDE + i] * weight[column * _STRIDE + i] for i in range(_K))
            expected[row * _STRIDE + column] = total * of_x[row] * of_weight[column] * BY_ABSMAX + bias[column]
    relative = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    return compare(f"{NAME}, {dtype}", unpack(dtype, found), expected, relative, 1e-5)


def _sums(place: Place, draw: random.Random) -> float:
    x, weight = ([draw.randint(-127, 127) for _ in range(rows * _STRIDE)] for rows in (_M, _N))
    found = (ctypes.c_int32 * (_M * _N))()
    place.call(
        "kw_matmul_int8", place.device, None, found, _N, _bytes(x), _STRIDE, _bytes(weight), _STRIDE, None, None, None,
        _M, _N, _K, place.constants["KW_INT32"], place.constants["KW_FLOAT32"], 1.0,
    )  # fmt: skip
    expected = [
        float(sum(x[row * _STRIDE + i] * weight[column * _STRIDE + i] for i in range(_K)))
        for row in range(_M)
        for column in range(_N)
    ]
    return compare(f"{NAME}, int32", [float(v) for v in found], expected, 0, 1e-30)


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = max(_sums(place, draw), *(_once(place, dtype, draw) for dtype in FLOATS))
    return f"sums and three types, {100 * worst:.0f} % of the error allowed"
