# SPDX-License-Identifier: MIT
"""The Python of a device-only package: its torch operators with their fakes, and the checks that `python -m` runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelwright_toolchain.packages.table import SCALARS, Kernel

SUPPORT = Path(__file__).resolve().parent / "support.py.in"
CHECKS = Path(__file__).resolve().parent / "checks.py.in"
_HEAD = "# SPDX-License-Identifier: MIT\n"


def init(package: str, about: str, kernels: Sequence[Kernel]) -> str:
    """Importing it needs neither torch nor a GPU; the first operator that is asked for needs torch."""
    names = ", ".join(repr(kernel.name) for kernel in kernels)
    return (
        _HEAD + f'"""{about or package}"""\n\n'
        f"__all__ = [{names}]\n\n\n"
        "def __getattr__(name):\n"
        "    if name in __all__:\n"
        f"        from {package} import _operators\n\n"
        "        return getattr(_operators, name)\n"
        f"    raise AttributeError(f\"module '{package}' has no attribute {{name!r}}\")\n"
    )


def _checks(kernel: Kernel) -> list[str]:
    """In line, and in words only where something is wrong: a call of an operator should cost what its launch costs."""
    first = kernel.arguments[0].name
    lines = [
        f"    kind, device = {first}.dtype, {first}.get_device()",
        f"    dtype = _dtypes_{kernel.name}.get(kind)",
        f"    if dtype is None:\n        raise _no_dtype({kernel.name!r}, {first}, _dtypes_{kernel.name})",
    ]
    for one in kernel.arguments[1:]:
        if one.kind == "Tensor":
            odd = [f"{one.name}.get_device() != device"]
            odd += [] if one.name in kernel.free else [f"{one.name}.dtype is not kind"]
            lines.append(f"    if {' or '.join(odd)}:")
            lines.append(f"        raise _beside({kernel.name!r}, {one.name!r}, {one.name}, {first})")
    for condition in kernel.require:
        lines.append(f"    if not ({condition}):")
        lines.append(f"        raise ValueError({kernel.name + ': expected ' + condition!r})")
    return lines


def _dtypes(kernel: Kernel) -> str:
    return "{" + ", ".join(f"torch.{dtype}: {number}" for number, dtype in enumerate(kernel.dtypes)) + "}"


def _results(kernel: Kernel) -> list[str]:
    return [f"    {name} = {made}" for name, made in kernel.returns.items()]


def _layout(kernel: Kernel) -> str:
    """Of the launcher's parameters, as the module struct says it: with the gaps that C leaves."""
    kinds = {
        "Tensor": "P",
        **{name: {"int64_t": "q", "double": "d", "int32_t": "i"}[SCALARS[name]] for name in SCALARS},
    }
    own = "".join(kinds[one.kind] for one in kernel.arguments)
    return f"@i{own}{'P' * len(kernel.returns)}{'q' * len(kernel.asked)}iP"


def _given(kernel: Kernel) -> str:
    names = list(kernel.returns)
    return "None" if not names else names[0] if len(names) == 1 else f"({', '.join(names)})"


def _dense(kernel: Kernel) -> list[str]:
    """A tensor whose strides no expression asks for must have its elements in a row."""
    strided = {tensor for tensor, question, _ in kernel.asked if question == "stride"}
    lines = []
    for one in kernel.arguments:
        if one.kind == "Tensor" and one.name not in strided:
            lines.append(f"    if not {one.name}.is_contiguous():")
            wrong = f"raise _not_in_a_row({kernel.name!r}, {one.name!r}, {one.name})"
            lines.append(f"        {wrong if one.written else f'{one.name} = {one.name}.contiguous()'}")
    return lines


def _operator(package: str, kernel: Kernel) -> str:
    names = ", ".join(one.name for one in kernel.arguments)
    passed = ["dtype"]
    passed += [f"{one.name}.data_ptr()" if one.kind == "Tensor" else one.name for one in kernel.arguments]
    passed += [f"{name}.data_ptr()" for name in kernel.returns]
    passed += [f"{tensor}.{question}({index})" for tensor, question, index in kernel.asked]
    lines = [
        f"_dtypes_{kernel.name} = {_dtypes(kernel)}",
        f"_call_{kernel.name} = _function({f'{package}_{kernel.name}_packed'!r})",
        f"_pack_{kernel.name} = Struct({_layout(kernel)!r}).pack",
        "", "",
        f"def _gpu_{kernel.name}({names}):", *_checks(kernel), *_dense(kernel), *_results(kernel),
        f"    if _call_{kernel.name}(_pack_{kernel.name}({', '.join(passed)}, device, _stream(device))):",
        "        raise RuntimeError(_error())",
        f"    return {_given(kernel)}",
        "", "",
        f"def _fake_{kernel.name}({names}):", *_checks(kernel), *_dense(kernel), *_results(kernel),
        f"    return {_given(kernel)}",
        "", "",
    ]  # fmt: skip
    if kernel.reference and kernel.returns:
        lines += [f"def _cpu_{kernel.name}({names}):", *_checks(kernel)]
        lines += [f"    return {kernel.reference}", "", ""]
    lines.append(f"_library.define({kernel.name + kernel.schema!r})")
    lines.append(
        f"_in_c_{kernel.name} = _register("
        f"{kernel.name!r}, {kernel.schema!r}, {len(kernel.returns)}, _gpu_{kernel.name})"
    )
    if kernel.reference and kernel.returns:
        lines.append(f"_library.impl({kernel.name!r}, _cpu_{kernel.name}, 'CPU')")
    lines.append(f"torch.library.register_fake({package + '::' + kernel.name!r}, _fake_{kernel.name}, lib=_library)")
    lines.append(f"{kernel.name} = torch.ops.{package}.{kernel.name}.default")
    lines += [f"if _in_c_{kernel.name}:", f"    {kernel.name} = _in_its_words({kernel.name})", "", ""]
    return "\n".join(lines)


def operators(package: str, kernels: Sequence[Kernel]) -> str:
    """_operators.py."""
    text = SUPPORT.read_text(encoding="utf-8").replace("@package@", package)
    return text + "\n\n" + "\n".join(_operator(package, kernel) for kernel in kernels).rstrip() + "\n"


def checks(package: str, kernels: Sequence[Kernel]) -> str:
    """__main__.py: every operator against its reference, by torch's own opcheck, and compiled."""
    rows = []
    for kernel in kernels:
        if not kernel.example:
            continue
        names = ", ".join(one.name for one in kernel.arguments)
        rows.append(
            f"    Check({kernel.name!r}, {[*kernel.dtypes]!r}, lambda torch, device, dtype: {kernel.example}, "
            f"{f'lambda {names}: {kernel.reference}' if kernel.reference else 'None'}, {kernel.tolerance or 'None'}),"
        )
    text = CHECKS.read_text(encoding="utf-8").replace("@package@", package)
    return text.replace("@checks@", "\n".join(rows))
