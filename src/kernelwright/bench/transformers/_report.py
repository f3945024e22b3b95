# SPDX-License-Identifier: MIT
"""The table, the line to share, and whether the ways agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Steps = Mapping[str, Mapping[str, Any]]
    """What one way found, by step."""

# Of logits that passed all layers in bfloat16 by two ways with the same codes, as a share of all.
ROUNDING = 0.1
UNQUANTIZED = ("bf16", "floor", "fused", "liger")


def rows(ways: Mapping[str, Steps]) -> list[tuple[str, str, str, bool]]:
    """Of each line of the table: step, the value's key, words, and whether more is better."""
    names = list(dict.fromkeys(step for steps in ways.values() for step in steps))
    found: list[tuple[str, str, str, bool]] = []
    for kind, key, words, more in (
        ("load", "load_s", "load, s", False),
        ("load", "first_token_s", "first token of a new process, s", False),
        ("load", "bytes", "memory, GB", False),
        ("eager", "tokens_per_second", "tokens/s, eager, batch {}", True),
        ("eager", "operators", "  operators called a token, batch {}", False),
        ("static", "tokens_per_second", "tokens/s, static cache, batch {}", True),
        ("static", "graphs", "  graphs compiled, batch {}", False),
        ("static", "first_call_s", "  first call, batch {}, s", False),
        ("prefill", "ms", "prefill of {} tokens, ms", False),
        ("tune", "tokens_per_second", "tokens/s, tuning norms and MLPs, {} tokens", True),
        ("tune", "peak_bytes", "  peak memory of {}, GB", False),
        ("train", "ms", "training step {} tokens, ms", False),
        ("train", "peak_bytes", "  peak memory of {}, GB", False),
    ):
        here = [name for name in names if any(key in steps.get(name, ()) for steps in ways.values())]
        found += [
            (name, key, words.format(name.partition("-")[2]), more) for name in here if name.partition("-")[0] == kind
        ]
    return found


def shown(value: Any, key: str) -> str:
    if value is None:
        return "-"
    if key.endswith("bytes"):
        return f"{value / 1e9:.2f}"
    return f"{value:.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3g}"


def table(ways: Mapping[str, Steps]) -> str:
    """In Markdown, so that it can be pasted where people talk."""
    lines = [f"| | {' | '.join(ways)} |", "|---|" + "---:|" * len(ways)]
    for step, key, words, _ in rows(ways):
        cells = [shown(steps.get(step, {}).get(key), key) for steps in ways.values()]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def share(about: Mapping[str, Any], ways: Mapping[str, Steps]) -> str:
    """One line to share: the best way of ours, and bfloat16 and bitsandbytes behind it."""
    ours = next((way for way in ("optimize", "quantizer", "under") if way in ways), None)
    if ours is None:
        return ""
    parts = []
    for step, key, words, _ in rows(ways):
        if key not in ways[ours].get(step, ()) or words.startswith(" ") or step == "load":
            continue
        values = {way: ways.get(way, {}).get(step, {}).get(key) for way in ("bf16", "bitsandbytes")}
        beside = ", ".join(f"{way} {shown(value, key)}" for way, value in values.items() if value)
        parts.append(f"{words} {shown(ways[ours][step][key], key)}" + (f" ({beside})" if beside else ""))
    versions = f"kernelwright {about['kernelwright']}, torch {about['torch']}, transformers {about['transformers']}"
    return f"{about['model']} on {about['machine']}, {ours}: {'; '.join(parts)}. {versions}"


def difference(one: Sequence[float], other: Sequence[float]) -> float:
    pairs = list(zip(one, other, strict=True))
    return math.sqrt(sum((a - b) ** 2 for a, b in pairs) / sum(b * b for _, b in pairs))


def wrong(ways: Mapping[str, Steps]) -> list[str]:
    """What a way computes must be numbers, and what others compute with the same codes."""
    lines = []
    for way, steps in ways.items():
        if way == "floor":
            continue
        for step, found in steps.items():
            numbers = [*found.get("logits", ()), found.get("loss", 0.0), found.get("last_loss", 0.0)]
            if not all(map(math.isfinite, numbers)):
                lines.append(f"WRONG {way}: {step} gave what is no finite number")
    if lines:
        return lines
    quantized = [way for way in ways if way not in UNQUANTIZED]
    for way in quantized[1:]:
        for step in [step for step in ways[way] if "logits" in ways[way][step]]:
            like = ways[quantized[0]].get(step, {}).get("logits")
            apart = difference(ways[way][step]["logits"], like) if like else 0.0
            if not apart <= ROUNDING:
                lines.append(f"WRONG {way}: after {step} its logits differ from those of {quantized[0]} by {apart:.1%}")
    return lines + _wrong_losses(ways)


def _wrong_losses(ways: Mapping[str, Steps]) -> list[str]:
    """Of the same weights in bfloat16, before they learned anything."""
    first: dict[str, tuple[str, float]] = {}
    lines = []
    for way, steps in ways.items():
        for step in [step for step in steps if step.startswith("tune") and "loss" in steps[step]]:
            loss = steps[step]["loss"]
            other, like = first.setdefault(step, (way, loss))
            if not abs(loss - like) <= ROUNDING * abs(like):
                lines.append(f"WRONG {way}: {step} began with a loss of {loss:.4g}, and {other} with {like:.4g}")
    return lines


def errors(ways: Mapping[str, Steps]) -> list[str]:
    return [
        f"{way}: {step} was not measured. {found['error']}"
        for way, steps in ways.items()
        for step, found in steps.items()
        if "error" in found
    ]
