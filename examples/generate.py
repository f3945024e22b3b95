# SPDX-License-Identifier: MIT
"""Text from a transformers model with everything of ours: 4-bit weights, attention, norms, gated MLPs. CPU or GPU.

pip install transformers accelerate     # beside torch and kernelwright
python examples/generate.py
"""

from __future__ import annotations

import tempfile
import time

import torch
import transformers

import kernelwright.integrations.transformers as kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOKENS = 32
CONFIG = transformers.LlamaConfig(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=1000,
    eos_token_id=None,
)
NF4 = transformers.BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
)


def main() -> None:
    """Prints what `optimize` put where, the tokens, and how many came a second."""
    torch.manual_seed(0)
    kernels.enable()
    kernels.register_attention()
    with tempfile.TemporaryDirectory() as scratch:
        transformers.LlamaForCausalLM(CONFIG).bfloat16().save_pretrained(scratch)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            scratch,
            dtype=torch.bfloat16,
            device_map=DEVICE,
            quantization_config=NF4,
            attn_implementation="kernelwright",
        )
    print(kernels.optimize(model))
    ids = torch.randint(CONFIG.vocab_size, (1, 8), device=DEVICE)
    model.generate(ids, max_new_tokens=2, do_sample=False)  # the first call loads kernels
    begin = time.perf_counter()
    out = model.generate(ids, max_new_tokens=TOKENS, do_sample=False)
    seconds = time.perf_counter() - begin
    print("tokens:", *out[0, ids.shape[1] :].tolist())
    print(f"{TOKENS / seconds:.0f} tokens a second on {DEVICE}")


if __name__ == "__main__":
    main()
