# SPDX-License-Identifier: MIT
"""The parameter of 4-bit layers: a weight until it is moved to a device, packed codes from then on."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _four_bit
from kernelwright.nn.quant_state import QuantState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

__all__ = ["Params4bit"]

# What a parameter holds beside its tensor. Loaders (transformers, accelerate) make one of another's `__dict__`.
_PARTS = (torch.chunk, torch.split, torch.Tensor.chunk, torch.Tensor.split)
_SETTINGS = (
    "quant_state",
    "blocksize",
    "compress_statistics",
    "quant_type",
    "quant_storage",
    "bnb_quantized",
    "module",
)


class Params4bit(torch.nn.Parameter):
    """A weight that is quantized when it is first moved to a device with `.to(device)`, `.cuda()` or `.cpu()`.

    Arguments and attributes are those of bitsandbytes' class of this name.

    data            the weight, float32, float16 or bfloat16; with quant_state: its packed codes
    quant_type      "nf4" or "fp4"
    blocksize       elements that share a scale: 32, 64, 128, … 4096; None: 64
    compress_statistics  whether the scales are quantized too (double quantization)
    quant_storage   the type that the packed bytes are seen as. FSDP shards parameters of one type together, so that
                    it wants that of the other parameters here
    module          a layer that gets the quant_state too, when this weight is quantized

    Unlike bitsandbytes' it keeps its codes when a model is converted to another type: `.half()`, `.double()`,
    `.type(dtype)` and `.to(dtype)` change no quantized weight, whatever its quant_storage is.

    >>> weight = Params4bit(torch.randn(64, 128), quant_type="nf4").to("cpu")
    >>> weight
    >>> weight.dequantize().shape
    """

    data: Any
    quant_state: QuantState | None
    module: Any

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Results are plain tensors, but for the parts of a weight. Layers keep their calls of operators from coming
        here, which costs microseconds."""
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - it has no public name
            found = func(*args, **(kwargs or {}))
        if func in _PARTS and isinstance(args[0], Params4bit):
            return type(found)(args[0]._with(part) for part in found)  # noqa: SLF001
        return found

    def __new__(  # noqa: PYI034 - typing has no Self before Python 3.11
        cls,
        data: Tensor | None = None,
        requires_grad: bool = False,
        quant_state: QuantState | None = None,
        blocksize: int | None = None,
        compress_statistics: bool | None = True,
        quant_type: str = "fp4",
        quant_storage: torch.dtype = torch.uint8,
        module: torch.nn.Module | None = None,
        bnb_quantized: bool = False,
        **_: Any,  # what a loader has noted on the parameter that this one replaces
    ) -> Params4bit:
        if quant_state is not None and not bnb_quantized and data is not None and data.shape == quant_state.shape:
            quant_state = None  # peft, when it merges: a whole weight with all that was noted on its codes
        if quant_state is None and not bnb_quantized:
            _four_bit.check_settings(quant_type, blocksize or 64, quant_storage)
        self = torch.Tensor._make_subclass(cls, torch.empty(0) if data is None else data, requires_grad)  # noqa: SLF001
        self.quant_state = quant_state
        self.blocksize = blocksize or 64
        self.compress_statistics = compress_statistics
        self.quant_type = quant_type
        self.quant_storage = quant_storage
        self.bnb_quantized = bnb_quantized or quant_state is not None
        self.module = module
        return self

    @classmethod
    def from_prequantized(
        cls,
        data: Tensor,
        quantized_stats: Mapping[str, Any],
        requires_grad: bool = False,
        device: Any = "cuda",
        module: torch.nn.Module | None = None,
        **_: Any,
    ) -> Params4bit:
        """Of packed codes and the parts of their state by name, as a checkpoint holds them."""
        _four_bit.check_codes("Params4bit", data)
        data = data.to(device)
        state = QuantState.from_dict(quantized_stats, device=device)
        _four_bit.check_packed("Params4bit", data, state)
        made = cls(
            data,
            requires_grad,
            state,
            state.blocksize,
            state.nested,
            state.quant_type or "fp4",
            data.dtype,
            module,
        )
        made._tell_module()
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if self.quant_state is None:
            return f"Params4bit(not quantized yet, {self.quant_type}, {torch.Tensor.__repr__(self.data)})"
        return f"Params4bit({self.quant_state!r}, {self.nbytes} bytes of {self.dtype} on {self.device})"

    # --- copies -------------------------------------------------------------------

    def detach(self) -> Params4bit:
        """torch asks for the same class here where it makes a parameter of a parameter, as in a move to meta."""
        return self._with(self.data, requires_grad=False)

    def _with(self, data: Tensor, **changes: Any) -> Params4bit:
        """This parameter with other data; requires_grad and settings stay."""
        settings = {name: self.__dict__.get(name) for name in _SETTINGS}
        return type(self)(data, **{"requires_grad": self.requires_grad} | settings | changes)

    def __copy__(self) -> Params4bit:
        return self._with(self.data)

    def __deepcopy__(self, memo: dict[int, Any]) -> Params4bit:
        if id(self) not in memo:
            # The layer it belongs to is being copied itself, or is no part of the copy.
            made = self._with(
                copy.deepcopy(self.data, memo),
                quant_state=copy.deepcopy(self.quant_state, memo),
                module=memo.get(id(self.module)),
            )
            memo[id(self)] = made
        found: Params4bit = memo[id(self)]
        return found

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        settings = {name: self.__dict__.get(name) for name in _SETTINGS if name != "module"}
        return _rebuilt, (type(self), self.data, self.requires_grad, settings)

    # --- moving -------------------------------------------------------------------

    def _tell_module(self) -> None:
        if self.module is not None:
            self.module.quant_state = self.quant_state

    def _quantize(self, device: Any, dtype: torch.dtype | None = None) -> Params4bit:
        """In place; `dtype` is what dequantizing will give, if another than the weight's."""
        packed, state = _four_bit.quantize(
            self.data.to(device),
            quant_type=self.quant_type,
            blocksize=self.blocksize,
            compress_statistics=bool(self.compress_statistics),
            quant_storage=self.quant_storage,
        )
        state.dtype = dtype or state.dtype
        self.requires_grad_(False)  # nothing can learn in steps of 16 values
        self.data = packed
        self.quant_state, self.bnb_quantized = state, True
        self._tell_module()
        return self

    def to(self, *args: Any, **kwargs: Any) -> Params4bit:
        """As Tensor.to. A weight that is not quantized yet is, in place, when a device is named, be it its own."""
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)  # noqa: SLF001
        if self.bnb_quantized:
            state = self.quant_state
            moved = self.data.to(device=device, non_blocking=non_blocking)
            return self._with(moved, quant_state=state if state is None else state.copy().to(moved.device))
        if device is None or device.type == "meta":
            return self._with(self.data.to(device=device, dtype=dtype, non_blocking=non_blocking))
        return self._quantize(device, dtype)

    def cpu(self, *_: Any, **__: Any) -> Params4bit:
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Params4bit:
        where = "cuda" if device is None else device
        where = f"cuda:{where}" if isinstance(where, int) else where
        return self.to(device=where, non_blocking=non_blocking)

    def half(self, *_: Any, **__: Any) -> Params4bit:
        return self.to(dtype=torch.float16)

    def bfloat16(self, *_: Any, **__: Any) -> Params4bit:
        return self.to(dtype=torch.bfloat16)

    def float(self, *_: Any, **__: Any) -> Params4bit:
        return self.to(dtype=torch.float32)

    def double(self, *_: Any, **__: Any) -> Params4bit:
        return self.to(dtype=torch.float64)

    def type(self, dtype: Any = None, *_: Any, **__: Any) -> Any:
        """As Tensor.type, but codes stay: of "torch.cuda.HalfTensor" the device counts alone."""
        if dtype is None or not self.bnb_quantized:
            found = self.data.type(dtype)
            return found if dtype is None else self._with(found)
        return self.to(device=self.data[:0].type(dtype).device)

    def dequantize(self) -> Tensor:
        """The weight as its codes say, of the type it had."""
        if self.quant_state is None:
            raise InvalidArgument(
                "Params4bit: this weight is not quantized yet; move it to a device with .to(device), its own too"
            )
        return _four_bit.dequantize(self.data, self.quant_state)


def _rebuilt(cls: type[Params4bit], data: Tensor, requires_grad: bool, settings: dict[str, Any]) -> Params4bit:
    return cls(data, requires_grad, **settings)


def _part_of_state(*path: str) -> Callable[[Any], Any]:
    """FSDP looks the keys of a state dict up as attributes of the parameter: "weight.absmax"."""

    def get(self: Any) -> Any:
        found = self.__dict__.get("quant_state")
        for name in path:
            if found is None:
                raise AttributeError(f"'Params4bit' object has no attribute {name!r}: it is not quantized so")
            found = getattr(found, name)
        return found

    return get


for _name, _path in {
    "absmax": ("absmax",),
    "code": ("code",),
    "quant_map": ("code",),
    "offset": ("offset",),
    "state2": ("state2",),
    "nested_absmax": ("state2", "absmax"),
    "nested_quant_map": ("state2", "code"),
    "nested_blocksize": ("state2", "blocksize"),
    "nested_dtype": ("state2", "dtype"),
    "nested_offset": ("offset",),
}.items():
    setattr(Params4bit, _name, property(_part_of_state(*_path)))
