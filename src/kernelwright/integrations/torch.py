# SPDX-License-Identifier: MIT
"""kernelwright's attention under torch's own functions.

`enable()` is one line for a program: from then on torch.nn.functional.scaled_dot_product_attention, and whatever calls
it, comes to kernelwright first, whichever of its own kernels this torch would ask before (since 2.11 that is cuDNN's on
Hopper, so that replacing the flash kernel alone would change nothing there). Calls that kernelwright's kernels do not
take, and all calls while flash attention is switched off (torch.nn.attention.sdpa_kernel,
torch.backends.cuda.enable_flash_sdp), go to torch's own, as before.
"""

from __future__ import annotations

from typing import Any

from kernelwright.ops import _private

NAME = "kernelwright"
"""As torch.nn.attention.activate_flash_attention_impl is given it, where this torch has that, after `register()`."""

_KEYS = ("CPU", "CUDA", "AutogradCPU", "AutogradCUDA")  # the first two serve inference mode
_libraries: list[Any] = []  # overrides live as long as torch's object


def _override() -> Any:
    import torch

    from kernelwright import functional

    target = torch.ops.aten.scaled_dot_product_attention.default

    def run(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        wanted = torch.backends.cuda.flash_sdp_enabled()
        if wanted and functional.serves(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
            return functional.run(query, key, value, attn_mask, is_causal, scale)
        more = {"enable_gqa": True} if enable_gqa else {}  # torch 2.4 has no such argument
        return target.decompose(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more)

    return run


def enabled() -> bool:
    """Whether torch's scaled_dot_product_attention comes to kernelwright now."""
    return bool(_libraries)


def enable() -> None:
    """Puts kernelwright's attention under torch's, until `disable()`. With KERNELWRIGHT_DISABLE it changes nothing.

    >>> from kernelwright.integrations import torch as kernelwright_torch
    >>> kernelwright_torch.enable()
    """
    import torch

    from kernelwright import _environment

    if _libraries or _environment.read().disable:
        return
    run = _override()
    library = torch.library.Library("aten", "IMPL")
    for key in _KEYS:
        if torch.backends.cuda.is_built() or "CUDA" not in key:
            library.impl("scaled_dot_product_attention", run, key)
    _libraries.append(library)
    _private.forget_dispatch(torch.ops.aten.scaled_dot_product_attention.default)


def disable() -> None:
    """Gives torch's function back to torch."""
    import torch

    while _libraries:
        _libraries.pop()._destroy()  # noqa: SLF001 - it has no public name
        _private.forget_dispatch(torch.ops.aten.scaled_dot_product_attention.default)


class _Handle:
    """What torch keeps of an implementation while it is the active one."""

    def remove(self) -> None:
        disable()


def register() -> bool:
    """Adds "kernelwright" to the names that torch.nn.attention.activate_flash_attention_impl takes, and says whether
    this torch has such a list. Activating it is `enable()`, and restoring torch's is `disable()`."""
    from torch.nn import attention

    if not hasattr(attention, "register_flash_attention_impl"):
        return False

    def activate() -> _Handle:
        enable()
        return _Handle()

    attention.register_flash_attention_impl(NAME, register_fn=activate)
    return True
