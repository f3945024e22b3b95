# SPDX-License-Identifier: MIT
"""A checkpoint with random weights, and how each way loads it. Importing this file imports torch and transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import transformers

from kernelwright.integrations.transformers import optimize

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from kernelwright.bench._shapes import Shape

LONGEST = 8192


def save(shape: Shape, path: Path, device: str) -> None:
    """A Llama of this shape, in bfloat16."""
    config = transformers.LlamaConfig(
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        vocab_size=shape.vocabulary,
        max_position_embeddings=LONGEST,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(path)


def _settings(double: bool) -> Any:
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=double,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


class Nothing(torch.nn.Module):
    """Gives zeros where a linear layer gave its product."""

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros((*x.shape[:-1], self.out_features))


def _without_products(model: Any) -> Any:
    for name, module in list(model.named_modules()):
        if type(module) is torch.nn.Linear and module is not model.get_output_embeddings():
            model.set_submodule(name, Nothing(module.out_features))
    return model


def prepare(way: str) -> None:
    """What a program does before it loads a model."""
    if way == "under":
        import kernelwright.integrations.bitsandbytes as under

        under.enable()
    elif way in ("quantizer", "optimize"):
        import kernelwright.integrations.transformers as quantizer

        quantizer.enable()


def load(way: str, path: str, device: str, double: bool = True) -> Any:
    options = {} if way in ("bf16", "floor", "fused", "liger") else {"quantization_config": _settings(double)}
    pretrained = transformers.AutoModelForCausalLM.from_pretrained
    model = pretrained(path, dtype=torch.bfloat16, device_map={"": device}, **options).eval()
    if way in ("optimize", "fused"):
        optimize(model)
    elif way == "liger":
        from liger_kernel.transformers import apply_liger_kernel_to_llama

        # The loss stays torch's in all ways.
        apply_liger_kernel_to_llama(rope=False, fused_linear_cross_entropy=False, model=model)
    return _without_products(model) if way == "floor" else model


def vocabulary(model: Any) -> int:
    return int(model.config.vocab_size)


def generate(model: Any, ids: Tensor, tokens: int, **options: Any) -> Any:
    """Exactly so many tokens, each the best."""
    count = {"min_new_tokens": tokens, "max_new_tokens": tokens}
    return model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **count, **options)


def tunable(model: Any) -> Any:
    """With gradients of norms and MLPs, and of nothing else; checkpointing on."""
    model.gradient_checkpointing_enable({"use_reentrant": False})
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".mlp." in name or "norm" in name)
    return model.train()


def adapted(way: str, model: Any, rank: int) -> Any:
    """With an adapter of peft's on every linear layer of the blocks, ready to train; checkpointing on."""
    import peft

    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.enable_input_require_grads()
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config).train()
    if way == "optimize":
        optimize(model)
    return model
