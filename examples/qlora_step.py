# SPDX-License-Identifier: MIT
"""QLoRA: an adapter of peft's trains on a model in 4 bits, with 8-bit Adam. CPU or GPU.

pip install transformers accelerate peft     # beside torch and kernelwright
python examples/qlora_step.py
"""

from __future__ import annotations

import tempfile

import peft
import torch
import transformers

import kernelwright
import kernelwright.integrations.transformers as kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STEPS = 8
CONFIG = transformers.LlamaConfig(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=1000,
)
NF4 = transformers.BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
)
LORA = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")


def main() -> None:
    """Prints the loss of each step: one batch is learnt by heart."""
    torch.manual_seed(0)
    kernels.enable()
    with tempfile.TemporaryDirectory() as scratch:
        transformers.LlamaForCausalLM(CONFIG).save_pretrained(scratch)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            scratch, dtype=torch.float32, device_map=DEVICE, quantization_config=NF4
        )
    model = peft.get_peft_model(model, LORA).train()
    print(kernels.optimize(model))  # one autograd function a LoRA layer, our attention and norms
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = kernelwright.optim.AdamW8bit(trained, lr=5e-3)
    ids = torch.randint(CONFIG.vocab_size, (4, 64), device=DEVICE)
    for step in range(STEPS):
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
