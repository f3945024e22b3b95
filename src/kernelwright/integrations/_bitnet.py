# SPDX-License-Identifier: MIT
"""The quantizer of BitNet's models. What is needed to load one is imported then: it takes longer than all else."""

from __future__ import annotations

from typing import Any

from transformers.quantizers.quantizer_bitnet import BitNetHfQuantizer

from kernelwright.integrations._transformers_quantizer import Quantizer, with_own


class BitNetQuantizer(BitNetHfQuantizer):
    """transformers' own, which loads; its layers are replaced once they have their weights."""

    is_compileable = Quantizer.is_compileable  # the layers are one graph, as those in 4 bits

    def get_load_operations(self) -> dict[str, Any]:
        from kernelwright.integrations._bitnet_layers import Deserialize

        found: dict[str, Any] = super().get_load_operations()
        return dict.fromkeys(found, Deserialize)

    def get_weight_conversions(self) -> list[Any]:
        """Early versions of 5 ask for these instead."""
        from kernelwright.integrations._bitnet_layers import Deserialize

        return with_own(super().get_weight_conversions(), "BitNetDeserialize", Deserialize(self))

    def _process_model_after_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        from kernelwright.integrations._bitnet_layers import replace

        found = super()._process_model_after_weight_loading(model, **kwargs)
        replace(model)
        return found
