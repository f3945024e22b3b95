# SPDX-License-Identifier: MIT
"""How many operators run for a token: each is a launch on a GPU, or several. Importing this file imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not getattr(func, "is_view", False)
        return func(*args, **(kwargs or {}))


def a_token(generate: Callable[[int], Any]) -> int:
    """Of `generate(tokens)`: what one more token calls. Views launch nothing and do not count."""
    counts = []
    for tokens in (2, 3):
        with _Counting() as counting:
            generate(tokens)
        counts.append(counting.count)
    return counts[1] - counts[0]
