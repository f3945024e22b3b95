# SPDX-License-Identifier: MIT
"""Rules that hold documents and error classes to what the sources say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tests.layout.tree import Tree

ERRORS = "toolchain/kernelwright_toolchain/errors.py"
LAUNCHER = "toolchain/kernelwright_toolchain/launcher.py"
BASE = "csrc/include/kernelwright/base.h"
EXCEPTIONS = "src/kernelwright/errors.py"
ENVIRONMENT = "src/kernelwright/_environment.py"
PAGE = "docs/errors.md"
BUILDING = "docs/building.md"
USE = "docs/use.md"
INDEX = "docs/index.md"
FRONT_PAGE = 120  # lines
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_STATUS = re.compile(r"^\s*(KW_(?:OK|ERROR_\w+)) = (\d+)", re.MULTILINE)
_ROW = re.compile(r"^\|\s*`?(\d+)`?\s*\|\s*`(\w+)`", re.MULTILINE)


def _classes(tree: Tree, path: str) -> dict[str, tuple[ast.ClassDef, int | None]]:
    """Each class of an errors file, with the exit code it sets itself."""
    found: dict[str, tuple[ast.ClassDef, int | None]] = {}
    for node in ast.parse(tree.text(path)).body:
        if isinstance(node, ast.ClassDef):
            values = [
                part.value.value
                for part in node.body
                if isinstance(part, ast.Assign)
                and ast.unparse(part.targets[0]) == "exit_code"
                and isinstance(part.value, ast.Constant)
            ]
            found[node.name] = (node, values[0] if values else None)
    return found


def _fatal(tree: Tree) -> Iterator[tuple[str, str, int | None]]:
    """(place, name, exit code) of each class that can end a verb, wherever in the toolchain it stands."""
    for path in sorted(tree.under("toolchain"), key=lambda path: path != ERRORS):
        if path.endswith(".py"):
            for name, (node, code) in _classes(tree, path).items():
                if path == ERRORS or code is not None:
                    yield f"{path}:{node.lineno}", name, code


def exit_codes_are_distinct(tree: Tree) -> Iterator[str]:
    """A script can only act on a failure that it can tell from the others."""
    first: dict[int, str] = {}
    for place, name, code in _fatal(tree):
        if code is None:
            yield f"{place}: {name} has no exit_code of its own"
        elif not 2 <= code <= 125:
            yield f"{place}: {name}: {code} is Python's own, a shell's, or no exit code"
        elif code in first:
            yield f"{place}: {name} and {first[code]} both end with {code}"
        else:
            first[code] = name


def the_launcher_ends_as_the_toolchain_does(tree: Tree) -> Iterator[str]:
    """The launcher imports nothing and spells the codes again; who looks one up must find what it means there."""
    if LAUNCHER not in tree.files or ERRORS not in tree.files:
        return
    known = {name: code for _, name, code in _fatal(tree)}
    table = re.search(r"^EXIT = \{([^}]*)\}", tree.text(LAUNCHER), re.MULTILINE)
    for name, code in re.findall(r'"(\w+)": (\d+)', table[1] if table else ""):
        if known.get(name) != int(code):
            yield f"{LAUNCHER}: {name} is {known.get(name)} in the toolchain, not {code}"


def _raised(module: ast.Module) -> Iterator[str]:
    """Names that are called, raised, or stand in a table from codes to classes; base classes too."""
    for node in ast.walk(module):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Call):
            parts = [node.func]
        elif isinstance(node, ast.Raise):
            parts = [node.exc]
        elif isinstance(node, ast.Dict):
            parts = list(node.values)
        elif isinstance(node, ast.ClassDef):
            parts = list(node.bases)
        yield from (
            ast.unparse(part).rpartition(".")[2] for part in parts if isinstance(part, ast.Name | ast.Attribute)
        )


def _status(node: ast.ClassDef) -> str | None:
    """The status code of the C library that this class stands for, if it says so."""
    found = re.search(r"^status = '(KW_\w+)'$", "\n".join(ast.unparse(part) for part in node.body), re.MULTILINE)
    return found[1] if found else None


def error_classes_are_used(tree: Tree) -> Iterator[str]:
    """A class that nothing raises is a promise to callers that is not kept."""
    codes = dict(_STATUS.findall(tree.text(BASE))) if BASE in tree.files else {}
    used = {name for _, module in tree.python("src", "toolchain", "noxfile.py", "kw") for name in _raised(module)}
    for path in tree.under("src", "toolchain"):
        if PurePosixPath(path).name.endswith("errors.py"):
            for name, (node, _) in _classes(tree, path).items():
                # A class that stands for a status code is raised wherever the library returns that code.
                status = _status(node)
                if status and status not in codes:
                    yield f"{path}:{node.lineno}: {name} stands for {status}, which {BASE} does not have"
                elif not status and name not in used:
                    yield f"{path}:{node.lineno}: nothing raises {name}"


def status_codes_are_returned(tree: Tree) -> Iterator[str]:
    """A code that the library never returns makes every caller write a branch that is never taken."""
    if not tree.under("csrc/core"):
        return
    code = "\n".join(tree.text(path) for path in tree.under("csrc") if path.endswith(".cpp"))
    for name, _ in _STATUS.findall(tree.text(BASE)) if BASE in tree.files else ():
        if not re.search(rf"(?:\bfail\w*\(\s*|return |[?:=] ){name}\b", code):
            yield f"{BASE}: nothing returns {name}"


def errors_are_documented(tree: Tree) -> Iterator[str]:
    """Whoever meets a code looks it up; a code that is not there, or means something else there, misleads."""
    if PAGE not in tree.files:
        return
    wanted = {}
    if ERRORS in tree.files:
        wanted = {name: str(code) for _, name, code in _fatal(tree) if code is not None}
    if BASE in tree.files:
        wanted |= {name: number for name, number in _STATUS.findall(tree.text(BASE)) if name != "KW_OK"}
    rows = {name: number for number, name in _ROW.findall(tree.text(PAGE))}
    for name in sorted(wanted.keys() | rows.keys()):
        if name not in rows:
            yield f"{PAGE}: no row for {name} ({wanted[name]})"
        elif name not in wanted:
            yield f"{PAGE}: {name} is neither a class of the toolchain nor a status of {BASE}"
        elif wanted[name] != rows[name]:
            yield f"{PAGE}: {name} is {wanted[name]}, not {rows[name]}"


def exceptions_are_documented(tree: Tree) -> Iterator[str]:
    """What a user catches has to be looked up under its name, beside the status code it stands for."""
    if PAGE not in tree.files or EXCEPTIONS not in tree.files:
        return
    page = tree.text(PAGE)
    for name, (node, _) in _classes(tree, EXCEPTIONS).items():
        status = _status(node)
        if f"`{name}`" not in page:
            yield f"{PAGE}: {name} of {EXCEPTIONS} is not in it"
        elif status and not re.search(rf"`{status}` \| `{name}`", page):
            yield f"{PAGE}: {name} does not stand beside {status}, for which it is raised"


def variables_are_documented(tree: Tree) -> Iterator[str]:
    """A setting that nobody can find is a setting that nobody has; one that is gone costs somebody an afternoon."""
    if not {USE, ENVIRONMENT} <= set(tree.files):
        return
    pattern = r"KERNELWRIGHT_[A-Z]+\b"
    known = set(re.findall(pattern, tree.text(ENVIRONMENT)))
    rows = set(re.findall(rf"^\| `({pattern})`", tree.text(USE), re.MULTILINE))
    yield from (f"{USE}: no row for {name}" for name in sorted(known - rows))
    yield from (f"{USE}: {name} is not in {ENVIRONMENT}" for name in sorted(rows - known))


def the_front_page_is_short(tree: Tree) -> Iterator[str]:
    """README.md is what people read first, and mostly all that they read: it shows and links, docs/ explains."""
    count = tree.text("README.md").count("\n") if "README.md" in tree.files else 0
    if count > FRONT_PAGE:
        yield f"README.md: {count} lines, {FRONT_PAGE} is the most: move what is too much to docs/"


def every_page_is_in_the_index(tree: Tree) -> Iterator[str]:
    """A page that the index does not name is found by search alone."""
    if INDEX not in tree.files:
        return
    for path in tree.under("docs"):
        if path.endswith(".md") and path != INDEX and f"]({path.removeprefix('docs/')})" not in tree.text(INDEX):
            yield f"{INDEX}: no link to {path}"


def cmake_options_are_documented(tree: Tree) -> Iterator[str]:
    """CMake takes a misspelt or vanished option without a word."""
    if not {"CMakeLists.txt", BUILDING} <= set(tree.files):
        return
    found = re.findall(r"\b(?:set\((KW_\w+) [^)\n]*\bCACHE\b|option\((KW_\w+) )", tree.text("CMakeLists.txt"))
    known = {cached or switch for cached, switch in found}
    cells = re.findall(r"^\|([^|]*)\|", tree.text(BUILDING), re.MULTILINE)
    rows = {name for cell in cells for name in re.findall(r"`(KW_[A-Z_]+)`", cell)}
    yield from (f"{BUILDING}: no row for {name}" for name in sorted(known - rows))
    yield from (f"{BUILDING}: {name} is no option of CMakeLists.txt" for name in sorted(rows - known))


def verbs_are_documented(tree: Tree) -> Iterator[str]:
    """`./kw` lists the verbs in a line each; what they take and leave behind has to stand somewhere."""
    if not {"noxfile.py", BUILDING} <= set(tree.files):
        return
    verbs = re.findall(r"^@nox\.session\b[^\n]*\ndef (\w+)", tree.text("noxfile.py"), re.MULTILINE)
    rows = re.findall(r"^\| `(\w+)`", tree.text(BUILDING), re.MULTILINE)
    yield from (f"{BUILDING}: no row for {verb}" for verb in verbs if verb not in rows)


def shared_functions_are_documented(tree: Tree) -> Iterator[str]:
    """The page claims to list what every operator shares."""
    if not {"docs/c-api.md", BASE} <= set(tree.files):
        return
    page = tree.text("docs/c-api.md")
    for name in re.findall(r"^KW_API [^(]*\b(kw_\w+)\(", tree.text(BASE), re.MULTILINE):
        if f"`{name}`" not in page:
            yield f"docs/c-api.md: {name} of {BASE} is not in it"


def _anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links_lead_somewhere(tree: Tree) -> Iterator[str]:
    """A reader who follows a dead link stops trusting the page it stands on."""
    for path in tree.files:
        if not path.endswith(".md"):
            continue
        for place, line in tree.lines(path):
            for link in _LINK.findall(line):
                if "://" in link or link.startswith("mailto:"):
                    continue
                file, _, anchor = link.partition("#")
                found = tree.root / Path(path).parent / file if file else tree.root / path
                if not found.exists():
                    yield f"{place}: {link} does not exist"
                elif anchor and anchor not in _anchors(found.read_text(encoding="utf-8")):
                    yield f"{place}: {link}: the page has no such heading"


def the_changelog_begins_with_this_version(tree: Tree) -> Iterator[str]:
    """A release whose changes are not written down cannot be upgraded to with open eyes."""
    if "CHANGELOG.md" not in tree.files or "pyproject.toml" not in tree.files:
        return
    version = re.search(r'^version = "([^"]+)"', tree.text("pyproject.toml"), re.MULTILINE)
    top = re.search(r"^## (\S+)", tree.text("CHANGELOG.md"), re.MULTILINE)
    if not version or not top or version[1] != top[1]:
        yield f"CHANGELOG.md begins with {top and top[1]}, pyproject.toml says {version and version[1]}"


def locks_are_those_of_the_table(tree: Tree) -> Iterator[str]:
    """A lock that no row names is never installed, and a row without its lock cannot be built."""
    if "targets.toml" not in tree.files or not tree.under("locks"):
        return
    named = set(re.findall(r'"(locks/[^"]+)"', tree.text("targets.toml")))
    yield from (f"targets.toml: {path} does not exist" for path in sorted(named - set(tree.under("locks"))))
