# SPDX-License-Identifier: MIT
"""A whole model in 4 bits."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, InvalidDtype
from kernelwright.nn import _adapters, _experts, _four_bit
from kernelwright.nn._progress import progress
from kernelwright.nn.experts_4bit import Experts4bit
from kernelwright.nn.linear_4bit import Linear4bit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.nn.quant_state import QuantState

__all__ = ["dequantize_", "quantize_"]


def quantize_(
    model: torch.nn.Module,
    skip: Iterable[str] | None = None,
    *,
    quant_type: str = "nf4",
    compress_statistics: bool = True,
    blocksize: int = 64,
    compute_dtype: torch.dtype | None = None,
    quant_storage: torch.dtype = torch.uint8,
    device: Any = None,
    show_progress: bool | None = None,
) -> torch.nn.Module:
    """Replaces every torch.nn.Linear of a model by a quantized Linear4bit, and experts of transformers 5 by
    Experts4bit, in place, one at a time; returns the model.

    skip    names of modules to leave as they are, with all that is in them: "lm_head", "model.layers.0", "*.gate", or
            a last name such as "down_proj". A name that is no module's is refused. None: the output layer stays, if the
            model has `get_output_embeddings` (those of transformers do); () quantizes that too.
    device  where the quantized layers go, each moved there by itself: a model on the CPU needs room for its quantized
            weights alone on the GPU. None: where each is. The rest of the model stays where it is.
    show_progress  None: a bar on a terminal (tqdm's if it is installed), nothing in a log

    A layer whose weight another module shares stays as it is: quantizing it would save nothing. Subclasses of
    torch.nn.Linear stay too: what they do with their weight is not known here.

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    >>> quantize_(model, skip=["2"])
    """
    settings = {"quant_type": quant_type, "compress_statistics": compress_statistics, "quant_storage": quant_storage}
    _four_bit.check_settings(quant_type, blocksize, quant_storage)
    _four_bit.check_compute("quantize_", compute_dtype)
    if device is not None and torch.device(device).type == "meta":
        raise InvalidArgument("quantize_: device is meta, where nothing has values; name the one it is to run on")
    experts = _found_experts(model, skip, blocksize)
    found = _found(model, skip, also=bool(experts))
    for name, module in found:  # before the first is replaced: a model must not be left half done
        _make_weight(module)
        _check_weight(name, module.weight, quant_storage)
    for name, old in progress([*found, *experts], "quantizing", show_progress):
        parent, _, last = name.rpartition(".")
        make = _quantized if isinstance(old, torch.nn.Linear) else _quantized_experts
        setattr(
            model.get_submodule(parent), last, make(old, device, blocksize, compute_dtype=compute_dtype, **settings)
        )
    _keep_to_layers(model)
    return model


def dequantize_(model: torch.nn.Module, dtype: torch.dtype | None = None) -> torch.nn.Module:
    """Replaces every quantized Linear4bit of a model by a torch.nn.Linear, and Experts4bit by what they were, in place;
    returns the model.

    Its weight is what the codes say, not what was quantized. It has the type that was quantized, or `dtype`.
    An adapter of peft can be merged then: `dequantize_(model).merge_and_unload()`.

    >>> model = quantize_(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()))
    >>> dequantize_(model)
    """
    _require_module("dequantize_", model)
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise InvalidDtype(f"dequantize_: dtype is {dtype!r}, but must be a torch type of floats, or None")
    if isinstance(model, Linear4bit):
        raise InvalidArgument("dequantize_: the model is itself one Linear4bit; use layer.weight.dequantize()")
    named = model.named_modules(remove_duplicate=False)  # a layer of several names stays one
    found = [(name, module) for name, module in named if isinstance(module, Linear4bit)]
    states = {module: module._state() for _, module in found}  # noqa: SLF001 - what has none is refused before the first
    made = {old: _dequantized(old, state, dtype) for old, state in states.items()}
    for name, old in found:
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, made[old])
    for name, experts in [(name, module) for name, module in model.named_modules() if isinstance(module, Experts4bit)]:
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, experts.dequantize(dtype))
    _adapters.make_plain(model)
    return model


def _found_experts(
    model: torch.nn.Module, skip: Iterable[str] | None, blocksize: int
) -> list[tuple[str, torch.nn.Module]]:
    """The experts to quantize, by name."""
    _require_module("quantize_", model)
    if not any(_experts.are_experts(module) for module in model.modules()):
        return []
    skipped, shared = _skipped(model, skip), _shared(model)
    return [
        (name, module)
        for name, module in model.named_modules()
        if name
        and name not in skipped
        and not isinstance(module, Experts4bit)
        and _experts.why_not(module, blocksize) is None
        and not any(getattr(module, weight) in shared for weight in _experts.names(module))
    ]


def _quantized_experts(old: torch.nn.Module, device: Any, blocksize: int, **settings: Any) -> Experts4bit:
    made = Experts4bit(old, blocksize=blocksize, **settings)
    return made.to(getattr(old, made.names[0]).device if device is None else device)


def _found(
    model: torch.nn.Module, skip: Iterable[str] | None, *, also: bool = False
) -> list[tuple[str, torch.nn.Linear]]:
    """The layers to quantize, by name. `also`: there is something else to quantize, so there may be none."""
    _require_module("quantize_", model)
    if type(model) is torch.nn.Linear:
        raise InvalidArgument("quantize_: the model is itself one torch.nn.Linear; use kernelwright.nn.Linear4bit")
    skipped, shared = _skipped(model, skip), _shared(model)
    found = [
        (name, module)
        for name, module in model.named_modules()
        if type(module) is torch.nn.Linear and name not in skipped and module.weight not in shared
    ]
    if not found and not also:
        raise InvalidArgument(
            f"quantize_: {type(model).__name__} has no torch.nn.Linear to quantize"
            + (f" besides those that skip={sorted(skipped)} and shared weights leave" if skipped or shared else "")
        )
    return found


def _make_weight(layer: torch.nn.Linear) -> None:
    """Hooks of torch's for pruning, weight and spectral norm make the weight of other parameters before each forward:
    until the next it is not that of a state dict that was loaded."""
    for hook in vars(layer)["_forward_pre_hooks"].values():
        if hasattr(hook, "apply_mask") or hasattr(hook, "compute_weight"):
            with torch.no_grad():
                hook(layer, ())


def _check_weight(name: str, weight: Any, quant_storage: torch.dtype) -> None:
    if not isinstance(weight, torch.Tensor) or weight.dim() != 2:
        shown = (
            f"has shape {tuple(weight.shape)}" if isinstance(weight, torch.Tensor) else f"is a {type(weight).__name__}"
        )
        raise InvalidArgument(f"quantize_: {name!r}: its weight {shown}, but must be a matrix")
    if weight.device.type == "meta":
        raise InvalidArgument(
            f"quantize_: {name!r} is on the meta device, without values; load the model's weights first"
        )
    _four_bit.check_dtype(f"quantize_: {name!r}", weight.dtype)
    _four_bit.check_storage(f"quantize_: {name!r}", weight, quant_storage)


def _require_module(who: str, model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgument(f"{who}: the model is a {type(model).__name__}, but must be a torch.nn.Module")


def _quantized(old: torch.nn.Linear, device: Any, blocksize: int, **settings: Any) -> Linear4bit:
    where = old.weight.device if device is None else device
    made = Linear4bit(old.in_features, old.out_features, old.bias is not None, device="meta", **settings)
    made.weight = made.weight._with(old.weight.detach(), blocksize=blocksize).to(where)  # noqa: SLF001
    if old.bias is not None:
        made.bias = torch.nn.Parameter(old.bias.detach().to(where), requires_grad=old.bias.requires_grad)
    return _as_before(made, old)


def _dequantized(old: Linear4bit, state: QuantState, dtype: torch.dtype | None) -> torch.nn.Linear:
    weight = _four_bit.dequantize(old.weight.detach(), state)
    made = torch.nn.Linear(old.in_features, old.out_features, device="meta")
    made.weight = torch.nn.Parameter(weight.to(dtype or weight.dtype), requires_grad=False)
    made.bias = old.bias
    found: torch.nn.Linear = _as_before(made, old)
    return found


def _as_before(made: torch.nn.Module, old: torch.nn.Module) -> Any:
    """With the mode and the hooks of the layer whose place it takes; the same, so that their handles remove them."""
    hooks = {name for name in vars(torch.nn.Module()) if "_hook" in name}
    # Where a layer has more parameters, as a pruned one, a hook makes its weight of them: that goes with them.
    for name in hooks if dict(old.named_parameters()).keys() <= {"weight", "bias"} else ():
        setattr(made, name, getattr(old, name))
    return made.train(old.training)


def _keep_to_layers(model: torch.nn.Module) -> None:
    """In evaluation torch's encoder gives its layers' weights to one kernel of its own, which knows no codes."""
    encoders = (torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer)
    for module in [module for module in model.modules() if isinstance(module, encoders)]:
        if any(isinstance(each, Linear4bit) for each in module.modules()):
            # What each of the two asks first whether that kernel will do; the encoder makes nested tensors for it.
            name = "use_nested_tensor" if isinstance(module, encoders[0]) else "activation_relu_or_gelu"
            setattr(module, name, False)


def _shared(model: torch.nn.Module) -> set[Any]:
    """Parameters that stand in several places of a model."""
    seen: set[Any] = set()
    found: set[Any] = set()
    for _, parameter in model.named_parameters(remove_duplicate=False):
        (found if parameter in seen else seen).add(parameter)
    return found


def _skipped(model: torch.nn.Module, skip: Iterable[str] | None) -> set[str]:
    """The names of all modules that are to stay."""
    names = [name for name, _ in model.named_modules() if name]
    if skip is None:
        head = getattr(model, "get_output_embeddings", lambda: None)()
        return {name for name, module in model.named_modules() if module is head}
    if isinstance(skip, str):
        raise InvalidArgument(f"quantize_: skip={skip!r} is a string, but must be a list of names: skip=[{skip!r}]")
    patterns = list(skip) if isinstance(skip, Iterable) else [skip]
    if not isinstance(skip, Iterable) or not all(isinstance(pattern, str) for pattern in patterns):
        raise InvalidArgument(f"quantize_: skip is {skip!r}, but must be a list of names, as named_modules() has them")
    stay: set[str] = set()
    for pattern in patterns:
        tops = {name for name in names if _is_named(name, pattern)}
        if not tops:
            raise InvalidArgument(
                f"quantize_: skip has {pattern!r}, but no module is called so; its modules are {_some(names)}"
            )
        stay |= {name for name in names if any(name == top or name.startswith(f"{top}.") for top in tops)}
    return stay


def _is_named(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.rpartition(".")[2], pattern)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
