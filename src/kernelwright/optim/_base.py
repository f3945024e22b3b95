# SPDX-License-Identifier: MIT
"""What all optimizers here are: states of 8 or 32 bits, settings of single parameters, bitsandbytes' state dict."""

from __future__ import annotations

import math
import warnings
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, Unsupported
from kernelwright.ops.optim._maps import dynamic_map
from kernelwright.ops.optim._optimizer import BLOCK, RULES, Step
from kernelwright.optim import _by_norm, _moving, _paging, _sharded
from kernelwright.optim._kept import Kept
from kernelwright.optim._many import update
from kernelwright.optim.manager import GlobalOptimManager

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

WRAPPED = "__bnb_optimizer_quant_state__"
"""Under this key a state dict has a parameter's states: sharding, which takes every tensor for one of the parameter's
shape, then leaves them alone. bitsandbytes' own."""
_KEPT = frozenset({"state1", "state2", "absmax1", "absmax2", "qmap1", "qmap2", "unorm_vec"})
_LIMITED = {"lamb": "adam", "lars": "momentum"}
"""Optimizers whose update may be limited (max_unorm), by the rule that they are otherwise."""


def _check(name: str, value: float, most: float = math.inf) -> None:
    if not 0.0 <= value < most:
        raise InvalidArgument(f"Invalid {name}: {value}; it must be from 0 to {most}")


