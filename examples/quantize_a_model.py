# SPDX-License-Identifier: MIT
"""A transformers model in 4 bits: written as it is, loaded quantized, saved and loaded again. CPU or GPU.

    pip install transformers accelerate     # beside torch and kernelwright
    python examples/quantize_a_model.py

The model has a Llama's layers and random weights, so that nothing is fetched; `from_pretrained` takes a real one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import transformers

import kernelwright.integrations.transformers as kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIG = transformers.LlamaConfig(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=1000,
)
NF4 = transformers.BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_use_double_quant=True
)


def megabytes(model: torch.nn.Module) -> float:
    """What its weights take."""
    return sum(tensor.nbytes for tensor in model.state_dict().values()) / 1e6


def main() -> None:
    """Prints what became smaller, and how far the answers are from each other."""
    torch.manual_seed(0)
    ids = torch.randint(CONFIG.vocab_size, (2, 32), device=DEVICE)
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        dense, small = Path(scratch, "dense"), Path(scratch, "nf4")
        transformers.LlamaForCausalLM(CONFIG).bfloat16().save_pretrained(dense)
        wide = transformers.AutoModelForCausalLM.from_pretrained(dense, dtype=torch.bfloat16, device_map=DEVICE)

        kernels.enable()  # from here on the quantizer of 4-bit models is kernelwright's
        model = transformers.AutoModelForCausalLM.from_pretrained(
            dense, dtype=torch.bfloat16, device_map=DEVICE, quantization_config=NF4
        )
        print(f"weights: {megabytes(wide):.2f} MB in bfloat16, {megabytes(model):.2f} MB in NF4")
        expected, found = wide(ids).logits.float(), model(ids).logits.float()
        far = (found - expected).norm() / expected.norm()
        print(f"logits differ by {far:.3f} of their size, by quantization")

        model.save_pretrained(small)
        again = transformers.AutoModelForCausalLM.from_pretrained(small, device_map=DEVICE)
        same = torch.equal(again(ids).logits, model(ids).logits)
        print(f"saved and loaded: {'the same bits' if same else 'OTHER bits'}")


if __name__ == "__main__":
    main()
