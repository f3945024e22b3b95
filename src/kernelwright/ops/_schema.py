# SPDX-License-Identifier: MIT
"""What a schema says, read from its text: torch's own objects for that have no public name."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any, NamedTuple

_ARGUMENT = re.compile(
    r"(?P<type>\w+(?:\[\])?)(?P<alias>\(\w+!?\))?(?P<optional>\?)? (?P<name>\w+)(?:=(?P<default>.+))?"
)


class Argument(NamedTuple):
    name: str
    type: str
    optional: bool
    written: bool
    default: Any


class Schema(NamedTuple):
    arguments: tuple[Argument, ...]
    results: int

    @property
    def tensors(self) -> tuple[int, ...]:
        """The places of tensors."""
        return tuple(place for place, argument in enumerate(self.arguments) if argument.type == "Tensor")

    @property
    def written(self) -> tuple[int, ...]:
        """The places of what is written to."""
        return tuple(place for place, argument in enumerate(self.arguments) if argument.written)


def _argument(text: str) -> Argument:
    found = _ARGUMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"a schema's argument is {text!r}")
    default = ast.literal_eval(found["default"]) if found["default"] else None
    return Argument(found["name"], found["type"], bool(found["optional"]), "!" in (found["alias"] or ""), default)


@cache
def parse(text: str) -> Schema:
    """Of "(Tensor x, float eps=1e-6) -> Tensor"."""
    arguments, _, results = text[1:].partition(") -> ")
    inside = results.strip("()")
    return Schema(
        tuple(_argument(part) for part in arguments.split(", ") if part), len(inside.split(",")) if inside else 0
    )
