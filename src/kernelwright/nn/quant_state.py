# SPDX-License-Identifier: MIT
"""What a 4-bit weight needs beside its packed codes, in memory and in a checkpoint."""

from __future__ import annotations

import json
import weakref
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.ops._tensors import unusual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch import Tensor

__all__ = ["QuantState"]

# The names that bitsandbytes gives the parts in a checkpoint. What is no tensor stands as JSON in one tensor of bytes.
PACKED = "quant_state.bitsandbytes__"
_TENSORS = ("absmax", "quant_map", "nested_absmax", "nested_quant_map")
_VALUES = ("quant_type", "blocksize", "dtype", "shape", "nested_blocksize", "nested_dtype", "nested_offset")
_DTYPES = ("float32", "float16", "bfloat16")
_NESTED = {name for name in _TENSORS + _VALUES if name.startswith("nested_")}


_codes: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
"""The values of states, by address: a C function is given the address alone."""


def _note(code: Any) -> None:
    if type(code) in (torch.Tensor, torch.nn.Parameter) and code.is_cuda:  # of others some have no address
        _codes[code.data_ptr()] = code


def code_at(address: int) -> Tensor | None:
    """The values of a living state that lie there."""
    found = _codes.get(address)
    return found if found is not None and found.data_ptr() == address else None


