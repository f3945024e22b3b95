# SPDX-License-Identifier: MIT
"""Settings of single parameters that differ from their optimizer's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kernelwright import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor
    from torch.nn import Module

__all__ = ["GlobalOptimManager"]

_KNOWN = ("alpha", "betas", "eps", "lr", "min_8bit_size", "optim_bits", "weight_decay")


def _check(config: Mapping[str, Any]) -> None:
    """A setting that no step looks at would be a silent change of the training."""
    other = sorted(set(config) - set(_KNOWN))
    if other:
        raise errors.Unsupported(
            f"GlobalOptimManager: {', '.join(other)} cannot be set for single parameters; {', '.join(_KNOWN)} can"
        )


class GlobalOptimManager:
    """The process's only one, from `get_instance()`. What is set here counts in every optimizer of this package.

    >>> manager = kernelwright.optim.GlobalOptimManager.get_instance()
    >>> manager.register_parameters(model.parameters())
    >>> manager.override_config(model.embedding.weight, "optim_bits", 32)
    """

    _instance: ClassVar[GlobalOptimManager | None] = None
    pid2config: dict[int, dict[str, Any]]
    index2config: dict[tuple[int, int], dict[str, Any]]
    module_weight_config_triple: list[tuple[Module, str, dict[str, Any]]]
    uses_config_override: bool

    def __init__(self) -> None:
        raise RuntimeError("GlobalOptimManager: there is one for the process, from get_instance()")

    def initialize(self) -> None:
        """Forgets all that was set."""
        self.pid2config, self.index2config, self.module_weight_config_triple = {}, {}, []
        self.uses_config_override = False

    @classmethod
    def get_instance(cls) -> GlobalOptimManager:
        if cls._instance is None:
            cls._instance = cls.__new__(cls)
            cls._instance.initialize()
        return cls._instance

    def register_parameters(self, params: Iterable[Any]) -> None:
        """Notes what was set for these, by their place in an optimizer, before they are moved to another device."""
        groups = list(params)
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group_index, group in enumerate(groups):
            for index, p in enumerate(group["params"]):
                if id(p) in self.pid2config:
                    self.index2config[group_index, index] = self.pid2config[id(p)]

    def override_config(
        self,
        parameters: Tensor | Iterable[Tensor],
        key: str | None = None,
        value: Any = None,
        key_value_dict: Mapping[str, Any] | None = None,
    ) -> None:
        """Sets one or several of `optim_bits`, `min_8bit_size`, `lr`, `betas`, `alpha`, `eps` and `weight_decay`."""
        import torch

        if key is not None and key_value_dict is not None:
            raise ValueError("override_config: give a key and its value, or key_value_dict")
        changed = dict(key_value_dict) if key_value_dict is not None else {} if key is None else {key: value}
        _check(changed)
        self.uses_config_override = True
        for p in [parameters] if isinstance(parameters, torch.Tensor) else parameters:
            self.pid2config.setdefault(id(p), {}).update(changed)

    def register_module_override(self, module: Module, param_name: str, config: dict[str, Any]) -> None:
        """The same for a module's parameter of this name, whichever that is when the optimizer begins."""
        _check(config)
        self.module_weight_config_triple.append((module, param_name, config))
