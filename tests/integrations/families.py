# SPDX-License-Identifier: MIT
"""Small models of transformers with random weights, one for each kind of layer that families differ in."""

from __future__ import annotations

SIZES = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 500, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip

# By family: the name in transformers, and what its configuration has beside the sizes. `None`: it has no such size.
FAMILIES = {
    "llama": ("Llama", {}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 32}),
    "gemma2": ("Gemma2", {"head_dim": 32, "sliding_window": 16}),
    "gemma3": ("Gemma3", {"head_dim": 32, "sliding_window": 16}),
    "mistral": ("Mistral", {"head_dim": 32, "sliding_window": None}),
    "phi": ("Phi", {}),
    "phi3": ("Phi3", {}),
    "mixtral": ("Mixtral", {"num_local_experts": 4}),
    "qwen3-moe": ("Qwen3Moe", {"num_experts": 4, "moe_intermediate_size": 64, "num_experts_per_tok": 2}),
}


def small(transformers, family, **changes):
    """The model, in float32."""
    name, more = FAMILIES[family]
    config = getattr(transformers, f"{name}TextConfig" if name == "Gemma3" else f"{name}Config")
    return getattr(transformers, f"{name}ForCausalLM")(config(**{**SIZES, **more, **changes})).eval()


def saved(transformers, family, path, **changes):
    """Where it was saved, in bfloat16."""
    small(transformers, family, **changes).bfloat16().save_pretrained(path)
    return path
