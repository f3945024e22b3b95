# SPDX-License-Identifier: MIT
"""Tokens a second of a BitNet model of transformers, by its own layers and by ours, on the installed wheel.

    python benchmarks/ops/ternary/model.py [--tiny] [--device cpu] [--ways WAY …] [--out FILE]

The shapes are those of microsoft/bitnet-b1.58-2B-4T, the weights random: a checkpoint in its format is written to a
temporary folder and loaded by from_pretrained in each way. Before a way is timed, its logits of a prompt are compared
with those in float32: each rounding of 30 random layers grows, so what transformers' own differ by is the measure.
What a token must read is every ternary weight in 2 bits and the output layer in 16.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.harness import record
from kernelwright.integrations import transformers as ours

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE = {
    "hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 30, "num_attention_heads": 20,
    "num_key_value_heads": 5, "vocab_size": 128256, "rope_theta": 500000.0, "tie_word_embeddings": True,
}  # fmt: skip
TINY = {
    "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": True,
}  # fmt: skip
TERNARY = tuple(f"{name}_proj.weight" for name in ("q", "k", "v", "o", "gate", "up", "down"))
PROMPT, TOKENS, RUNS = 64, 64, 2
NEAR = 1.5  # times as far from float32 as transformers' own layers in bfloat16, at most
WAYS = {
    "eager": "transformers' own layers",
    "compiled": "transformers' own layers, a static cache, compiled",
    "ours": "kernelwright's layers",
    "ours compiled": "kernelwright's layers, optimize(model), a static cache, compiled",
}


def write(folder: Path, shape: dict[str, Any], device: str) -> int:
    """A checkpoint of random weights; how many of them are ternary."""
    import safetensors.torch

    config = transformers.BitNetConfig(**shape, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    torch.manual_seed(1)
    with torch.device(device):
        state = transformers.BitNetForCausalLM(config).to(torch.bfloat16).state_dict()
    count = 0
    for name in [name for name in state if name.endswith(TERNARY)]:
        single = state[name].float()
        count += single.numel()
        mean = single.abs().mean()
        codes = ((single / mean).round().clamp(-1, 1) + 1).to(torch.uint8).view(4, -1, single.shape[1])
        state[name] = codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6
        state[name + "_scale"] = mean.reshape(1).to(torch.bfloat16)
    config.save_pretrained(folder)
    words = json.loads((folder / "config.json").read_text()) | {
        "architectures": ["BitNetForCausalLM"],
        "dtype": "bfloat16",
        "quantization_config": {
            "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline",
            "modules_to_not_convert": ["lm_head"],
        },
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(words))
    kept = {name: value.cpu().contiguous().clone() for name, value in state.items() if name != "lm_head.weight"}
    safetensors.torch.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return count


def load(folder: Path, way: str, device: str, dtype: torch.dtype = torch.bfloat16) -> Any:
    if way.startswith("ours"):
        ours.enable()
    try:
        model = transformers.BitNetForCausalLM.from_pretrained(folder, dtype=dtype, device_map={"": device})
    finally:
        ours.disable()
    if way == "ours compiled":
        print(ours.optimize(model), flush=True)
    if way == "compiled":
        type(model.hf_quantizer).is_compileable = True  # it does not say so; without it generate() would not compile
    return model.eval()


def seconds(run: Callable[[], Any], device: str) -> float:
    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    wait()
    before = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - before


def speed(model: Any, way: str, batch: int, device: str) -> float:
    torch.compiler.reset()  # else a second batch size is compiled for sizes that vary
    ids = torch.randint(3, model.config.vocab_size, (batch, PROMPT), device=device)
    options = {"cache_implementation": "static"} if way.endswith("compiled") else {}

    def run() -> None:
        model.generate(ids, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, **options)

    for _ in range(2):
        run()
    return batch * TOKENS / min(seconds(run, device) for _ in range(RUNS))


def measured(
    folder: Path, device: str, ways: list[str], batches: tuple[int, ...], out: Callable[[dict[str, Any]], None]
) -> None:
    exact = logits(load(folder, "eager", device, torch.float32), device)
    theirs = apart(logits(load(folder, "eager", device), device), exact)
    for way in ways:
        model = load(folder, way, device)
        far = apart(logits(model, device), exact)
        if not far <= NEAR * theirs:
            raise SystemExit(
                f"{way}: logits are {far:.3g} of their norm away from float32, transformers' own {theirs:.3g}"
            )
        for batch in batches:
            found = speed(model, way, batch, device)
            apart_by = {"logits_apart": far, "logits_of_transformers_apart": theirs}
            out({"way": way, "batch": batch, "tokens_per_second": found, **apart_by})
        del model
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


def logits(model: Any, device: str) -> Any:
    with torch.no_grad():
        return model(torch.arange(3, 3 + PROMPT, device=device)[None]).logits.float()


def apart(found: Any, exact: Any) -> float:
    return float((found - exact).norm() / exact.norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="says that it works and no more")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help=f"default: {', '.join(WAYS)}")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit")
    asked = parser.parse_args()
    shape = TINY if asked.tiny else SHAPE
    device: Any = _device(asked.device)
    about = record.facts(device, asked.commit) | {
        "command": " ".join(["python benchmarks/ops/ternary/model.py", *sys.argv[1:]]),
        "what": "tokens a second of generate(), the best of several",
        "transformers": transformers.__version__,
        "shape": shape,
    }
    results: list[dict[str, Any]] = []

    def add(result: dict[str, Any]) -> None:
        results.append(result)
        print(
            f"{result['way']:16} {result['batch']:3} at once {result['tokens_per_second']:10.1f} tokens/s", flush=True
        )
        if asked.out:
            asked.out.write_text(json.dumps(about | {"results": results}, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as folder:
        ternary = write(Path(folder), shape, asked.device)
        read = ternary // 4 + 2 * shape["hidden_size"] * shape["vocab_size"]
        about["bytes_a_token"] = read
        print(f"{ternary / 1e9:.3f}e9 ternary weights; a token reads {read / 1e9:.3f} GB")
        measured(Path(folder), asked.device, asked.ways, (1, 2) if asked.tiny else (1, 16), add)


def _device(kind: str) -> Any:
    if kind == "cuda":
        from kernelwright.bench.harness.cuda import Gpu

        return Gpu()
    from kernelwright.bench.harness.cpu import Cpu

    return Cpu(None)


if __name__ == "__main__":
    main()
