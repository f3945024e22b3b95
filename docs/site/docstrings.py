# SPDX-License-Identifier: MIT
"""The docstrings of this project as Markdown: paragraphs, names with their meaning, lines of an interpreter."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

_ENTRY = re.compile(r"^(\*{0,2}\w[\w.*, ]*?)(?:  +)(\S.*)$")
_SPAN = re.compile(r"(`[^`]+`)")
FENCE = "`" * 6


def escaped(text: str) -> str:
    """Prose without Markdown's marks, but for code between single backquotes."""
    parts = _SPAN.split(text)
    return "".join(
        part if index % 2 else re.sub(r"([\\*_<>\[\]{}$#|~])", r"\\\1", part) for index, part in enumerate(parts)
    )


def _entries(lines: list[str]) -> list[tuple[str, str]] | None:
    """(name, meaning) of each entry, if the paragraph is such a list; its further lines are indented."""
    found: list[tuple[str, str]] = []
    for line in lines:
        entry = _ENTRY.match(line)
        if entry and not line.startswith(" "):
            found.append((entry[1], entry[2]))
        elif found and line.startswith("  "):
            name, meaning = found[-1]
            found[-1] = (name, f"{meaning} {line.strip()}")
        else:
            return None
    return found or None


def _paragraph(lines: list[str]) -> str:
    if lines[0].startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    entries = _entries(lines)
    if entries:
        return "\n".join(f"`{name}`\n: {escaped(meaning)}\n" for name, meaning in entries)
    if lines[0].startswith(("* ", "- ")):
        return "\n".join(f"* {escaped(line[2:])}" if line[:2] in ("* ", "- ") else escaped(line) for line in lines)
    if all(line.startswith("    ") for line in lines):
        return "\n".join(["```text", *(line[4:] for line in lines), "```"])
    return escaped("\n".join(lines))


def markdown(docstring: str | None) -> str:
    """A docstring as it stands in the source; "" for none."""
    text = textwrap.dedent(docstring or "")
    first, _, rest = text.partition("\n")
    text = f"{first.strip()}\n{textwrap.dedent(rest)}".strip()
    paragraphs = [part.split("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]
    return "\n\n".join(_paragraph(lines) for lines in paragraphs)


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool = False) -> str:
    """(arguments) -> result, as they are written."""
    arguments = ast.unparse(node.args)
    if method:
        arguments = re.sub(r"^(?:self|cls)(?:, (?:/, )?|$)", "", arguments)
    return f"({arguments})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def directive(kind: str, name: str, doc: str, inner: Iterator[str] | None = None, depth: int = 0) -> str:
    """An object of Sphinx's domain of Python, which the search and the index then know."""
    fence = FENCE if depth == 0 else FENCE[:-2]
    body = "\n\n".join(part for part in (doc, *(inner or ())) if part)
    return f"{fence}{{py:{kind}}} {name}\n\n{body}\n{fence}"
