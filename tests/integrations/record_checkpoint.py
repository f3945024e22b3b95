# SPDX-License-Identifier: MIT
"""Makes tests/ops/four_bit/bitsandbytes_checkpoint.json with an installed bitsandbytes; run with 0.50.2, on the CPU.

python tests/integrations/record_checkpoint.py FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import bitsandbytes
import torch


def hexadecimal(tensor: torch.Tensor) -> list[object]:
    plain = tensor.detach().contiguous()
    return [
        str(plain.dtype).partition(".")[2],
        list(plain.shape),
        bytes(plain.view(-1).view(torch.uint8).tolist()).hex(),
    ]


def record(quant_type: str, double: bool, dtype: torch.dtype, storage: torch.dtype) -> dict[str, object]:
    layer = bitsandbytes.nn.Linear4bit(
        64, 16, quant_type=quant_type, compress_statistics=double, quant_storage=storage
    ).to(dtype)
    layer.to("cpu")
    wide = bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    return {
        "name": f"{quant_type}{'-double' if double else ''}-{str(dtype)[6:]}-{str(storage)[6:]}",
        "state_dict": {name: hexadecimal(value) for name, value in layer.state_dict().items()},
        "dequantized": hexadecimal(wide),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    made = [
        record("nf4", True, torch.bfloat16, torch.uint8),
        record("nf4", False, torch.float32, torch.bfloat16),
        record("fp4", True, torch.float16, torch.uint8),
    ]
    Path(sys.argv[1]).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
