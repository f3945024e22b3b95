# SPDX-License-Identifier: MIT
"""The pages of the API, from the operators' records and the docstrings in src/: neither torch nor a wheel is needed."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.site.docstrings import directive, escaped, markdown, signature
from docs.site.pages import write

PACKAGE = "kernelwright"
FAMILIES = {
    "attention": "Attention",
    "four_bit": "Weights in 4 bits",
    "gated": "Gates",
    "int8": "8 bits",
    "linear": "Linear layers",
    "norm": "Norms",
    "optim": "Optimizers",
    "ternary": "Ternary weights",
}
# Module -> what it is for. A package stands for all its public files.
MODULES = {
    "nn": "Layers, and functions that change the layers of a model.",
    "optim": "Optimizers with states of 8 and 32 bits.",
    "functional": "Functions with torch's names and arguments.",
    "distributed": "Tensor parallelism of quantized layers.",
    "integrations.torch": "The kernels under torch's own attention.",
    "integrations.transformers": "The kernels under transformers.",
    "integrations.bitsandbytes": "The kernels under an installed bitsandbytes.",
    "compat.flash_attn": "flash-attn's names.",
    "compat.bitsandbytes.functional": "bitsandbytes' functions; its other names are in kernelwright.nn and optim.",
    "errors": "What is raised.",
}


def records(root: Path) -> dict[str, list[Any]]:
    """family -> the records of its operators."""
    sys.path.insert(0, str(root / "src"))
    found: dict[str, list[Any]] = {}
    for path in sorted((root / "src" / PACKAGE / "ops").glob("*/[!_]*.py")):
        module = importlib.import_module(f"{PACKAGE}.ops.{path.parent.name}.{path.stem}")
        found.setdefault(path.parent.name, []).append(module.OP)
    return found


def _code(text: str) -> str:
    return f"`{text}`"


def _overloads(op: Any) -> Iterator[str]:
    yield "| `torch.ops.kernelwright…` | schema | gradients | kernel |"
    yield "|---|---|---|---|"
    for one in op.overloads:
        schema = one.schema.replace("|", "\\|")
        where = f"Python: {escaped(one.in_python)}" if one.in_python else "C"
        name = op.name if one.name == "default" else f"{op.name}.{one.name}"
        yield f"| {_code(name)} | {_code(schema)} | {'yes' if one.backward else 'no'} | {where} |"


def _tolerances(op: Any) -> Iterator[str]:
    yield "| result | relative | absolute | of its terms |"
    yield "|---|---|---|---|"
    for dtype, allowed in op.tolerances.items():
        yield f"| {_code(dtype)} | {allowed.relative:g} | {allowed.absolute:g} | {allowed.terms:g} |"


def _operator(op: Any) -> str:
    source = textwrap.dedent(inspect.getsource(op.function))
    node = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef))
    said = directive("function", f"{PACKAGE}.{op.name}{signature(node)}", markdown(ast.get_docstring(node)))
    parts = [
        f"### {op.name}",
        escaped(op.doc) + ".",
        said,
        "\n".join(_overloads(op)),
        "How far a result may be from the reference in float64 (tests hold every case to it):",
        "\n".join(_tolerances(op)),
    ]
    return "\n\n".join(parts)


def operators_page(root: Path) -> str:
    """Every operator, by family."""
    parts = [
        "# Operators",
        "From the records in `src/kernelwright/ops`. [Use](../use.md) says what all have in common.",
    ]
    for family, ops in records(root).items():
        parts.append(f"## {FAMILIES.get(family, family)}")
        parts += [_operator(op) for op in ops]
    return "\n\n".join(parts) + "\n"


def _names(tree: ast.Module) -> list[str] | None:
    """The names that `__all__` spells; None without one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            values = node.value.elts if isinstance(node.value, ast.List) else []
            return [str(value.value) for value in values if isinstance(value, ast.Constant)]
    return None


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _file(src: Path, module: str) -> Path:
    path = src.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _defined(src: Path, module: str, name: str) -> ast.AST | None:
    """The class or function of this name, there or where it is imported from."""
    path = _file(src, module)
    if not path.is_file():
        return None
    for node in _parse(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and node.module not in (None, module) and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name and str(node.module).startswith(PACKAGE):
                    return _defined(src, str(node.module), alias.name)
    return None


def public(src: Path, module: str) -> dict[str, ast.AST]:
    """name -> where it is defined, of each public class and function of a module."""
    path = _file(src, module)
    tree = _parse(path)
    names = _names(tree)
    if path.name == "__init__.py" and not names:  # a package that exports what its files do
        found: dict[str, ast.AST] = {}
        for one in sorted(path.parent.glob("[!_]*.py")):
            found |= public(src, f"{module}.{one.stem}")
        return found
    if names is None:
        return {
            n.name: n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and not n.name.startswith("_")
        }
    return {name: node for name in names if (node := _defined(src, module, name)) is not None}


def _methods(node: ast.ClassDef) -> Iterator[str]:
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("_") and ast.get_docstring(part):
            kind = "property" if any(ast.unparse(d) == "property" for d in part.decorator_list) else "method"
            shown = part.name if kind == "property" else part.name + signature(part, method=True)
            yield directive(kind, shown, markdown(ast.get_docstring(part)), depth=1)


def _object(module: str, name: str, node: ast.AST) -> str:
    whole = f"{module}.{name}"
    if isinstance(node, ast.FunctionDef):
        return directive("function", whole + signature(node), markdown(ast.get_docstring(node)))
    assert isinstance(node, ast.ClassDef)  # noqa: S101
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    shown = whole + (signature(init, method=True).removesuffix(" -> None") if init else "")
    bases = [ast.unparse(base) for base in node.bases]
    above = f"Based on {', '.join(_code(base) for base in bases)}." if bases else ""
    doc = "\n\n".join(part for part in (markdown(ast.get_docstring(node)), above) if part)
    return directive("exception" if module.endswith("errors") else "class", shown, doc, _methods(node))


def modules_page(root: Path) -> str:
    """Every public class and function of the modules people import."""
    parts = ["# Modules", "From the docstrings in `src/kernelwright`; operators are on [their own page](operators.md)."]
    for short, what in MODULES.items():
        module = f"{PACKAGE}.{short}"
        parts += [f"## {module}", what]
        parts += [_object(module, name, node) for name, node in sorted(public(root / "src", module).items())]
    return "\n\n".join(parts) + "\n"


def stage(root: Path, out: Path) -> None:
    write(out / "api" / "operators.md", operators_page(root))
    write(out / "api" / "modules.md", modules_page(root))
