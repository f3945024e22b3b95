# SPDX-License-Identifier: MIT
"""How fast a model generates text, and in how much memory: in 4 bits, in bfloat16 and without kernels.

The weights are random: no file is read or fetched. Each way runs in a process of its own; what it computes is compared
with the path without kernels. Exits with 0, or with 1 and what was wrong.

`bench transformers` measures a model of transformers instead, with bitsandbytes and peft where they are installed.
`bench --against bitsandbytes,flash_attn,liger,torch` measures single operators beside those of them that are installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import _environment, _files, errors, ops
from kernelwright.bench import _plot, _report
from kernelwright.bench._shapes import ATTENTIONS, SHAPES, WAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

SWEEP = (1, 2, 4, 8, 16)
PROMPT = 16


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernelwright bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", choices=SHAPES, help="default: llama-8b-like on a GPU, llama-100m-like on the CPU")
    add("--tokens", type=_several, default=64, metavar="N", help="generated for each request, 2 or more; default 64")
    add("--prompt", type=_count, default=PROMPT, metavar="N", help=f"tokens that come before; default {PROMPT}")
    add("--requests", type=_count, default=20, metavar="N", help="default 20")
    add("--batch", type=_count, default=1, metavar="N", help="requests at once; default 1")
    add(
        "--sweep",
        action="store_true",
        help=f"measure {', '.join(map(str, SWEEP))} requests at once, and draw a picture",
    )
    add("--ways", default=",".join(WAYS), metavar="LIST", help=f"default: {','.join(WAYS)}")
    add("--attention", choices=ATTENTIONS, default=ATTENTIONS[0], help=f"whose; default {ATTENTIONS[0]}")
    add("--device", choices=("cpu", "cuda"), help="default: a GPU if torch sees one")
    add("--threads", type=_count, default=0, metavar="N", help="on the CPU; default: torch's")
    add("--eager", action="store_true", help="on a GPU: launch each kernel from Python instead of a CUDA graph")
    add("--quick", action="store_true", help="a tiny model and few tokens: says that it works and no more")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured")
    add("--plot", type=Path, metavar="FILE", help="an SVG; default with --sweep: kernelwright-bench-DEVICE.svg")
    options = parser.parse_args(arguments)
    options.ways = options.ways.split(",")
    if unknown := sorted(set(options.ways) - set(WAYS)):
        parser.error(f"--ways: no such way {', '.join(unknown)}; there are {', '.join(WAYS)}")
    _plot.check_files(parser, options)
    return options


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _several(text: str) -> int:
    """The first token is timed by itself, with the prompt; each other needs one before it."""
    number = int(text)
    if number < 2:
        raise ValueError(text)
    return number


_count.__name__ = "positive number"  # what argparse calls it in an error
_several.__name__ = "number of tokens (2 or more)"


def _request(options: argparse.Namespace) -> dict[str, Any]:
    """What every way is asked."""
    import torch

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = options.model or ("llama-8b-like" if device == "cuda" else "llama-100m-like")
    asked = {
        "device": device,
        "model": model,
        "prompt": options.prompt,
        "attention": options.attention,
        "tokens": options.tokens,
        "requests": options.requests,
        "batches": SWEEP if options.sweep else (options.batch,),
        "threads": options.threads,
        "eager": options.eager,
    }
    if options.quick:
        asked |= {"model": options.model or "llama-tiny-like", "tokens": min(options.tokens, 4), "requests": 2}
        asked |= {"batches": SWEEP[:2] if options.sweep else asked["batches"]}
    return asked


def _measured(asked: dict[str, Any], way: str) -> dict[str, Any] | str:
    """What the process of this way found, or what it said instead."""
    environment = _environment.everything()
    environment.pop(_environment.DISABLE, None)
    if way == "disabled":
        environment[_environment.DISABLE] = "1"
    command = [sys.executable, "-m", "kernelwright.bench._measure", json.dumps(asked | {"way": way})]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        found: dict[str, Any] = json.loads(lines[-1])
        return found
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"its process ended with {done.returncode}"


def _where(asked: dict[str, Any]) -> str:
    import torch

    if asked["device"] == "cuda":
        return str(torch.cuda.get_device_name())
    return f"the CPU, threads: {asked['threads'] or torch.get_num_threads()}"


def main(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in ("transformers", "bitnet"):
        return int(importlib.import_module(f"kernelwright.bench.{arguments[0]}.command").main(arguments[1:]))
    if any(word.partition("=")[0] in ("--against", "--from") for word in arguments):
        from kernelwright.bench.operators import command as operators

        return operators.main(arguments)
    options = _options(arguments)
    try:
        ops.register()
    except errors.TorchMissing as error:
        print(error)
        return 1
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print(f"--device cuda: torch {torch.__version__} sees no GPU; `python -m kernelwright` says why")
        return 1
    asked = _request(options)
    about = {
        "kernelwright": _files.version(),
        "torch": torch.__version__,
        "machine": _where(asked),
        **asked,
    }
    print(_report.heading(about), flush=True)
    results, failed = [], False
    for way in options.ways:
        found = _measured(asked, way)
        if isinstance(found, str):
            failed = True
            print(f"\n{way}: not measured. {found}", flush=True)
        else:
            results.append(found)
            print(_report.table(found), flush=True)
    wrong = _report.wrong(results)
    for line in [*_report.comparison(results), *wrong]:
        print(line)
    if options.json:
        options.json.write_text(json.dumps({**about, "ways": results}, indent=1) + "\n", encoding="utf-8")
    picture = options.plot or (Path(f"kernelwright-bench-{asked['device']}.svg") if options.sweep else None)
    if picture and results:
        picture.write_text(_plot.svg(about, results), encoding="utf-8")
        print(f"picture: {picture}")
    print("FAILED" if wrong or failed else "SUCCESS")
    return 1 if wrong or failed else 0
