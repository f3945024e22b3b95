# SPDX-License-Identifier: MIT
"""Maps of 8-bit codes: 256 values in order, equal to those of bitsandbytes' functions of the same names to the bit."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_SIZE = 256


def _here() -> dict[str, Any]:
    """Whatever torch's defaults are."""
    import torch

    return {"dtype": torch.float32, "device": "cpu"}


def _in_order(values: Sequence[float]) -> Tensor:
    """With zeros in the place of codes that the type does not have."""
    import torch

    return torch.tensor(sorted([*values, *[0.0] * (_SIZE - len(values))]), **_here())


def _check_bits(function: str, total_bits: int) -> None:
    if not 1 <= total_bits <= 8:
        raise InvalidArgument(f"{function}: total_bits is {total_bits}, but a code has 1 to 8 bits")


def create_dynamic_map(signed: bool = True, max_exponent_bits: int = 7, total_bits: int = 8) -> Tensor:
    """The dynamic type: the smaller the power of ten, the fewer values there are between it and the next.

    signed             values from -1 to 1, with a 0 between; else from 0 to 1
    max_exponent_bits  how many powers of ten there are; each has twice as many values as the one below
    total_bits         2 to this power codes are used; the others are 0
    """
    import torch

    _check_bits("create_dynamic_map", total_bits)
    rest, values = total_bits - 1 - max_exponent_bits, [0.0, 1.0]

    def add(power: int, count: int) -> None:
        edges = torch.linspace(0.1, 1, count + 1, **_here())
        middles = 10**power * ((edges[:-1] + edges[1:]) / 2.0)
        values.extend(middles.tolist())
        if signed:
            values.extend((-middles).tolist())

    for number in range(max_exponent_bits):
        add(number + 1 - max_exponent_bits, int(2 ** (number + rest + (not signed))))
    if rest > 0:
        add(0, 2**rest - 1)
    if len(values) != 2**total_bits:
        raise InvalidArgument(
            f"create_dynamic_map: {max_exponent_bits} exponent bits of {total_bits} make {len(values)} values, but "
            f"must make {2**total_bits}; max_exponent_bits must be below total_bits"
        )
    return _in_order(values)


def create_linear_map(signed: bool = True, total_bits: int = 8, add_zero: bool = True) -> Tensor:
    """Values as far from each other all along, from -1 (or 0) to 1.

    add_zero  one value fewer where they are signed, so that 0 is among them; always so for fewer than 8 bits
    """
    import torch

    _check_bits("create_linear_map", total_bits)
    centered = signed and (add_zero or total_bits < 8)
    count = 2**total_bits - centered
    values = torch.linspace(-1.0 if signed else 0.0, 1.0, count, **_here())
    zeros, half = torch.zeros(_SIZE - count, **_here()), count // 2
    return torch.cat((values[:half], zeros, values[half:]))


def create_fp8_map(signed: bool = True, exponent_bits: int = 5, precision_bits: int = 2, total_bits: int = 8) -> Tensor:
    """A floating-point type of so many bits, its largest value 1; smaller exponents stand for larger values."""
    _check_bits("create_fp8_map", total_bits)
    if exponent_bits + precision_bits != total_bits - signed:
        raise InvalidArgument(
            f"create_fp8_map: {exponent_bits} bits of exponent, {precision_bits} of precision and "
            f"{int(signed)} of sign are not total_bits={total_bits}"
        )
    bias, values = 2 ** (exponent_bits - 1), []
    for exponent, bits in itertools.product(range(2**exponent_bits), itertools.product((0, 1), repeat=precision_bits)):
        fraction = sum(bit * 2 ** -(place + 1) for place, bit in enumerate(bits))
        value = (1 + fraction) * 2 ** -(exponent - bias - 1) if exponent else fraction * 2**-bias
        values += [value, -value] if signed else [value]
    found = _in_order(values)
    return found / found.max()


def create_normal_map(offset: float = 0.9677083, use_extra_value: bool = True) -> Tensor:
    """Quantiles of the normal distribution, 14 of them (with `use_extra_value` one more above 0), the rest 0. NF4's."""
    from statistics import NormalDist

    import torch

    def quantiles(count: int) -> list[float]:
        return [NormalDist().inv_cdf(p) for p in torch.linspace(offset, 0.5, count, **_here())[:-1].tolist()]

    found = _in_order([*quantiles(9 if use_extra_value else 8), *(-value for value in quantiles(8))])
    return found / found.max()


@cache
def _kept(signed: bool, device: Any) -> Tensor:
    return create_dynamic_map(signed).to(device)


def dynamic_map(signed: bool, device: Any) -> Tensor:
    """The dynamic type's map on a device, made once; not to be written to."""
    return _kept(signed, device)
