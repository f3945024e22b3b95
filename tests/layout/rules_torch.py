# SPDX-License-Identifier: MIT
"""A rule about what the package takes from torch: no name that the oldest torch lacks, unless the code asks for it first.

A torch that old is a build for GPUs of gigabytes, which nobody's everyday tests install; this reads the sources instead.
It sees names, not the arguments of a function that grew some: for those a workflow runs the tests with that torch.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
import types
from collections.abc import Iterator
from functools import cache
from itertools import chain

from tests.layout.torch_names import NAMES, members, rows
from tests.layout.tree import Tree

_FLOOR = re.compile(r"^# torch (\d+\.\d+)", re.MULTILINE)
_OURS = "torch.ops."  # what stands below it was registered by an operator's record


def _imports(module: ast.Module) -> Iterator[tuple[int, str, str, str]]:
    """(line, the module, the name within it or "", what the file calls it), once for each import."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, "", alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, node.module, a.name, a.asname or a.name) for a in node.names)


def _is_torch(name: str) -> bool:
    return name.partition(".")[0] == "torch"


def _uses_torch(module: ast.Module) -> bool:
    """By an import, or by a parameter; the diagnosis calls its records of an installed torch `torch` too."""
    given = (a for node in ast.walk(module) if isinstance(node, ast.arguments) for a in node.args)
    passed = any(a.arg == "torch" and a.annotation and ast.unparse(a.annotation) == "Any" for a in given)
    return passed or any(_is_torch(name) for _, name, _, _ in _imports(module))


@cache
def _of_python(name: str) -> frozenset[str]:
    known = name.partition(".")[0] in sys.stdlib_module_names
    return frozenset(members(importlib.import_module(name)) if known else ())


@cache
def _builtin() -> frozenset[str]:
    return frozenset(members(builtins) | members(types))


def _own(modules: dict[str, ast.Module]) -> set[str]:
    """Every name that the package itself gives to anything."""
    found = {path.rpartition("/")[2].removesuffix(".py") for path in modules}
    for node in chain.from_iterable(ast.walk(module) for module in modules.values()):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Constant) and str(node.value).startswith("--"):  # an option of a program
            found.add(str(node.value).removeprefix("--"))
    return found


def _asked(module: ast.Module) -> set[str]:
    """Names that the file asks for before it takes them: by hasattr, or by getattr with something in its place."""
    return {
        node.args[1].value
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"hasattr", "getattr"}
        and len(node.args) == (2 if ast.unparse(node.func) == "hasattr" else 3)
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
    }


def _down(node: ast.expr) -> Iterator[ast.expr]:
    yield node
    while isinstance(node, ast.Attribute):
        node = node.value
        yield node


def _taken(module: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, name) of all that may be torch's: `torch.a.b`, and `.c` for what is taken from any other value."""
    torch, strange = {"torch": "torch"}, set()
    for line, name, part, alias in _imports(module):
        if _is_torch(name):
            whole = f"{name}.{part}" if part else name
            torch[alias] = "torch" if alias == "torch" else whole
            yield line, whole
        else:
            strange.add(alias)
    below = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Attribute)}
    for node in ast.walk(module):
        if not isinstance(node, ast.Attribute) or id(node) in below:
            continue
        *above, root = _down(node)
        start = root.id if isinstance(root, ast.Name) else ""
        if start in torch:
            yield node.lineno, torch[start] + ast.unparse(node).removeprefix(start)
        elif start not in strange:
            yield from ((node.lineno, f".{part.attr}") for part in above if isinstance(part, ast.Attribute))


def _used(tree: Tree) -> Iterator[tuple[str, str, set[str], bool]]:
    """(place, name, what its file asks for, whether only torch can have it) of each name that may be torch's."""
    modules = dict(tree.python("src"))
    known = _own(modules) | _builtin()
    for path, module in modules.items():
        if not _uses_torch(module):
            continue
        imported = {name for _, name, _, _ in _imports(module)}
        # The objects of another library cannot be told from torch's; it has an oldest torch of its own.
        alone = all(_is_torch(n) or n.partition(".")[0] in sys.stdlib_module_names | {"kernelwright"} for n in imported)
        python, asked = known.union(*(_of_python(name) for name in imported)), _asked(module)
        for line, name in _taken(module):
            sure = alone and name[1:] not in python if name.startswith(".") else not name.startswith(_OURS)
            yield f"{path}:{line}", name, asked, sure


def what_it_takes_from_torch_is_recorded(tree: Tree) -> Iterator[str]:
    """A name that came with a later torch breaks every operator under the oldest that pip may bring, and no test sees it."""
    if NAMES not in tree.files or "pyproject.toml" not in tree.files:
        return
    text = tree.text(NAMES)
    recorded, floor = rows(text), _FLOOR.search(text)
    if not floor or f'"torch>={floor[1]}"' not in tree.text("pyproject.toml"):
        yield f"{NAMES}: was made with torch {floor and floor[1]}, which is not the oldest of pyproject.toml's extra"
    used = list(_used(tree))
    for place, name, asked, sure in used:
        if sure and name not in recorded:
            yield f"{place}: takes {name}, which {NAMES} does not have; that file says what to do"
        elif recorded.get(name) and name.rpartition(".")[2] not in asked:
            yield f"{place}: takes {name}, which came with torch {recorded[name]}, and does not ask for it (hasattr) first"
    gone = recorded.keys() - {name for _, name, _, _ in used}
    yield from (f"{NAMES}: nothing uses {name} any more" for name in sorted(gone))
