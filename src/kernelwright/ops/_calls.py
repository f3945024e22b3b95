# SPDX-License-Identifier: MIT
"""What `kernelwright.<op>` calls: the operators of torch, entered below autograd where no gradient is wanted.

`calls.rms_norm.residual(...)`, with all arguments by position, is `torch.ops.kernelwright.rms_norm.residual(...)` but
for two things. Where nothing can come of it the Autograd kernel, which is written in Python, is left out. And what a
kernel refuses keeps its class: torch's functions for kernels in C can raise a RuntimeError, no other.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kernelwright.ops import _private as private
from kernelwright.ops._rowwise import tell_dtensor
from kernelwright.ops._tensors import refuse_inference

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._schema import Schema

    Run = Callable[..., Any]

calls = SimpleNamespace()
"""By operator and overload, as `torch.ops.kernelwright`; empty until the operators are registered."""

_refused = threading.local()


def keep(error: BaseException) -> None:
    """Keeps what a kernel refuses until `kept` asks, without the frames it came through and their tensors."""
    if error.__cause__ is None:
        error.__context__ = None
    _refused.error = error.with_traceback(None)


def kept(error: BaseException) -> BaseException:
    """Of the RuntimeError that torch made of it, what was kept; that error itself where it is another."""
    found: BaseException | None = _refused.__dict__.pop("error", None)
    if found is None or str(found)[:1000] not in str(error):
        return error
    if found.__cause__ is None:
        found.__suppress_context__ = True
    return found


def entry(torch: Any, target: Any, schema: Schema, function: Any, name: str, *, counts: bool) -> Run:
    """The function of an overload. `function` is its autograd.Function for torch.func; `counts`: what is written to is
    counted by another kernel, which this leaves out too."""
    writes = counts and bool(schema.written)
    below = private.below_versions() if writes else private.below_autograd()
    transformed, level = private.transforms_active(), private.forward_level()
    if below is None or transformed is None:
        return _classed(target)
    compiling, enabled, wanted = torch.compiler.is_dynamo_compiling, torch.is_grad_enabled, _wanting(schema)
    run_plain = _counting(torch, target, schema, name, below) if writes else None

    def run(*args: Any) -> Any:
        if compiling():  # first, as what follows is nothing for torch.compile to look at
            return target(*args)
        try:
            if transformed():
                return function(*args) if function else target(*args)
            if level() >= 0 or (enabled() and wanted(args)):
                return target(*args)
            if run_plain:
                return run_plain(args)
            with below():
                return target(*args)
        except NotImplementedError as error:
            if tell_dtensor():
                return run(*args)
            raise kept(error) from error.__cause__
        except RuntimeError as error:
            raise kept(error) from error.__cause__

    return run


def _wanting(schema: Schema) -> Callable[[tuple[Any, ...]], bool]:
    """Whether a gradient is wanted of a tensor; or something is no tensor, or missing, which torch says best."""
    places = schema.tensors

    def wanted(args: tuple[Any, ...]) -> bool:
        try:
            for place in places:
                value = args[place]
                if value is not None and value.requires_grad:
                    return True
        except (AttributeError, IndexError):
            return True
        return False

    return wanted


def _classed(target: Any) -> Run:
    def run(*args: Any) -> Any:
        try:
            return target(*args)
        except RuntimeError as error:
            raise kept(error) from error.__cause__

    return run


def _counting(
    torch: Any, target: Any, schema: Schema, name: str, below: Callable[[], Any]
) -> Callable[[tuple[Any, ...]], Any]:
    """A call that writes, with its arguments: a backward pass that saved what it writes to must notice."""
    count, inference, op = (
        torch.autograd.graph.increment_version,
        torch.is_inference_mode_enabled,
        name.partition(".")[0],
    )
    plain, places = {torch.Tensor, torch.nn.Parameter}, schema.written

    def run(args: tuple[Any, ...]) -> Any:
        within = inference()
        for place in places:
            if place >= len(args) or type(args[place]) not in plain:
                return target(*args)
            if not within and args[place].is_inference():
                refuse_inference(op, schema.arguments[place].name, args[place])
        with below():
            found = target(*args)
        if not within:
            for place in places:
                count(args[place])
        return found

    return run
