# SPDX-License-Identifier: MIT
"""The products with experts' 4-bit weights in plain torch, their cases and their unavoidable work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.ops._record import SIZES, Case
from kernelwright.ops._tensors import settled, without_autocast
from kernelwright.ops.four_bit import _cases as four_bit_cases
from kernelwright.ops.four_bit import _reference as reference
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


# --- the definition -----------------------------------------------------------------


def owners(ends: Tensor, m: int) -> Tensor:
    """Which expert each of m rows of x is for; as many as there are experts: none."""
    import torch

    last = ends.reshape(-1).long().clamp(0, m)
    last = torch.cummax(last, 0).values if last.numel() else last
    return torch.searchsorted(last, torch.arange(m, device=ends.device), right=True)


def _wide(x: Tensor) -> Any:
    import torch

    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _product(x: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Rows of x times the matrix [k, n] of the expert that each is for."""
    import torch

    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    owner = owners(ends, rows.shape[0]).unsqueeze(1)
    y = rows.new_zeros((rows.shape[0], matrices.shape[-1]))
    with without_autocast(x.device):
        for number, matrix in enumerate(matrices):
            y = torch.where(owner == number, rows @ matrix, y)
    return y.view(*x.shape[:-1], matrices.shape[-1])


def _weights(
    packed: Tensor,
    scales: Sequence[Tensor],
    ends: Tensor,
    shape: tuple[int, int],
    blocksize: int,
    quant_type: str,
    to: Any,
) -> Tensor:
    return reference.weight(packed, scales, (ends.numel(), *shape), blocksize, quant_type, to)


def product(
    x: Tensor, packed: Tensor, scales: Sequence[Tensor], ends: Tensor, n: int, blocksize: int, quant_type: str
) -> Tensor:
    weights = _weights(packed, scales, ends, (n, x.shape[-1]), blocksize, quant_type, _wide(x))
    return settled(_product(x.to(_wide(x)), weights.transpose(1, 2), ends), x.dtype)


def grouped(x: Tensor, packed: Tensor, absmax: Tensor, ends: Tensor, n: int, blocksize: int, quant_type: str) -> Tensor:
    return product(x, packed, (absmax,), ends, n, blocksize, quant_type)


def nested(
    x: Tensor,
    packed: Tensor,
    codes: Tensor,
    absmax2: Tensor,
    map: Tensor,  # noqa: A002 - the schema's name
    offset: Tensor,
    ends: Tensor,
    n: int,
    blocksize: int,
    quant_type: str,
) -> Tensor:
    return product(x, packed, (codes, absmax2, map, offset), ends, n, blocksize, quant_type)


def transposed(
    x: Tensor, packed: Tensor, absmax: Tensor, ends: Tensor, k: int, blocksize: int, quant_type: str
) -> Tensor:
    weights = _weights(packed, (absmax,), ends, (x.shape[-1], k), blocksize, quant_type, _wide(x))
    return settled(_product(x.to(_wide(x)), weights, ends), x.dtype)


def terms(*arguments: Any) -> tuple[Tensor]:
    x, packed, *scales, ends, n, blocksize, quant_type = arguments
    weights = _weights(packed, scales, ends, (n, x.shape[-1]), blocksize, quant_type, x.dtype)
    return (_product(x.abs(), weights.abs().transpose(1, 2), ends),)


def terms_of_transposed(*arguments: Any) -> tuple[Tensor]:
    x, packed, absmax, ends, k, blocksize, quant_type = arguments
    weights = _weights(packed, (absmax,), ends, (x.shape[-1], k), blocksize, quant_type, x.dtype)
    return (_product(x.abs(), weights.abs(), ends),)


# --- cases ----------------------------------------------------------------------------

# Shape of x, experts, n, block size. Experts share no block: n * k is a multiple of it, with quantized scales of 256
# times it, or there is one expert.
_SIZES: tuple[tuple[tuple[int, ...], int, int, int], ...] = (
    ((3, 33), 1, 5, 32),
    ((3, 8), 3, 4, 32),
    ((2, 5), 1, 3, 32),
    ((3, 33), 3, 32, 32),
    ((3, 64), 4, 8, 64),
    ((3, 64), 2, 128, 32),
    ((17, 96), 5, 24, 32),
    ((9, 40), 3, 20, 32),
    ((2, 3, 32), 7, 33, 32),
    ((70, 128), 2, 64, 128),
    ((130, 160), 3, 80, 64),
    ((40, 1088), 2, 16, 64),
    ((64,), 3, 8, 64),
    ((40, 64), 70, 8, 32),
    ((50, 64), 40, 128, 32),
    ((33, 256), 2, 64, 64),
    ((3, 32), 0, 4, 32),
    ((0, 64), 2, 8, 64),
    ((4, 0), 2, 8, 64),
    ((4, 64), 2, 0, 64),
)
_SPREADS = ("random", "odd", "even")


def _fits(overload: str, shape: tuple[int, ...], experts: int, n: int, blocksize: int) -> bool:
    block = blocksize * (four_bit.SCALES_A_BLOCK if overload == "nested" else 1)
    return experts <= 1 or n * shape[-1] % block == 0


def _cases() -> tuple[Case, ...]:
    found, kinds = [], tuple(four_bit.VALUES)
    for overload in ("default", "nested", "transposed"):
        for number, (shape, experts, n, blocksize) in enumerate(_SIZES):
            for place, dtype in enumerate(four_bit_cases.DTYPES):
                options: dict[str, Any] = {"experts": experts, "n": n, "blocksize": blocksize}
                options |= {"quant_type": kinds[(number + place) % 2], "spread": _SPREADS[(number + place) % 3]}
                if _fits(overload, shape, experts, n, blocksize):
                    found.append(Case(overload, shape, dtype, options))
    return tuple(found)


CASES = _cases()
BENCHMARKS = tuple(
    Case(
        "default",
        (rows, k),
        "bfloat16",
        {"experts": 8, "n": n, "blocksize": 64, "quant_type": "nf4", "spread": "even"},
    )
    for n, k in ((1536, 2048), (28672, 4096), (4096, 14336))
    for rows in (2, 32, 1024)
)


def _ends(case: Case, m: int, device: Any, generator: Any) -> Any:
    """Where experts' rows end: anywhere in order, evenly, or as nobody should give them."""
    import torch

    experts, spread = case.options["experts"], case.options["spread"]
    if spread == "even":
        return torch.arange(1, experts + 1, device=device, dtype=torch.int32) * m // max(1, experts)
    drawn = torch.randint(-2, m + 4, (experts,), generator=generator, device=device, dtype=torch.int32)
    return drawn if spread == "odd" else drawn.clamp(0, m).sort().values.int()


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    """Where it is transposed, `n` is the number of columns all the same."""
    import torch

    experts, n = case.options["experts"], case.options["n"]
    weight = four_bit_cases.held(experts * n * case.shape[-1], case, device, generator)
    x = torch.randn(case.shape, generator=generator, device=device).to(getattr(torch, case.dtype))
    ends = _ends(case, math.prod(case.shape[:-1]), device, generator)
    return (x, *weight, ends, n, case.options["blocksize"], case.options["quant_type"])


def traffic(case: Case) -> int:
    """With the weights of as many experts as there are rows of x, or all."""
    *lead, k = case.shape
    m, n, experts = math.prod(lead), case.options["n"], case.options["experts"]
    held = four_bit_cases.held_bytes(min(m, experts) * n * k, case)
    return held + m * (k + n) * SIZES[case.dtype] + 4 * experts


def flops(case: Case) -> int:
    return 2 * math.prod(case.shape) * case.options["n"]
