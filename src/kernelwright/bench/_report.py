# SPDX-License-Identifier: MIT
"""What was measured, in words and numbers, and whether the ways agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.bench._shapes import WAYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Of logits that passed all layers in bfloat16 by two ways, as a share of all; wrong kernels differ by about 1.
ROUNDING = 0.1

Found = dict[str, Any]


def heading(about: Mapping[str, Any]) -> str:
    work = f"{about['requests']} requests of {about['prompt']} + {about['tokens']} tokens"
    return (
        f"kernelwright {about['kernelwright']}, torch {about['torch']}, on {about['machine']}\n"
        f"{about['model']}, random weights: {work}, attention by {about['attention']}"
    )


def size(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def table(found: Found) -> str:
    graph = any(row["graph"] for row in found["batches"])
    lines = [
        f"\n{found['way']}: {WAYS[found['way']]}{', a CUDA graph each token' if graph else ''}",
        f"weights {size(found['weights_bytes'])}, peak {size(found['peak_bytes'])}",
        f"{'at once':>8} {'tokens/s':>9} {'first token':>17} {'each token, p50':>16} {'p90':>9} {'p99':>9}",
    ]
    for row in found["batches"]:
        first, each = row["first_token_ms"]["p50"], row["token_ms"]
        lines.append(
            f"{row['batch']:8} {row['tokens_per_second']:9.1f} {first:14.2f} ms "
            f"{each['p50']:13.3f} ms {each['p90']:6.3f} ms {each['p99']:6.3f} ms"
        )
    return "\n".join(lines)


def difference(one: Found, other: Found) -> float:
    """Of the logits after a prompt, as a share of all."""
    pairs = list(zip(one["logits"], other["logits"], strict=True))
    return math.sqrt(sum((a - b) ** 2 for a, b in pairs) / sum(b * b for _, b in pairs))


def _named(results: Sequence[Found]) -> dict[str, Found]:
    return {found["way"]: found for found in results}


def comparison(results: Sequence[Found]) -> list[str]:
    """One way beside another, at as many requests at once."""
    ways = _named(results)
    lines = [""]
    for way, other in (("nf4", "bf16"), ("nf4", "disabled")):
        if way in ways and other in ways:
            pairs = zip(ways[way]["batches"], ways[other]["batches"], strict=True)
            ratios = [f"{a['tokens_per_second'] / b['tokens_per_second']:.2f} at {a['batch']}" for a, b in pairs]
            share = ways[way]["weights_bytes"] / ways[other]["weights_bytes"]
            lines.append(f"{way} beside {other}: tokens/s times {', '.join(ratios)}; {share:.0%} of the weights' bytes")
            what = "quantization changes" if other == "bf16" else "what rounding may differ by:"
            lines.append(f"  logits: {what} {difference(ways[way], ways[other]):.1%}")
    return lines


def wrong(results: Sequence[Found]) -> list[str]:
    """What the kernels compute must be what the path without them does."""
    ways = _named(results)
    lines = [
        f"WRONG {way}: the logits are not finite numbers"
        for way, found in ways.items()
        if not all(map(math.isfinite, found["logits"]))
    ]
    if not lines and "nf4" in ways and "disabled" in ways:
        apart = difference(ways["nf4"], ways["disabled"])
        if not apart <= ROUNDING:
            lines.append(f"WRONG nf4: its logits differ from those of the path without kernels by {apart:.1%}")
    return lines
