# SPDX-License-Identifier: MIT
"""An op's source with every header it includes: what the cache key covers, and what must hold before compiling.

The rules keep the image a function of these bytes, the options and the compiler:
  * a header is device code (csrc/device, or its family's outside api, cpu and host) and is named in quotes or brackets,
    from csrc on or beside the file, never by a macro;
  * no __DATE__, __TIME__, __FILE__ and their like;
  * nothing at file or namespace scope is `static` or in an unnamed namespace: nvcc puts a hash of the file's path into
    the name of what has internal linkage. `inline`, templates and `constexpr` are the way; inside a function or a
    class `static` is fine.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain.device.compiler import FAMILIES, INCLUDE
from kernelwright_toolchain.errors import DeterminismError
from kernelwright_toolchain.tokens import Directive, Token, split, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEVICE = INCLUDE / "device"

_CHANGING = {
    "__DATE__",
    "__TIME__",
    "__TIMESTAMP__",
    "__FILE__",
    "__FILE_NAME__",
    "__BASE_FILE__",
    "__builtin_FILE",
    "__builtin_FILE_NAME",
    "source_location",
}
_OF_THE_HOST = ("api", "cpu", "host")  # folders of a family
_PROBING = {"__has_include", "__has_include_next"}


@dataclass(frozen=True)
class File:
    path: Path  # relative to the root
    data: bytes


def read_sources(root: Path, source: Path) -> tuple[File, ...]:
    """The source and its headers in the order they are first met, or DeterminismError with place and cure."""
    found: dict[Path, File] = {}
    queue = [source]
    while queue:
        path = queue.pop(0)
        if path in found:
            continue
        data = (root / path).read_bytes()
        found[path] = File(path, data)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise DeterminismError(f"{path}: not UTF-8; save it as UTF-8") from None
        stream = list(tokens(text))
        _check_words(path, stream)
        directives, code = split(iter(stream))
        _check_linkage(path, code)
        queue += [_resolve(root, path, directive) for directive in directives if directive.name.startswith("include")]
    return tuple(found.values())


def _check_words(path: Path, stream: Sequence[Token]) -> None:
    for token in stream:
        if token.kind != "name":
            continue
        if token.text in _CHANGING:
            raise DeterminismError(
                f"{path}:{token.line}: {token.text} makes the image depend on when or where it is built; take it out"
            )
        if token.text in _PROBING:
            raise DeterminismError(
                f"{path}:{token.line}: {token.text} makes the image depend on what happens to be installed; take it out"
            )


def _resolve(root: Path, path: Path, directive: Directive) -> Path:
    """Where an #include leads, looked up as the compilers do."""
    place = f"{path}:{directive.line}"
    words = [token.text for token in directive.rest]
    quoted = len(words) == 1 and words[0].startswith('"') and words[0].endswith('"') and len(words[0]) > 2
    bracketed = len(words) > 2 and words[0] == "<" and words[-1] == ">"
    if directive.name != "include" or not (quoted or bracketed):
        raise DeterminismError(
            f"{place}: #{directive.name} {''.join(words)} cannot be followed; write #include and the name in quotes"
        )
    name = words[0][1:-1] if quoted else "".join(words[1:-1])
    candidates = [path.parent / name, INCLUDE / name] if quoted else [INCLUDE / name]
    for candidate in (Path(os.path.normpath(candidate)) for candidate in candidates):
        if (root / candidate).is_file():
            if not all(map(is_device_code, (candidate, _real(root, candidate)))):
                raise DeterminismError(
                    f"{place}: {name} is {candidate}, which is no device code; what kernels include lies in "
                    f"{DEVICE} or in their family's folder, outside {', '.join(_OF_THE_HOST)}"
                )
            return candidate
    raise DeterminismError(
        f"{place}: {name} is neither beside the file nor in {INCLUDE}; device code includes nothing else, no header of "
        f"NVIDIA's: write the few lines it needs in {DEVICE}"
    )


def _real(root: Path, path: Path) -> Path:
    """Where links lead, relative to the root; a place outside the root stays absolute."""
    real = (root / path).resolve()
    return real.relative_to(root.resolve()) if real.is_relative_to(root.resolve()) else real


def is_device_code(path: Path) -> bool:
    """Whether kernels may include this path, relative to the root."""
    if path.is_relative_to(FAMILIES):
        return path.relative_to(FAMILIES).parts[1] not in _OF_THE_HOST
    return path.is_relative_to(DEVICE)


def _check_linkage(path: Path, code: Sequence[Token]) -> None:
    for token, what in _internal(code):
        raise DeterminismError(
            f"{path}:{token.line}: {what} gives internal linkage, and nvcc names such symbols after a hash of the "
            "file's path; say inline, constexpr, or make it a template"
        )


def _internal(code: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """`static` at namespace scope, and unnamed namespaces. A scope is open while every brace around is a namespace."""
    depth = 0  # braces that are not namespaces
    scopes: list[bool] = []  # True for a namespace or extern "C"
    head: list[str] = []  # the words of this declaration so far
    for token in code:
        text = token.text
        if text == "{":
            transparent = depth == 0 and _is_namespace(head)
            if transparent and _is_unnamed(head):
                yield token, "an unnamed namespace"
            scopes.append(transparent)
            depth += not transparent
            head = []
        elif text == "}":
            if scopes:
                depth -= not scopes.pop()
            head = []
        elif text == ";":
            head = []
        else:
            if text == "static" and depth == 0 and token.kind == "name":
                yield token, "`static` at file scope"
            head.append(text)


def _is_namespace(head: Sequence[str]) -> bool:
    return "namespace" in head or (len(head) == 2 and head[0] == "extern" and head[1].startswith('"'))


def _is_unnamed(head: Sequence[str]) -> bool:
    """Nothing but attributes between `namespace` and its brace."""
    if "namespace" not in head:
        return False
    level = 0
    for word in head[head.index("namespace") + 1 :]:
        level += (word in {"[", "("}) - (word in {"]", ")"})
        if level == 0 and word not in {"]", ")", "__attribute__"}:
            return False
    return True
