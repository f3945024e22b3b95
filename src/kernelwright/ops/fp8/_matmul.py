# SPDX-License-Identifier: MIT
"""matmul_fp8: what is refused, the definition in plain torch, cases, the check without torch."""

from __future__ import annotations

import ctypes
import random
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._byte_products import FLOATS, check_codes, check_factors, dtypes, scaled, sums
from kernelwright.ops._record import Case, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops._tensors import settled
from kernelwright.ops.fp8._rows import number
from kernelwright.ops.linear._cases import activated as activated_number
from kernelwright.ops.linear._reference import ACTIVATIONS, activated

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.ops._selfcheck import Place

NAME = "matmul_fp8"


# --- what is refused ------------------------------------------------------------


def check(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    activation: str,
    dtype: Any,
) -> None:
    check_codes(NAME, x, weight, "float8_e4m3fn")
    if activation not in ACTIVATIONS:
        raise InvalidArgument(
            f"{NAME}: activation is {activation!r}, but must be None or one of {', '.join(ACTIVATIONS[1:])}"
        )
    if dtype not in dtypes(*FLOATS, "float64"):
        raise InvalidArgument(
            f"{NAME}: dtype is {dtype}, but must be torch.float32, torch.float16, torch.bfloat16 or torch.float64"
        )
    check_factors(NAME, x, weight, x_scale, weight_scale, bias)


# --- in plain torch ----------------------------------------------------------------


def matmul(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    activation: str,
    dtype: Any,
) -> Tensor:
    import torch

    value = scaled(sums(x, weight), x_scale, weight_scale)
    return settled(activated(value if bias is None else value + bias.to(torch.float64), activation), dtype)


def dequantized(codes: Tensor, scale: Tensor | None, dtype: Any) -> Tensor:
    """What codes stand for, rounded once."""
    if scale is None:
        return codes.to(dtype)
    return (codes.float() * scale.unsqueeze(-1)).to(dtype)


def by_torch(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    activation: str,
    dtype: Any,
) -> Tensor:
    """Torch's product of what the codes stand for, in the type of the result."""
    from kernelwright.ops.linear._reference import by_torch as linear

    given = None if bias is None else bias.to(dtype)
    return linear(dequantized(x, x_scale, dtype), dequantized(weight, weight_scale, dtype), given, activation)


def terms(
    x: Tensor,
    weight: Tensor,
    x_scale: Tensor | None,
    weight_scale: Tensor | None,
    bias: Tensor | None,
    activation: str,
    dtype: Any,  # noqa: ARG001 - the operator's arguments
) -> tuple[Tensor]:
    """What the sums are made of, times how steep the activation is there, at most."""
    sizes = scaled(sums(x.double().abs(), weight.double().abs()), x_scale, weight_scale)
    if bias is not None:
        sizes = sizes + bias.abs()
    if activation == "squared_relu":
        z = scaled(sums(x, weight), x_scale, weight_scale)
        z = z if bias is None else z + bias
        return (sizes * (2 * z.relu() + 0.02 * sizes),)
    return (1.2 * sizes,)


# --- cases ------------------------------------------------------------------------

# Of the terms what tensor cores lose: of 128 of k they keep sums, four times, to 14 bits. Of 16-bit results half a
# unit, and what torch's product rounds.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-30, 1e-12),
    "float32": Tolerance(2e-6, 1e-7, 2.0**-10),
    "float16": Tolerance(2.0**-11 * 1.02, 1e-7, 2.0**-10),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 1e-7, 2.0**-8),
}
_SIZES = (  # m, n, k
    (1, 1, 1), (1, 7, 16), (2, 40, 48), (3, 5, 0), (0, 8, 16), (4, 0, 16), (8, 33, 144), (9, 64, 128),
    (16, 100, 1040), (5, 96, 2064), (17, 40, 32), (20, 300, 272), (40, 33, 80), (64, 64, 31), (70, 65, 130),
    (130, 257, 144), (129, 300, 400), (300, 520, 272), (257, 24, 1040), (33, 1000, 16), (1, 600, 512), (24, 100, 96),
)  # fmt: skip
_KINDS = (  # result, scales, bias
    ("bfloat16", True, "bfloat16"), ("float16", True, "float16"), ("bfloat16", True, None),
    ("float32", True, "float32"), ("float32", False, None), ("bfloat16", True, "float32"),
)  # fmt: skip


