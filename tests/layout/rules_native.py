# SPDX-License-Identifier: MIT
"""Rules about C++ and CUDA sources that a compiler would not complain about."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.layout.tree import Tree

_NVIDIA = re.compile(r'#\s*include\s*[<"](cuda|nv|cub/|cub\.|thrust|cooperative_groups|mma\.h|device_)[^>"]*[>"]')
_ENVIRONMENT = re.compile(r'\b(?:secure_)?getenv\s*\(\s*(?:"([^"]*)")?')
_QUITS = re.compile(r"\b(?:exit|_exit|abort|quick_exit|terminate)\s*\(")


def public_functions_are_documented(tree: Tree) -> Iterator[str]:
    """The headers are the only manual of the C ABI that a C++ user has at hand."""
    for path in tree.under("csrc/include", *(path for path in tree.files if re.match(r"csrc/ops/\w+/api/", path))):
        lines = tree.text(path).splitlines()
        for number, line in enumerate(lines, start=1):
            before = lines[number - 2].rstrip() if number > 1 else ""
            if line.startswith("KW_API") and not (before.endswith("*/") or before.startswith("//")):
                yield f"{path}:{number}: no comment stands right above: {line.split('(')[0]}"


def no_nvidia_header_is_included(tree: Tree) -> Iterator[str]:
    """The same text must compile under NVRTC, nvcc and every toolkit, and nothing of NVIDIA's may end up in a wheel."""
    for path in tree.under("csrc"):
        for place, line in tree.lines(path):
            if _NVIDIA.search(line):
                yield f"{place}: {line.strip()}"


def native_code_reads_only_what_openmp_users_set(tree: Tree) -> Iterator[str]:
    """The Python package tells the library its options; a second reader of the environment would disagree with it."""
    readers: dict[str, str] = {}
    for path in tree.under("csrc"):
        for place, line in tree.lines(path):
            for name in _ENVIRONMENT.findall(line):
                readers.setdefault(path, place)
                if not name.startswith("OMP_"):
                    yield f"{place}: reads {name or 'a computed name'} from the environment"
    if len(readers) > 1:
        yield f"several files read the environment: {', '.join(sorted(readers.values()))}"


def a_library_never_ends_its_process(tree: Tree) -> Iterator[str]:
    """Whoever called us has data to save; a failure is a status code."""
    for path in tree.under("csrc"):
        for place, line in tree.lines(path):
            code = line.partition("//")[0]
            if _QUITS.search(code) and not code.lstrip().startswith("*"):
                yield f"{place}: {line.strip()}"
