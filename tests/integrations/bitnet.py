# SPDX-License-Identifier: MIT
"""Checkpoints of small BitNet models with random weights, as transformers keeps them."""

from __future__ import annotations

import json

import torch

LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SIZES = {
    "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 97, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def stored(transformers, path, linear_class, mode, **changes):
    """The folder, in which layers are packed ("offline") or in floats to train ("online")."""
    import safetensors.torch

    config = transformers.BitNetConfig(**{**SIZES, **changes})
    model = transformers.BitNetForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):  # they are 1 in a new model
                parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
            elif "_proj" in name:  # no two layers have one scale
                parameter.mul_(1 + torch.rand(()))
    state = model.state_dict()
    if mode == "offline":
        for name in [name for name in state if name.endswith(tuple(f"{layer}.weight" for layer in LAYERS))]:
            single = state[name].float()
            mean = single.abs().mean()
            codes = ((single / mean).round().clamp(-1, 1) + 1).to(torch.uint8).view(4, -1, single.shape[1])
            state[name] = codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6
            scale = 1 / mean if linear_class == "bitlinear" else mean
            state[name + "_scale"] = scale.reshape(1).to(torch.bfloat16)
    config.save_pretrained(path)
    words = json.loads((path / "config.json").read_text()) | {
        "architectures": ["BitNetForCausalLM"],
        "dtype": "bfloat16",
        "quantization_config": {
            "quant_method": "bitnet", "linear_class": linear_class, "quantization_mode": mode,
            "modules_to_not_convert": ["lm_head"],
        },
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(words))
    kept = {name: value.cpu().contiguous().clone() for name, value in state.items()}
    safetensors.torch.save_file(kept, path / "model.safetensors", metadata={"format": "pt"})
    return path
