# SPDX-License-Identifier: MIT
"""The Autograd kernels of the operators: one that records a derivative, one that refuses to.

torch.library.register_autograd would do, but it looks the schema up in every call: where gradients are recorded a call
costs half again as much with it, and where they are not still a third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright import errors
from kernelwright.ops import _private as private
from kernelwright.ops._calls import kept
from kernelwright.ops._rowwise import tell_dtensor
from kernelwright.ops._tensors import no_tangents, refuse_inference, refuse_tangents

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._record import Backward
    from kernelwright.ops._schema import Schema

    Run = Callable[..., Any]


def _wants_gradients(torch: Any) -> Callable[..., int | None]:
    """A function of a call's arguments: the place of the first one that gradients are wanted of."""
    tensor, enabled = torch.Tensor, torch.is_grad_enabled

    def first(args: tuple[Any, ...]) -> int | None:
        if enabled():
            for index, value in enumerate(args):
                if isinstance(value, tensor) and value.requires_grad:
                    return index
        return None

    return first


def _redispatch(target: Any, refuse: Callable[..., None]) -> Callable[[Any, tuple[Any, ...]], Any]:
    """Goes on below autograd. A tensor subclass without this operator only has its name to say; `refuse` says more."""
    go_on = private.redispatch(target, "autograd")

    def run(keyset: Any, args: tuple[Any, ...]) -> Any:
        try:
            return go_on(keyset, args)
        except NotImplementedError as error:
            if tell_dtensor():
                return run(keyset, args)
            refuse(*args)
            raise kept(error) from error.__cause__
        except RuntimeError as error:
            raise kept(error) from error.__cause__

    return run


def _title(name: str) -> str:
    return "".join(word.title() for word in name.replace(".", "_").split("_"))


def function(torch: Any, target: Any, name: str, backward: Backward) -> Run:
    """`apply` of an autograd.Function for torch.func, which wants its forward pass and what it saves apart."""

    def forward(*args: Any) -> Any:
        return target(*args)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        backward.setup_context(ctx, inputs, output)

    def jvp(ctx: Any, *tangents: Any) -> Any:  # noqa: ARG001 - torch's signature
        raise no_tangents(name.partition(".")[0])

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "jvp": staticmethod(jvp),
        "backward": staticmethod(backward.backward),
        "generate_vmap_rule": True,
    }
    made: Run = type(f"{_title(name)}Transformed", (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]
    return made


def record_gradients(
    torch: Any, target: Any, name: str, schema: Schema, backward: Backward, refuse: Callable[..., None]
) -> Run:
    """For an overload with a derivative."""
    defaults = tuple(argument.default for argument in schema.arguments)
    wanted, redispatch = _wants_gradients(torch), _redispatch(target, refuse)
    transformed = private.transforms_active() or (lambda: False)
    op, level = name.partition(".")[0], private.forward_level()

    def forward(ctx: Any, *args: Any) -> Any:
        *args, keyset = args  # type: ignore[assignment]
        output = redispatch(keyset, args)
        backward.setup_context(ctx, (*args, *defaults[len(args) :]), output)
        return output

    def reverse(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (*backward.backward(ctx, *grads), None)  # none for the keyset

    members = {"forward": staticmethod(forward), "backward": staticmethod(reverse)}
    apply = type(f"{_title(name)}Gradient", (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]

    def run(keyset: Any, *args: Any) -> Any:
        if level() >= 0:
            refuse_tangents(op, args)
        if wanted(args) is None:
            return redispatch(keyset, args)
        if transformed():
            raise errors.Unsupported(
                f"{target} records no gradients within torch.func.grad, vjp and the like, which torch has no way "
                f"to give operators: call kernelwright.{op}, or use backward() or torch.autograd.grad"
            )
        try:
            return apply(*args, keyset)
        except RuntimeError as error:
            if "Inference tensors" in str(error):
                _refuse_inference(torch, name, schema, args, error)
            raise

    return run


def _refuse_inference(torch: Any, name: str, schema: Schema, args: Any, error: Exception) -> None:
    """torch says that such tensors cannot be saved, but not which."""
    for argument, value in zip(schema.arguments, args, strict=False):
        if isinstance(value, torch.Tensor) and value.is_inference():
            raise errors.InvalidArgument(
                f"{name}: {argument.name} was made in inference mode, and cannot be kept for a derivative; "
                f"give a copy made outside of it (.clone()), or call under torch.no_grad()"
            ) from error


def refuse_gradients(torch: Any, target: Any, name: str, schema: Schema, refuse: Callable[..., None]) -> Run:
    """For an overload without; torch's own fallback would give silently wrong gradients."""
    names, op = [argument.name for argument in schema.arguments], name.partition(".")[0]
    wanted, redispatch = _wants_gradients(torch), _redispatch(target, refuse)
    otherwise = "use the overload that does not write in place" if schema.written else "give it without (.detach())"
    level = private.forward_level()

    def run(keyset: Any, *args: Any) -> Any:
        if level() >= 0:
            refuse_tangents(op, args)
        index = wanted(args)
        if index is not None:
            raise errors.Unsupported(
                f"kernelwright::{name} records no gradients, but its argument {names[index]!r} requires them: "
                f"call it under torch.no_grad(), or {otherwise}"
            )
        return redispatch(keyset, args)

    return run


def count_writes(torch: Any, target: Any, name: str, schema: Schema) -> Run:
    """A kernel that tells autograd what is written to: those in C cannot."""
    op = name.partition(".")[0]
    written, tensor, go_on = torch.autograd.graph.increment_version, torch.Tensor, private.redispatch(
        target, "ADInplaceOrView"
    )  # fmt: skip

    def run(keyset: Any, *args: Any) -> Any:
        for place in schema.written:
            if isinstance(args[place], tensor):
                refuse_inference(op, schema.arguments[place].name, args[place])
        try:
            found = go_on(keyset, args)
        except RuntimeError as error:
            raise kept(error) from error.__cause__
        for place in schema.written:
            if isinstance(args[place], tensor) and not args[place].is_inference():
                written(args[place])
        return found

    return run