class Optimizer8bit(torch.optim.Optimizer):
    """The base class. `rule` is one of kernelwright.optimizer_update_32bit, "lamb" or "lars".

    is_paged    states of large parameters on a GPU lie in pinned memory of the host. They come to the GPU for their
                step, while others are computed; `page_bytes` is how much of the GPU's memory that may take, unless a
                single parameter's states need more
    """

    page_bytes = 128 << 20

    def __init__(
        self,
        rule: str,
        params: Any,
        lr: float | Tensor,
        betas: Sequence[float] | str,
        eps: float,
        weight_decay: float,
        optim_bits: int,
        args: Any,
        min_8bit_size: int,
        *,
        is_paged: bool = False,
        max_unorm: float = 0.0,
        skip_zeros: bool = False,
        **defaults: Any,
    ) -> None:
        if skip_zeros:
            raise Unsupported(f"{type(self).__name__} does not support skip_zeros=True")
        if rule not in _LIMITED and rule not in RULES:
            raise InvalidArgument(f"{type(self).__name__}: {rule!r} is none of {', '.join((*RULES, *_LIMITED))}")
        if isinstance(betas, str):
            betas = [float(beta) for beta in betas.strip("() ").split(",")]
        _check("learning rate", float(lr))
        _check("epsilon value", eps)
        _check("weight_decay value", weight_decay)
        for place, beta in enumerate(betas):
            _check(f"beta parameter at index {place}", beta, 1.0)
        self.rule, self.optimizer_name = _LIMITED.get(rule, rule), rule
        self.args = args or SimpleNamespace(
            optim_bits=optim_bits, min_8bit_size=min_8bit_size, max_unorm=max_unorm, skip_zeros=skip_zeros
        )
        self.mng, self.initialized, self.is_paged = GlobalOptimManager.get_instance(), False, is_paged
        self._pages: dict[torch.device, _paging.Pages] = {}
        self._moving, self._kept = _moving.Steps(), Kept()
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **defaults})

    # --- settings -----------------------------------------------------------------

    def check_overrides(self) -> None:
        """Finds the parameters that modules were registered for."""
        for module, name, config in self.mng.module_weight_config_triple:
            wanted = getattr(module, name)
            for group_index, group in enumerate(self.param_groups):
                for index, p in enumerate(group["params"]):
                    if p is wanted:
                        self.mng.pid2config[id(p)] = self.mng.index2config[group_index, index] = config

    def get_config(self, gindex: int, pindex: int, group: dict[str, Any]) -> dict[str, Any]:
        """The group's settings, and over them what was set for this parameter."""
        config = {key: value for key, value in group.items() if key != "params"}
        config |= {name: getattr(self.args, name) for name in ("optim_bits", "min_8bit_size")}
        config["max_unorm"] = getattr(self.args, "max_unorm", 0.0) if self.rule in _by_norm.RULES else 0.0
        config |= self.mng.index2config.get((gindex, pindex), {})
        return config | self.mng.pid2config.get(id(group["params"][pindex]), {})

    def numbers(self, config: dict[str, Any], step: int) -> Step:
        """Those of a parameter's step."""
        beta1, beta2, beta3 = (*config["betas"], 0.0)[:3]
        alpha = float(config.get("alpha") or 0.0)
        lr, eps, decay = float(config["lr"]), config["eps"], config["weight_decay"]
        if config.get("t_alpha"):  # of AdEMAMix: how long both grow
            alpha = min(step * alpha / config["t_alpha"], alpha)
        if config.get("t_beta3"):
            fast, slow, done = math.log(beta1), math.log(beta3), step / config["t_beta3"]
            beta3 = min(math.exp(fast * slow / ((1 - done) * slow + done * fast)), beta3)
        return Step(step, lr, beta1, beta2, beta3, alpha, eps, decay, 1.0)

    # --- states -------------------------------------------------------------------

    @torch.no_grad()
    def init_state(self, group: dict[str, Any], p: Tensor, gindex: int, pindex: int) -> None:
        config, state = self.get_config(gindex, pindex, group), self.state[p]
        if config["optim_bits"] not in (8, 32):
            raise NotImplementedError(f"Amount of optimizer bits not supported: {config['optim_bits']}")
        coded = config["optim_bits"] == 8 and p.numel() >= config["min_8bit_size"]
        dtype, part = torch.uint8 if coded else torch.float32, _sharded.local(p)
        state["step"] = 0
        for number in (1, 2)[: min(RULES[self.rule], 2)]:
            twice = (2,) if self.rule == "ademamix" and number == 1 else ()
            held = self._zeros((*twice, *part.shape), dtype, part)
            state[f"state{number}"] = _sharded.like(p, held, len(twice))
            if coded:
                state[f"qmap{number}"] = dynamic_map(number == 1, p.device)
                state[f"absmax{number}"] = _sharded.scales(p, twice, BLOCK)
        if config["max_unorm"] > 0:
            state["unorm_vec"] = torch.zeros(1, device=p.device)

    def _zeros(self, shape: Sequence[int], dtype: torch.dtype, p: Tensor) -> Tensor:
        if self._may_page(p):
            return _paging.zeros(shape, dtype, p.device)
        if self.is_paged and not p.is_cuda:
            warnings.warn(
                f"{type(self).__name__}: states of parameters on the CPU are not paged; they lie in its memory already",
                stacklevel=4,
            )
        return torch.zeros(tuple(shape), dtype=dtype, device=p.device)

    def _may_page(self, p: Tensor) -> bool:
        return self.is_paged and p.is_cuda and not _sharded.is_sharded(p) and p.numel() >= _paging.FROM

    def state_dict(self) -> dict[str, Any]:
        """torch's, with the states of each parameter under a key of their own, as bitsandbytes has them."""
        found = super().state_dict()
        found["state"] = {key: self._wrapped(held) for key, held in found["state"].items()}
        return found

    @staticmethod
    def _wrapped(held: Any) -> Any:
        if not isinstance(held, dict):
            return held
        kept = {name: value for name, value in held.items() if name in _KEPT}
        rest = {name: value for name, value in held.items() if name not in _KEPT}
        if isinstance(rest.get("step"), _moving.Moving):
            rest["step"] = int(rest["step"])
        return {**rest, WRAPPED: kept} if kept else rest

    def load_state_dict(self, state_dict: dict[str, Any], move_to_device: bool = True) -> None:
        """Takes such a dict, also bitsandbytes' own, of optimizers of one rule; states keep their element types."""
        own, rest = {}, {}
        for key, held in state_dict["state"].items():
            flat = {**held, **held.get(WRAPPED, {})} if isinstance(held, dict) else {}
            own[key] = {name: value for name, value in flat.items() if name in _KEPT}
            rest[key] = {n: v for n, v in flat.items() if n not in _KEPT and n != WRAPPED} if flat else held
        self._kept.forget()
        super().load_state_dict({**state_dict, "state": rest})
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        there = chain.from_iterable(group["params"] for group in self.param_groups)
        for key, p in zip(saved, there, strict=True):
            for name, value in own.get(key, {}).items():
                self.state[p][name] = value.to(p.device if move_to_device else value.device, copy=True)

    # --- steps --------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._take_step()
        return loss

    @torch.compiler.disable  # calls of the C library: there is nothing to compile
    def _take_step(self) -> None:
        if not self.initialized:
            self.check_overrides()
            self.initialized = True
        if self._kept.step(self):
            return
        batches = self._batches()
        for (device, *_, paged, numbers), members in batches.items():
            if paged:
                if device not in self._pages:
                    self._pages[device] = _paging.Pages(device, self.page_bytes)
                self._pages[device].step(self.rule, members, numbers)
            else:
                update(self.rule, members, numbers)
        self._moving.take(self.rule)
        self._moving.make_room([device for device, *_ in batches])
        for pages in self._pages.values():  # who looks at a state after the step sees the new one
            pages.wait()
        self._kept.note(self)

    def _batches(self) -> dict[Any, list[tuple[Tensor, dict[str, Any]]]]:
        """Parameters that take the same step, together; those with a limit are through with theirs, and those whose
        step's number lies on the device are handed over."""
        batches: dict[Any, list[tuple[Tensor, dict[str, Any]]]] = {}
        for gindex, group in enumerate(self.param_groups):
            for pindex, p in enumerate(group["params"]):
                if p.grad is None:
                    continue
                if not self.state[p]:
                    _moving.refuse_captured(p, "has no states yet; take a step before the graph is captured")
                    self.init_state(group, p, gindex, pindex)
                state, paged, config = self.state[p], self._may_page(p), self.get_config(gindex, pindex, group)
                limited = config["max_unorm"] > 0 and state["state1"].dtype is torch.float32
                if not limited and not paged and _moving.follows(config, p, state):
                    self._moving.add(p, state, config, self.numbers(_moving.fixed(config), 1))
                    continue
                _moving.refuse_captured(p, "is paged, limited (max_unorm), of float64 or not contiguous")
                state["step"] = int(state["step"]) + 1
                numbers = self.numbers(config, state["step"])
                if limited:
                    self._check_whole(p)
                    _by_norm.update(self.rule, p, p.grad, state, numbers, config["max_unorm"])
                    continue
                if paged:
                    _paging.page_out(state, p.device)
                batches.setdefault((p.device, p.dtype, state["state1"].dtype, paged, numbers), []).append((p, state))
        return batches

    def _check_whole(self, p: Tensor) -> None:
        if _sharded.is_sharded(p):
            raise Unsupported(
                f"{type(self).__name__}: max_unorm needs whole parameters, but one is sharded (a DTensor); "
                "set max_unorm=0"
            )