def _case(m: int, n: int, k: int, kind: tuple[str, bool, str | None], activation: str) -> Case:
    out, scaled, bias = kind
    return Case("default", (m, k), out, {"n": n, "scaled": scaled, "bias": bias, "activation": activation})


def _activation(place: int) -> str:
    return ACTIVATIONS[place % len(ACTIVATIONS)]


CASES = (
    *(_case(3, 12, k, kind, _activation(place)) for k in (33, 64) for place, kind in enumerate(_KINDS)),
    *(
        _case(*sizes, kind, _activation(place + shift))
        for place, sizes in enumerate(_SIZES)
        for shift, kind in enumerate((_KINDS * 2)[place % 6 :: 2][:3])
    ),
    *(_case(140, 200, 144, _KINDS[place % 3], name) for place, name in enumerate(ACTIVATIONS)),
    Case("default", (16,), "float32", {"n": 5, "scaled": True, "bias": "float32", "activation": "silu"}),
    Case("default", (2, 3, 32), "float16", {"n": 9, "scaled": True, "bias": None, "activation": "none"}),
)
_LAYERS = ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 14336, 4096), (256, 28672, 8192))
_FEW = (*((m, 28672, 8192) for m in (1, 2, 4, 8, 16, 32, 64)), (1, 4096, 4096))
BENCHMARKS = (
    *(_case(*sizes, ("bfloat16", True, None), "none") for sizes in (*_LAYERS, *_FEW)),
    _case(8192, 8192, 8192, ("bfloat16", True, "bfloat16"), "silu"),
)


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """Codes as quantized rows have them, and scales by which sums are as wide as the normal distribution, or twice."""
    import torch

    (*rows, k), n, options = case.shape, case.options["n"], case.options

    def codes(*shape: int) -> Any:
        values = torch.randn(shape, generator=generator, device=device) * (120.0 if options["scaled"] else 1.0)
        return values.clamp(-448, 448).to(torch.float8_e4m3fn)

    def scales(*shape: int) -> Any:
        if not options["scaled"]:
            return None
        return (torch.rand(shape, generator=generator, device=device) + 0.5) / (120.0 * max(k, 1) ** 0.25)

    bias = None
    if options["bias"]:
        bias = torch.randn(n, generator=generator, device=device).to(getattr(torch, options["bias"]))
    dtype = getattr(torch, case.dtype)
    return codes(*rows, k), codes(n, k), scales(*rows), scales(n), bias, options["activation"], dtype


# --- the check of the C function without torch ------------------------------------

_M, _N, _K, _STRIDE = 5, 7, 19, 24


def _once(place: Place, dtype: str, activation: str, draw: random.Random) -> float:
    x, weight = ([draw.choice((0, 128)) | draw.randrange(0x7F) for _ in range(rows * _STRIDE)] for rows in (_M, _N))
    of_x, of_weight, bias = (
        rounded("float32", [draw.uniform(0.5, 2) * by for _ in range(count)])
        for count, by in ((_M, 1e-2), (_N, 1e-3), (_N, 1.0))
    )
    found = pack(dtype, [7.0] * (_M * _STRIDE))
    place.call(
        "kw_matmul_fp8", place.device, None, found, _STRIDE, (ctypes.c_ubyte * len(x))(*x), _STRIDE,
        (ctypes.c_ubyte * len(weight))(*weight), _STRIDE, pack("float32", of_x), pack("float32", of_weight),
        pack("float32", bias), _M, _N, _K, ACTIVATIONS.index(activation), place.constants[f"KW_{dtype.upper()}"],
        place.constants["KW_FLOAT32"],
    )  # fmt: skip
    expected = [7.0] * (_M * _STRIDE)
    for row in range(_M):
        for column in range(_N):
            products = (number(x[row * _STRIDE + i]) * number(weight[column * _STRIDE + i]) for i in range(_K))
            total = sum(products) * of_x[row] * of_weight[column] + bias[column]
            expected[row * _STRIDE + column] = activated_number(total, activation)
    relative = {"float32": 2e-5, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    return compare(f"{NAME}, {dtype}, {activation}", unpack(dtype, found), expected, relative, 1e-3)


def selfcheck(place: Place) -> str:
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    worst = max(_once(place, dtype, name, draw) for dtype in FLOATS for name in ACTIVATIONS)
    return f"three types and six activations, {100 * worst:.0f} % of the error allowed"
