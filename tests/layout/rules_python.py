# SPDX-License-Identifier: MIT
"""Rules about Python code: what an import may do, how long a function is, who reads the environment."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from tests.layout.tree import Tree

CODE = ("src", "toolchain", "noxfile.py", "kw")
ENVIRONMENT = "src/kernelwright/_environment.py"
MOST_VARIABLES = 5
LONGEST_FUNCTION = 50
_VARIABLE = re.compile(r"\bKERNELWRIGHT_[A-Z][A-Z0-9_]*\b")
_NEVER = re.compile(r"__main__|TYPE_CHECKING")
_LOUD = frozenset({"print", "sys.stdout.write", "sys.stderr.write", "warnings.warn", "logging.basicConfig", "input"})
_READERS = frozenset({"os.environ", "os.environb", "os.getenv", "os.getenvb", "environ", "getenv"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _at_import(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: no functions, nothing behind __main__ or TYPE_CHECKING."""
    for statement in body:
        guarded = isinstance(statement, ast.If) and _NEVER.search(ast.unparse(statement.test))
        if guarded or isinstance(statement, Function):
            continue
        if isinstance(statement, ast.ClassDef):
            yield from _at_import(statement.body)
            continue
        yield statement
        yield from _expressions(statement)


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (Function, ast.Lambda)):
            yield child
            yield from _expressions(child)


def importing_says_nothing(tree: Tree) -> Iterator[str]:
    """A library that prints when imported breaks every program whose output another program reads."""
    for path, module in tree.python(*CODE):
        if path.endswith("__main__.py"):
            continue
        for node in _at_import(module.body):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in _LOUD:
                yield f"{path}:{node.lineno}: {ast.unparse(node.func)} runs at import"


def functions_are_short(tree: Tree) -> Iterator[str]:
    """A function that fits on a screen is read; of a longer one only the part that was changed last."""
    for path, module in tree.python():
        for node in ast.walk(module):
            if isinstance(node, Function):
                count = (node.end_lineno or 0) - node.lineno + 1
                if count >= LONGEST_FUNCTION:
                    yield f"{path}:{node.lineno}: {node.name} has {count} lines, not under {LONGEST_FUNCTION}"


def one_file_reads_the_environment(tree: Tree) -> Iterator[str]:
    """What a user can set is listed by `python -m kernelwright`, which can only list what stands in one place."""
    for path, module in tree.python("src"):
        if path == ENVIRONMENT:
            continue
        for node in ast.walk(module):
            if isinstance(node, (ast.Attribute, ast.Name)) and ast.unparse(node) in _READERS:
                yield f"{path}:{node.lineno}: reads the environment; only {ENVIRONMENT} does"


def variables_are_few(tree: Tree) -> Iterator[str]:
    """Each variable doubles what has to be tested; a sixth needs a reason good enough to drop another."""
    names: dict[str, str] = {}
    for path in tree.under(*CODE, "csrc", "cmake", "CMakeLists.txt"):
        for place, line in tree.lines(path):
            for name in _VARIABLE.findall(line):
                # Guards, CMake variables and macros are not read from the environment.
                if not name.endswith("_H") and not path.endswith(
                    (".h", ".cuh", ".inc", ".cmake", ".in", "CMakeLists.txt")
                ):
                    names.setdefault(name, place)
    if len(names) > MOST_VARIABLES:
        listed = ", ".join(f"{name} ({place})" for name, place in sorted(names.items()))
        yield f"{len(names)} environment variables, {MOST_VARIABLES} is the most: {listed}"


def the_toolchain_runs_on_a_bare_python(tree: Tree) -> Iterator[str]:
    """It is what fetches everything else, so at import it may need the standard library only."""
    allowed = sys.stdlib_module_names | {"kernelwright_toolchain"}
    for path, module in tree.python("toolchain", "kw"):
        for node in _at_import(module.body):
            for name in _imported(node):
                if name.partition(".")[0] not in allowed:
                    yield f"{path}:{node.lineno}: imports {name} at import; import it where it is used"  # type: ignore[attr-defined]


def the_package_does_not_know_the_toolchain(tree: Tree) -> Iterator[str]:
    """The wheel holds src/ only: what imports toolchain works in a checkout and nowhere else."""
    for path, module in tree.python("src"):
        for node in ast.walk(module):
            for name in _imported(node):
                if name.partition(".")[0] in {"kernelwright_toolchain", "tests", "benchmarks"}:
                    yield f"{path}:{node.lineno}: imports {name}, which no wheel holds"  # type: ignore[attr-defined]


# What makes pip take bytes that are known before: hashes, nothing of an index, or nothing at all; apt-get prints alone.
_KNOWN = frozenset({"--require-hashes", "--no-index", "--dry-run", "--print-uris"})


def _words(node: ast.List | ast.Tuple, module: ast.Module) -> set[str]:
    """The strings of a list, those of a constant that it spreads out included."""
    constants = {ast.unparse(part.targets[0]): part.value for part in module.body if isinstance(part, ast.Assign)}
    found = set()
    for element in node.elts:
        spread = ast.unparse(element.value) if isinstance(element, ast.Starred) else ""
        found |= {part.value for part in ast.walk(constants.get(spread, element)) if isinstance(part, ast.Constant)}
    return found


def installs_are_by_hash(tree: Tree) -> Iterator[str]:
    """A package that is taken by its name alone is whatever an index gives that day; one such place undoes all locks."""
    for path, module in tree.python("toolchain", "noxfile.py", "kw"):
        for node in ast.walk(module):
            installs = isinstance(node, ast.List | ast.Tuple) and node.elts and ast.unparse(node.elts[0]) == "'install'"
            if installs and not _words(node, module) & _KNOWN:
                yield f"{path}:{node.lineno}: installs without {' or '.join(sorted(_KNOWN))}"
    for path in tree.under(".ci", ".github"):
        for place, line in tree.lines(path):
            if re.search(r"\bpip3? install\b", line) and not any(word in line for word in _KNOWN):
                yield f"{place}: installs without {' or '.join(sorted(_KNOWN))}"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []
