# SPDX-License-Identifier: MIT
"""What a module that stands in for another library's says of names it does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import NotCovered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def refuse_others(
    module: str, names: Sequence[str], otherwise: str, why: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """A module's `__getattr__`: says what the module has, and what to use for the rest; of names in `why`, why not.

    What it raises is an AttributeError, so that `hasattr(bnb.nn, "OutlierAwareLinear")` is False as programs expect.
    """

    def refuse(name: str) -> Any:
        if name.startswith("__"):  # Python itself asks for such, and expects the plain answer
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if why and name in why:
            raise NotCovered(f"{module} does not cover {name!r}: {why[name]}", name=name)
        raise NotCovered(f"{module} does not cover {name!r}; it has {', '.join(names)}. {otherwise}", name=name)

    return refuse
