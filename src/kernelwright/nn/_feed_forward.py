# SPDX-License-Identifier: MIT
"""Patterns of feed-forward parts: a linear layer and its activation, and gated ones.

A forward pass here goes the module's own way where its layers are not plain ones any more: an adapter was put in their
place, hooks were added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _joined, _joined_ternary
from kernelwright.nn._norms import FLOATS
from kernelwright.ops.gated.swiglu import swiglu
from kernelwright.ops.linear.gated_linear import gated_linear
from kernelwright.ops.linear.linear import linear
from kernelwright.ops.ternary.relu2_gated import relu2_gated

if TYPE_CHECKING:
    from torch import Tensor
    from transformers.models.llama.modeling_llama import LlamaMLP
    from transformers.models.phi3.modeling_phi3 import Phi3MLP

_compiling = torch.compiler.is_dynamo_compiling
_ACTIVATIONS = ("act_fn", "activation_fn", "act", "activation", "intermediate_act_fn")
_NAMES = {
    "SiLU": "silu", "SiLUActivation": "silu", "ReLU": "relu", "ReLUSquaredActivation": "squared_relu",
    "GELUActivation": "gelu", "NewGELUActivation": "gelu_tanh", "PytorchGELUTanh": "gelu_tanh", "GELUTanh": "gelu_tanh",
    "FastGELUActivation": "gelu_tanh",
}  # fmt: skip


def activation_named(act: Any) -> str | None:
    """What kernelwright.linear calls it; whether it computes that is compared before anything is changed."""
    if isinstance(act, torch.nn.GELU):
        return "gelu_tanh" if act.approximate == "tanh" else "gelu"
    if act is torch.nn.functional.silu:
        return "silu"
    if act is torch.nn.functional.gelu:
        return "gelu"
    if act in (torch.nn.functional.relu, torch.relu):
        return "relu"
    return _NAMES.get(type(act).__name__)


def _activation(module: Any) -> Any:
    for name in _ACTIVATIONS:
        found = getattr(module, name, None)
        if found is not None and not isinstance(found, str):
            return found
    return None


def _children(module: Any) -> set[str]:
    return {name for name, _ in module.named_children()} - {*_ACTIVATIONS, "dropout"}


def _own(module: Any, *args: Any, **kwargs: Any) -> Any:
    return type(module).forward(module, *args, **kwargs)


def _plain(layer: Any) -> bool:
    """torch's linear layer, or GPT-2's whose weight is transposed, with nothing attached to it."""
    kind = type(layer)
    if kind is not torch.nn.Linear and kind.__name__ != "Conv1D":
        return False
    return not (layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer))  # noqa: SLF001 - no public name


def _weight(layer: Any) -> Tensor:
    weight: Tensor = layer.weight
    return weight if type(layer) is torch.nn.Linear else weight.t()


def _fits(layer: Any, x: Tensor) -> bool:
    if _compiling() or not _plain(layer) or x.dtype not in FLOATS or torch.is_autocast_enabled(x.device.type):
        return False
    weight = layer.weight
    return weight.dtype is x.dtype and bool(weight.device == x.device)


def _activated(layer: Any, act: Any, x: Tensor) -> Any:
    """act(layer(x))."""
    name = activation_named(act)
    if name is None or not _fits(layer, x):
        return act(layer(x))
    return linear(x, _weight(layer), layer.bias, name)


# --- a layer and its activation -----------------------------------------------------


def is_dense(module: Any) -> bool:
    """BERT's intermediate layer."""
    return (
        _children(module) == {"dense"}
        and hasattr(module, "intermediate_act_fn")
        and _plain(module.dense)
        and activation_named(_activation(module)) is not None
    )


def dense(self: Any, x: Tensor) -> Any:
    return _activated(self.dense, _activation(self), x)


_TWO = (("fc1", "fc2"), ("c_fc", "c_proj"), ("dense_h_to_4h", "dense_4h_to_h"))


def _two(module: Any) -> tuple[str, str] | None:
    children = _children(module)
    return next((names for names in _TWO if children == set(names)), None)


def is_two_layers(module: Any) -> bool:
    """The feed-forward part of GPT-2, Phi, CLIP, GPT-NeoX: two layers with an activation between them."""
    names = _two(module)
    return names is not None and _plain(getattr(module, names[0])) and activation_named(_activation(module)) is not None


def two_layers(self: Any, x: Tensor) -> Any:
    names = _two(self)
    if names is None:
        return _own(self, x)
    y = getattr(self, names[1])(_activated(getattr(self, names[0]), _activation(self), x))
    drop = getattr(self, "dropout", None)
    return drop(y) if isinstance(drop, torch.nn.Module) else y


def is_sequence(module: Any) -> bool:
    return type(module) is torch.nn.Sequential and any(_pairs(module))


def _pairs(module: Any) -> list[bool]:
    """Of each child whether it is a layer whose activation follows it."""
    children = list(module.children())
    return [
        type(a) is torch.nn.Linear and isinstance(b, torch.nn.Module) and activation_named(b) is not None
        for a, b in zip(children, [*children[1:], None], strict=True)
    ]


def sequence(self: Any, x: Any) -> Any:
    if _compiling():
        return _own(self, x)
    children, pairs, at = list(self.children()), _pairs(self), 0
    while at < len(children):
        layer = children[at]
        if pairs[at]:
            act = children[at + 1]
            hooked = act._forward_hooks or act._forward_pre_hooks  # noqa: SLF001 - no public name
            x = act(layer(x)) if hooked else _activated(layer, act, x)
            at += 2
        else:
            x = layer(x)
            at += 1
    return x