class QuantState:
    """The scales of a 4-bit tensor, its shape and how it was quantized; the names are bitsandbytes'.

    absmax      float32, the largest magnitude of each block; double-quantized: uint8 codes of it
    shape       of the tensor that was quantized
    code        the 16 values that a code stands for, float32
    blocksize   elements that share a scale
    quant_type  "nf4" or "fp4"
    dtype       of the tensor that was quantized, and of what dequantizing gives
    offset, state2  double-quantized only: the mean of the scales, and the QuantState of their 8-bit codes, of which
                absmax (float32, one for 256 codes), code (256 values) and blocksize count

    >>> packed, state = kernelwright.compat.bitsandbytes.functional.quantize_4bit(weight, quant_type="nf4")
    >>> state.as_dict(packed=True).keys()
    """

    def __init__(
        self,
        absmax: Tensor,
        shape: Iterable[int] | None = None,
        code: Tensor | None = None,
        blocksize: int | None = None,
        quant_type: str | None = None,
        dtype: torch.dtype | None = None,
        offset: Tensor | None = None,
        state2: QuantState | None = None,
    ) -> None:
        self.absmax = absmax
        self.shape = None if shape is None else torch.Size(shape)
        self.code = code
        _note(code)
        self.blocksize = blocksize
        self.quant_type = quant_type
        self.dtype = dtype
        self.offset = offset
        self.state2 = state2

    @property
    def nested(self) -> bool:
        """Whether the scales are quantized too."""
        return self.state2 is not None

    def __repr__(self) -> str:
        shape = None if self.shape is None else "x".join(map(str, self.shape))
        double = ", double-quantized" if self.nested else ""
        return f"QuantState({self.quant_type}, {shape}, {self.dtype}, blocksize={self.blocksize}{double})"

    def __getattr__(self, name: str) -> Any:
        """FSDP looks each key of a state dict up attribute by attribute, "bitsandbytes__nf4" too."""
        if name == PACKED.partition(".")[2] + str(self.__dict__.get("quant_type")):
            return self.as_dict(packed=True)[f"quant_state.{name}"]
        raise AttributeError(f"'QuantState' object has no attribute {name!r}")

    def __getitem__(self, index: int) -> Any:
        """As the list that bitsandbytes used before it had this class."""
        nested = [self.offset, self.state2] if self.nested else None
        return [self.absmax, self.shape, self.dtype, self.blocksize, nested, self.quant_type][index]

    def __eq__(self, other: object) -> bool:
        """Equal settings, and every tensor equal bit for bit."""
        if not isinstance(other, QuantState):
            return NotImplemented
        mine, theirs = self.as_dict(), other.as_dict()
        return mine.keys() == theirs.keys() and all(
            torch.equal(value, theirs[key].to(value.device))
            if isinstance(value, torch.Tensor)
            else value == theirs[key]
            for key, value in mine.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def to(self, device: Any) -> QuantState:
        """Moves every tensor, in place as bitsandbytes does; returns itself."""
        return self._change(lambda tensor: tensor.to(device))

    def _change(self, function: Callable[[Tensor], Tensor]) -> QuantState:
        """Replaces every tensor by what `function` makes of it; returns itself."""
        self.absmax = function(self.absmax)
        self.code = None if self.code is None else function(self.code)
        _note(self.code)
        self.offset = None if self.offset is None else function(self.offset)
        if self.state2 is not None:
            self.state2._change(function)  # noqa: SLF001 - of another of this class
        return self

    def copy(self) -> QuantState:
        """Another state with the same tensors: `copy().to(device)` leaves this one where it is."""
        made = QuantState.__new__(QuantState)
        made.__dict__ = dict(self.__dict__)
        made.state2 = None if self.state2 is None else self.state2.copy()
        return made

    def as_dict(self, packed: bool = False) -> dict[str, Any]:
        """The parts by their names in a checkpoint. packed: tensors only, as state dicts and safetensors hold them."""
        found: dict[str, Any] = {
            "quant_type": self.quant_type,
            "absmax": self.absmax,
            "blocksize": self.blocksize,
            "quant_map": self.code,
            "dtype": str(self.dtype).partition(".")[2],
            "shape": None if self.shape is None else tuple(self.shape),
        }
        if self.state2 is not None and self.offset is not None:
            found |= {
                "nested_absmax": self.state2.absmax,
                "nested_blocksize": self.state2.blocksize,
                # A copy: where layers share the map, safetensors would drop all but one of them.
                "nested_quant_map": self.state2.code if self.state2.code is None else self.state2.code.clone(),
                "nested_dtype": str(self.state2.dtype).partition(".")[2],
                "nested_offset": self.offset.item() if packed else float(self.offset),
            }
        if not packed or self.quant_type is None:
            return found
        tensors = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
        values = {name: value for name, value in found.items() if name not in tensors}
        return tensors | {PACKED + self.quant_type: _bytes_of(values)}

    @classmethod
    def from_dict(cls, qs_dict: Mapping[str, Any], device: Any) -> QuantState:
        """The state that `as_dict` gave, packed or not; prefixes of the names ("layer.weight.") do not matter.

        >>> same = QuantState.from_dict(state.as_dict(packed=True), device="cpu")
        """
        parts = _unpacked(qs_dict)
        # Codes of 8 bits have neither type nor shape, and are never packed: then those two are not checked.
        plain = {"quant_type", "shape"} <= qs_dict.keys() and parts["quant_type"] is parts["shape"] is None
        _check_parts({**parts, "quant_type": "nf4", "shape": ()} if plain else parts)
        state2 = offset = None
        if "nested_absmax" in parts:
            offset = torch.tensor(float(parts["nested_offset"]), dtype=torch.float32, device=device)
            state2 = cls(
                parts["nested_absmax"].to(device),
                code=parts["nested_quant_map"].to(device),
                blocksize=parts["nested_blocksize"],
                dtype=getattr(torch, parts["nested_dtype"]),
            )
        return cls(
            parts["absmax"].to(device),
            parts["shape"],
            parts["quant_map"].to(device),
            parts["blocksize"],
            parts["quant_type"],
            getattr(torch, parts["dtype"]),
            offset,
            state2,
        )


def _bytes_of(values: Mapping[str, Any]) -> Tensor:
    return torch.tensor(list(json.dumps(values).encode()), dtype=torch.uint8, device="cpu")


def _unpacked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parts by their last names, with those that stand in the packed tensor."""
    packed = [key for key, value in given.items() if "quant_state" in key and isinstance(value, torch.Tensor)]
    if len(packed) > 1:
        raise InvalidArgument(f"QuantState: {packed} are several packed states, but a 4-bit tensor has one")
    parts = {key.rpartition(".")[2]: value for key, value in given.items() if key not in packed}
    if packed:
        _check_plain(packed[0], given[packed[0]])
        try:
            parts |= json.loads(bytes(given[packed[0]].reshape(-1).tolist()))
        # Of other types too: no bytes, or JSON that is no object, or that is too deep.
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidArgument(
                f"QuantState: {packed[0]} holds no JSON object ({error}): the checkpoint is damaged, or another format"
            ) from error
    return parts


def unreadable(tensor: Tensor) -> str | None:
    """What keeps a part of a checkpoint, which may be any tensor, from being read, in words."""
    return unusual(tensor) or ("on meta, without values" if tensor.is_meta else None)


def _check_plain(name: str, value: Tensor) -> None:
    if kind := unreadable(value):
        raise InvalidArgument(f"QuantState: {name} is {kind}, but must be a plain tensor")


def _check_parts(parts: Mapping[str, Any]) -> None:
    unknown = sorted(parts.keys() - {*_TENSORS, *_VALUES})
    wanted = {*_TENSORS, *_VALUES} if parts.keys() & _NESTED else {*_TENSORS, *_VALUES} - _NESTED
    missing = sorted(wanted - parts.keys())
    if unknown or missing:
        raise InvalidArgument(
            f"QuantState: the parts of a 4-bit tensor lack {', '.join(missing) or 'nothing'} and hold "
            f"{', '.join(unknown) or 'nothing'} too many; a checkpoint of bitsandbytes has {', '.join(_TENSORS[:2])} "
            f"and {PACKED}nf4 or …fp4, double-quantized also {', '.join(_TENSORS[2:])}"
        )
    for name, value in parts.items():
        right, wanted_words = _wanted(name)
        if not right(value):
            shown = f"a {type(value).__name__}" if name in _TENSORS else repr(value)
            raise InvalidArgument(f"QuantState: {name} is {shown}, but must be {wanted_words}")
        if name in _TENSORS:
            _check_plain(name, value)


def _wanted(name: str) -> tuple[Callable[[Any], bool], str]:
    """Whether a part is what it must be, and what that is: a checkpoint may hold anything."""
    if name in _TENSORS:
        return lambda value: isinstance(value, torch.Tensor), "a tensor"
    if name == "quant_type":
        return lambda value: value in ("nf4", "fp4"), "'nf4' or 'fp4'"
    if name.endswith("blocksize"):
        return lambda value: type(value) is int, "a whole number"
    if name.endswith("dtype"):
        return lambda value: value in _DTYPES, f"the name of a type: {', '.join(_DTYPES)}"
    if name == "shape":
        sizes = "a list of sizes, none below 0"
        return lambda value: isinstance(value, (list, tuple)) and all(type(n) is int and n >= 0 for n in value), sizes
    return _is_number, "a number"  # nested_offset


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)):
        return False
    try:
        float(value)
    except OverflowError:  # of hundreds of digits
        return False
    return True
