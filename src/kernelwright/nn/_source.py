# SPDX-License-Identifier: MIT
"""What a forward pass of another library does with a value, read from its source: whether a norm may become one pass
with what follows it. Where there is no source, or another form of it, the answer is no."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def _function(own: Callable[..., Any]) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(own))))
    except (OSError, TypeError, SyntaxError):  # made at run time
        return None
    return tree.body[0] if isinstance(tree.body[0], ast.FunctionDef) else None


def _names(node: ast.AST, name: str) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id == name]


def _is_own(node: ast.AST, *names: str) -> bool:
    """Whether it is self.<one of the names>."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and node.attr in names
    )


def _call_of(step: ast.stmt, name: str) -> ast.Call | None:
    value = step.value if isinstance(step, (ast.Assign, ast.Return)) else None
    return value if isinstance(value, ast.Call) and _is_own(value.func, name) else None


def _hands_on(first: ast.stmt, then: ast.stmt, norm: str, layer: str) -> bool:
    """`x = self.norm(y)`, and behind it `x = self.layer(x, …)` or the same with more results: x is no more."""
    of_norm, of_layer = _call_of(first, norm), _call_of(then, layer)
    if of_norm is None or of_layer is None or not isinstance(first, ast.Assign):
        return False
    to = first.targets[0]
    if not isinstance(to, ast.Name) or len(first.targets) > 1 or len(of_norm.args) != 1 or of_norm.keywords:
        return False
    given = [*of_layer.args[:1], *[each.value for each in of_layer.keywords if each.arg == "hidden_states"]]
    uses = _names(of_layer, to.id)
    stays = isinstance(then, ast.Assign) and not any(_names(target, to.id) for target in then.targets)
    return len(uses) == 1 and any(each is uses[0] for each in given) and not stays


@cache
def hands_on(own: Callable[..., Any], norm: str, layer: str) -> bool:
    """Whether self.<norm> gives its result to self.<layer>, as the first argument, and to nothing else."""
    function = _function(own)
    if function is None or any(sum(_is_own(node, name) for node in ast.walk(function)) != 1 for name in (norm, layer)):
        return False
    return any(_hands_on(first, then, norm, layer) for first, then in pairwise(function.body))


@cache
def reads_only_in(own: Callable[..., Any], name: str, layers: tuple[str, ...]) -> bool:
    """Whether an argument is what these layers take, each alone, and asked for its shape, and nothing else."""
    function = _function(own)
    if function is None:
        return False
    known = [
        node.args[0] if isinstance(node, ast.Call) else node.value
        for node in ast.walk(function)
        if (isinstance(node, ast.Call) and _is_own(node.func, *layers) and len(node.args) == 1 and not node.keywords)
        or (isinstance(node, ast.Attribute) and node.attr == "shape")
    ]
    return all(any(use is each for each in known) for use in _names(function, name))
