# SPDX-License-Identifier: MIT
"""Whom operators can be timed beside, in the words of `--against`; who of them is here, in which version."""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass

from kernelwright.bench.harness.contestants import COMPILE, EAGER, ON_CPU


@dataclass(frozen=True)
class Peer:
    """A library: what it is imported as, what pip calls it, and its names among the contestants of a case."""

    module: str
    distribution: str
    contestants: tuple[str, ...]


PEERS = {
    "bitsandbytes": Peer("bitsandbytes", "bitsandbytes", ("bitsandbytes",)),
    "flash_attn": Peer("flash_attn", "flash-attn", ("flash_attn",)),
    "liger": Peer("liger_kernel", "liger-kernel", ("liger",)),
    "torch": Peer("torch", "torch", (EAGER, "scaled_mm", "scaled_mm_fast")),
    "compile": Peer("torch", "torch", (COMPILE,)),
}
USUAL = ("bitsandbytes", "flash_attn", "liger", "torch")
SHOWN = {EAGER: "torch", COMPILE: "torch.compile", "scaled_mm": "_scaled_mm", "scaled_mm_fast": "_scaled_mm, fast"}
"""What readers see where it is not the contestant's name."""


def here(word: str, device: str) -> tuple[str, str]:
    """(version, "") of a peer that can be timed; ("", why) of one that cannot."""
    peer = PEERS[word]
    if device != "cuda" and word not in (*ON_CPU, "torch", "compile"):
        return "", "needs a GPU"
    try:
        module = importlib.import_module(peer.module)
        return str(getattr(module, "__version__", "") or importlib.metadata.version(peer.distribution)), ""
    except ModuleNotFoundError as error:
        missing = error.name == peer.module
        return "", "not installed" if missing else f"{error.name}, which it needs, is not installed"
    except Exception as error:  # noqa: BLE001 - whatever another library's import ends with
        return "", f"{type(error).__name__}: {str(error).partition(chr(10))[0][:100]}"
