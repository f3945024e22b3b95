# SPDX-License-Identifier: MIT
"""bitsandbytes.utils."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
from typing import TYPE_CHECKING, Any, ClassVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

__all__ = [
    "OutlierTracer",
    "execute_and_return",
    "find_outlier_dims",
    "outlier_hook",
    "pack_dict_to_tensor",
    "replace_linear",
    "sync_gpu",
    "unpack_tensor_to_dict",
]

logger = logging.getLogger(__name__)
LINEAR_8BIT_WEIGHTS_FORMAT_MAPPING = {"row": 0, "col32": 1, "col_turing": 2, "col_ampere": 3}
INVERSE_LINEAR_8BIT_WEIGHTS_FORMAT_MAPPING = {value: key for key, value in LINEAR_8BIT_WEIGHTS_FORMAT_MAPPING.items()}
_LARGE = 6  # what LLM.int8 calls an outlier


def outlier_hook(module: torch.nn.Module, input: Any) -> None:  # noqa: A002 - bitsandbytes' name
    """Notes a linear layer's outlier dimensions in its first forward; a later one takes the hooks away."""
    tracer, weight = OutlierTracer.get_instance(), module.weight
    key = tracer.get_hvalue(weight)
    if key in tracer.hvalue2outlier_idx:
        for hook in tracer.hooks:
            hook.remove()
        return
    found = find_outlier_dims(weight)
    tracer.outliers.append(found)
    tracer.hvalues.append(key)
    if len(tracer.outliers) == 1:  # nothing stands before the first layer: its input decides
        rows = input[0].reshape(-1, input[0].shape[-1])
        large = (rows.abs() > _LARGE).any(0).nonzero().view(-1)
        found = torch.cat([find_outlier_dims(rows, reduction_dim=1, zscore=3), large]).unique()
    tracer.hvalue2outlier_idx[key] = found


class OutlierTracer:
    """Outlier dimensions of a model's linear layers, found in their first forward; one for the process."""

    _instance: ClassVar[OutlierTracer | None] = None
    hvalues: list[int]
    outliers: list[Tensor]
    hvalue2outlier_idx: dict[int, Tensor]
    hooks: list[Any]

    def __init__(self) -> None:
        raise RuntimeError("OutlierTracer: there is one for the process, from get_instance()")

    def initialize(self, model: torch.nn.Module) -> None:
        self.last_w = self.current_outlier_dims = None
        self.hvalues, self.outliers, self.hvalue2outlier_idx = [], [], {}
        linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
        self.hooks = [module.register_forward_pre_hook(outlier_hook) for module in linear]
        self.initialized = True

    def is_initialized(self) -> bool:
        return getattr(self, "initialized", False)

    def get_hvalue(self, weight: Tensor) -> int:
        return weight.untyped_storage().data_ptr()

    def get_outliers(self, weight: Tensor) -> Tensor | None:
        if not self.is_initialized():
            logger.warning("OutlierTracer: initialize(model) was not called")
            return None
        return self.hvalue2outlier_idx.get(self.get_hvalue(weight))

    @classmethod
    def get_instance(cls) -> OutlierTracer:
        if cls._instance is None:
            cls._instance = cls.__new__(cls)
        return cls._instance


def find_outlier_dims(
    weight: Tensor, reduction_dim: int = 0, zscore: float = 4.0, topk: int | None = None, rdm: bool = False
) -> Tensor:
    """Dimensions whose standard deviation is far above the others', or the `topk` largest; rdm: any."""
    if rdm:
        return torch.randint(0, weight.shape[1], (topk or 0,), device=weight.device)
    spread = weight.std(reduction_dim)
    if topk is not None:
        return spread.topk(topk).indices
    return ((spread - spread.mean()) / spread.std() > zscore).nonzero().view(-1)


def execute_and_return(command_string: str) -> tuple[str, str]:
    """What a command writes to stdout and stderr."""
    done = subprocess.run(shlex.split(command_string), capture_output=True, text=True, check=False)
    return done.stdout.strip(), done.stderr.strip()


def replace_linear(
    model: torch.nn.Module,
    linear_replacement: Callable[..., torch.nn.Module],
    skip_modules: Sequence[str] = ("lm_head",),
    copy_weights: bool = False,
    post_processing_function: str | None = None,
) -> torch.nn.Module:
    """Puts `linear_replacement(in, out, bias)` in the place of each torch.nn.Linear whose name is not skipped."""
    for name, module in list(model.named_children()):
        replace_linear(module, linear_replacement, skip_modules, copy_weights, post_processing_function)
        if not isinstance(module, torch.nn.Linear) or name in skip_modules:
            continue
        made = linear_replacement(module.in_features, module.out_features, module.bias is not None)
        if copy_weights:
            made.weight, made.bias = module.weight, module.bias
        setattr(model, name, made)
        after = getattr(module, post_processing_function or "", None)
        if after is not None:
            after(module)
    return model


def pack_dict_to_tensor(source_dict: Mapping[str, Any]) -> Tensor:
    """JSON in a tensor of bytes, as state dicts hold what is no tensor."""
    return torch.tensor(list(json.dumps(source_dict).encode()), dtype=torch.uint8)


def unpack_tensor_to_dict(tensor_data: Tensor) -> Any:
    return json.loads(bytes(tensor_data.cpu().tolist()))


def sync_gpu(t: Tensor) -> None:
    if t.is_cuda:
        torch.cuda.synchronize()
