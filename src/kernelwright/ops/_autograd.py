# SPDX-License-Identifier: MIT
"""The Autograd kernels of the operators: one that records a derivative, one that refuses to.

torch.library.register_autograd would do, but it looks the schema up in every call: where gradients are recorded a call
costs half again as much with it, and where they are not still a third. And where nothing lies between autograd and a
kernel, the kernel is called: going through the dispatcher a second time would be a fifth of a short call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright import errors
from kernelwright.ops._tensors import refuse_overlap, refuse_tangents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernelwright.ops._record import Backward

    Kernels = Mapping[str, Callable[..., Any]]
    """By dispatch key."""


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


def _name(target: Any) -> str:
    """The operator's, without namespace and overload."""
    return str(target.name().partition("::")[2].partition(".")[0])


def _alone(torch: Any, kernels: Kernels) -> Callable[[Any], Callable[..., Any] | None]:
    """A function of an Autograd kernel's set of keys: the kernel, if below autograd there is nothing but its key: no
    mode, subclass, transform or lazy view wants to see the call."""
    below = torch._C._after_autograd_keyset  # noqa: SLF001 - it has no public name; torch.library does the same
    keyset_of, keys = torch._C.DispatchKeySet, torch._C.DispatchKey  # noqa: SLF001 - as above
    if not hasattr(keyset_of, "raw_repr"):  # torch 2.4: nothing tells quickly what is in a set
        return lambda _: None
    known = {keyset_of(getattr(keys, key)).raw_repr(): kernel for key, kernel in kernels.items()}.get
    return lambda keyset: known((keyset & below).raw_repr())


def shortcut(
    torch: Any,
    target: Any,
    kernels: Kernels,
    otherwise: Callable[..., Any],
    explain: Callable[..., None],
) -> Callable[..., Any]:
    """An Autograd kernel that calls one of `kernels` by itself where nobody wants gradients and nothing lies between,
    and `otherwise` in all other cases. Where an argument is why one fails it is `explain` that says so."""
    alone, modes = _alone(torch, kernels), torch.autograd.forward_ad
    kinds = [str(argument.type) for argument in target._schema.arguments]  # noqa: SLF001
    tensors = sum("Tensor" in kind for kind in kinds)
    if not hasattr(torch._C.DispatchKeySet, "raw_repr") or any("Tensor" in kind for kind in kinds[tensors:]):  # noqa: SLF001
        return otherwise
    enabled = torch.is_grad_enabled
    known: dict[int, Callable[..., Any]] = {}  # by the set with autograd's keys in it, of which a program has a few
    look_up = known.get

    def run(keyset: Any, *args: Any) -> Any:
        kernel = look_up(keyset.raw_repr())
        if kernel is None:
            kernel = alone(keyset)
            if kernel is None:
                return otherwise(keyset, *args)
            known[keyset.raw_repr()] = kernel
        if modes._current_level >= 0:  # noqa: SLF001 - the public way to ask costs a microsecond
            return otherwise(keyset, *args)
        if enabled():
            for value in args[:tensors]:  # isinstance of all of them takes thrice as long
                if value is not None and value.requires_grad:
                    return otherwise(keyset, *args)
        try:
            return kernel(*args)
        except (AttributeError, TypeError, RuntimeError) as error:
            explain(error, *args)
            raise

    return run


def _redispatch(
    torch: Any, target: Any, refuse: Callable[..., None], kernels: Kernels
) -> Callable[[Any, tuple[Any, ...]], Any]:
    """Goes on below autograd. A tensor subclass without this operator only has its name to say; `refuse` says more."""
    below, alone = torch._C._after_autograd_keyset, _alone(torch, kernels)  # noqa: SLF001

    def run(keyset: Any, args: tuple[Any, ...]) -> Any:
        kernel = alone(keyset)
        if kernel is not None:
            return kernel(*args)
        try:
            return target.redispatch(keyset & below, *args)
        except NotImplementedError:
            refuse(*args)
            raise

    return run


def record_gradients(
    torch: Any, target: Any, backward: Backward, refuse: Callable[..., None], kernels: Kernels
) -> Callable[..., Any]:
    """For an overload with a derivative."""
    defaults = tuple(argument.default_value for argument in target._schema.arguments)  # noqa: SLF001
    wanted, redispatch = _wants_gradients(torch), _redispatch(torch, target, refuse, kernels)
    transformed = torch._C._are_functorch_transforms_active  # noqa: SLF001 - it has no public name
    op, modes = _name(target), torch.autograd.forward_ad

    def forward(ctx: Any, *args: Any) -> Any:
        *args, keyset = args  # type: ignore[assignment]
        output = redispatch(keyset, args)
        backward.setup_context(ctx, (*args, *defaults[len(args) :]), output)
        return output

    def reverse(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (*backward.backward(ctx, *grads), None)  # none for the keyset

    members = {"forward": staticmethod(forward), "backward": staticmethod(reverse)}
    name = "".join(word.title() for word in target.name().partition("::")[2].replace(".", "_").split("_"))
    apply = type(f"{name}Gradient", (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]

    def run(keyset: Any, *args: Any) -> Any:
        if modes._current_level >= 0:  # noqa: SLF001 - as above
            refuse_tangents(op, args)
        if wanted(args) is None:
            return redispatch(keyset, args)
        if transformed():
            raise errors.Unsupported(
                f"{target} records no gradients within torch.func.grad, vjp and the like: torch does not let operators "
                "written in Python. Use backward() or torch.autograd.grad"
            )
        try:
            return apply(*args, keyset)
        except RuntimeError as error:
            if "Inference tensors" in str(error):
                _refuse_inference(torch, target, args, error)
            raise

    return run


def _refuse_inference(torch: Any, target: Any, args: Any, error: Exception) -> None:
    """torch says that such tensors cannot be saved, but not which."""
    for argument, value in zip(target._schema.arguments, args, strict=False):  # noqa: SLF001
        if isinstance(value, torch.Tensor) and value.is_inference():
            name = target.name().partition("::")[2]
            raise errors.InvalidArgument(
                f"{name}: {argument.name} was made in inference mode, and cannot be kept for a derivative; "
                f"give a copy made outside of it (.clone()), or call under torch.no_grad()"
            ) from error


def refuse_gradients(
    torch: Any, target: Any, shown: str, refuse: Callable[..., None], kernels: Kernels
) -> Callable[..., Any]:
    """For an overload without; torch's own fallback would give silently wrong gradients."""
    arguments = target._schema.arguments  # noqa: SLF001
    names, op = [argument.name for argument in arguments], _name(target)
    written = [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    wanted, redispatch = _wants_gradients(torch), _redispatch(torch, target, refuse, kernels)
    otherwise = "use the overload that does not write in place" if written else "give it without (.detach())"
    tensor, modes = torch.Tensor, torch.autograd.forward_ad

    def run(keyset: Any, *args: Any) -> Any:
        if modes._current_level >= 0:  # noqa: SLF001 - as above
            refuse_tangents(op, args)
        for place in written:
            value = args[place]
            if isinstance(value, tensor) and value.is_neg():  # torch hands the kernel a copy, which it then copies back
                refuse_overlap(op, names[place], value)
        index = wanted(args)
        if index is not None:
            raise errors.Unsupported(
                f"{shown} records no gradients, but its argument {names[index]!r} requires them: "
                f"call it under torch.no_grad(), or {otherwise}"
            )
        return redispatch(keyset, args)

    return run