def width_of(module: Any) -> int:
    """Of the rows that a module takes."""
    names = _two(module)
    layer = next(module.children()) if names is None else getattr(module, names[0])
    return int(layer.in_features if hasattr(layer, "in_features") else layer.weight.shape[0])


# --- gated ---------------------------------------------------------------------------

_SUB_NORM = "ffn_sub_norm"  # BitNet's, before down_proj


def is_gated(module: Any) -> bool:
    name = activation_named(_activation(module))
    return _children(module) - {_SUB_NORM} == {"gate_proj", "up_proj", "down_proj"} and name is not None


def gated_width(module: Any) -> int:
    return int((module.gate_up_proj if hasattr(module, "gate_up_proj") else module.gate_proj).in_features)


def is_gated_packed(module: Any) -> bool:
    name = activation_named(_activation(module))
    return _children(module) == {"gate_up_proj", "down_proj"} and name is not None


def _trains(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def merged(gate: Any, up: Any) -> tuple[Tensor, Tensor | None] | None:
    """The weights of two layers that lie in memory one behind the other, as one, and their biases."""
    a, b = gate.weight, up.weight
    if _trains(a, b, gate.bias, up.bias) or a.shape != b.shape or not (a.is_contiguous() and b.is_contiguous()):
        return None
    together = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    if not together or b.data_ptr() - a.data_ptr() != a.numel() * a.element_size():
        return None
    n, k = a.shape
    weight = a.detach().as_strided((2 * n, k), (k, 1), a.storage_offset())
    return weight, None if gate.bias is None else torch.cat((gate.bias, up.bias))


def gated(self: LlamaMLP, x: Tensor, *, norm: Any = None) -> Any:
    """In place of the module's own; with a norm, of norm(x)."""
    act = _activation(self)
    y = _joined.product((self.gate_proj, self.up_proj), x, norm)
    if y is not None:
        return _down(self, _gated_by_both(act, y))
    x = x if norm is None else norm(x)
    if _compiling():
        return _own(self, x)
    name = activation_named(act)
    if name is not None and _fits(self.gate_proj, x) and _fits(self.up_proj, x):
        both = merged(self.gate_proj, self.up_proj)
        if both is not None:
            return _down(self, gated_linear(x, *both, name))
    return _down(self, _gated_by(act, self.gate_proj(x), self.up_proj(x)))


def _down(module: Any, y: Tensor) -> Any:
    norm = getattr(module, _SUB_NORM, None)
    return module.down_proj(y) if norm is None else _joined_ternary.after(norm, module.down_proj, y)


def gated_packed(self: Phi3MLP, x: Tensor) -> Any:
    if _compiling():
        return _own(self, x)
    act, layer = _activation(self), self.gate_up_proj
    name = activation_named(act)
    if name is not None and _fits(layer, x):
        return self.down_proj(gated_linear(x, layer.weight, layer.bias, name))
    return self.down_proj(_gated_by_both(act, layer(x)))


def _gated_by_both(act: Any, both: Tensor) -> Any:
    """act(gate) * up of the two side by side."""
    if activation_named(act) == "silu" and both.dtype in FLOATS and not _compiling():
        return swiglu(both)
    gate, up = both.chunk(2, -1)
    return _gated_by(act, gate, up)


def _gated_by(act: Any, gate: Tensor, up: Tensor) -> Any:
    """act(gate) * up."""
    function = {"silu": swiglu, "squared_relu": relu2_gated}.get(activation_named(act) or "")
    if function is None or _compiling() or gate.dtype not in FLOATS or up.dtype is not gate.dtype:
        return act(gate) * up
    return function(gate, up)


def _may_merge(module: Any) -> bool:
    gate, up = module.gate_proj, module.up_proj
    if type(gate) is not torch.nn.Linear or type(up) is not torch.nn.Linear:
        return False
    a, b = gate.weight, up.weight
    alike = a.shape == b.shape and a.dtype is b.dtype and a.device == b.device and a.is_contiguous()
    return alike and (gate.bias is None) == (up.bias is None) and a.numel() > 0


def merge(module: Any, dense: bool) -> str | None:
    """Puts the weights of gate and up into one piece of memory, as the parameters that they are; else says why not.
    Without `dense` of quantized layers alone, and "" of others."""
    if type(module.gate_proj) is not torch.nn.Linear:
        return _joined.join((module.gate_proj, module.up_proj))
    if not dense:
        return ""
    if not _may_merge(module):
        return "its layers differ in type, shape, device or bias"
    gate, up = module.gate_proj.weight, module.up_proj.weight
    with torch.no_grad():
        both = torch.cat((gate.detach(), up.detach()))
        gate.data, up.data = both[: gate.shape[0]], both[gate.shape[0] :]
    return None


def part(module: Any) -> None:
    """Gives each its own memory again."""
    _joined.part([getattr(module, name, None) for name in ("gate_proj", "up_proj")])
    gate, up = (getattr(getattr(module, name), "weight", None) for name in ("gate_proj", "up_proj"))
    if not isinstance(gate, torch.Tensor) or not isinstance(up, torch.Tensor):
        return
    if gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr():
        gate.data, up.data = gate.data.clone(), up.data.clone()
