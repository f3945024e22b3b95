# SPDX-License-Identifier: MIT
"""CUDA sources as C++ of the host: inline PTX becomes calls, shared memory becomes the emulated block's.

`asm("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : …)` is taken apart, and each of its instructions becomes the call of a
function of namespace ptx that is named after it (device/ptx_*.h). So what a wrapper says in PTX is what is run: the
order of its operands too. An instruction without such a function is an error of the C++ compiler, which names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ASM = re.compile(r"\basm\s*(?:volatile\s*)?\(")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SHARED = re.compile(
    r"(?P<extern>extern\s+)?__shared__\s+(?:(?:__align__|alignas)\s*\(\s*(?P<align>[^)]*)\)\s*)?"
    r"(?P<type>[\w:<>,\s]+?)\s*\b(?P<name>\w+)\s*(?P<sizes>(?:\[[^\]]*\])*)\s*;"
)
_TYPES = {"r": "unsigned", "l": "unsigned long long", "h": "unsigned short", "f": "float", "d": "double", "n": "int"}
_REGISTERS = {
    "pred": "bool", "b16": "unsigned short", "u16": "unsigned short", "b32": "unsigned", "u32": "unsigned",
    "s32": "int", "f32": "float", "b64": "unsigned long long", "u64": "unsigned long long",
}  # fmt: skip
# How caches are to treat a line: no result depends on it.
_HINT = re.compile(r"(?:L1|L2)::\w+(?:::\w+)?|cs|cg|ca|lu|wt|wb|evict_\w+|\d+B")
_HINTED = re.compile(r"(?:ld|st|cp|createpolicy|prefetch)\b")


def _closing(text: str, start: int) -> int:
    """Where the parenthesis that opened just before `start` closes; strings may hold others."""
    depth, at = 1, start
    while depth:
        if text[at] == '"':
            at = _STRING.match(text, at).end()  # type: ignore[union-attr]
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1


def _split(text: str, separator: str, pairs: str = "()[]{}") -> list[str]:
    """At separators outside brackets and strings."""
    parts, depth, at, begin = [], 0, 0, 0
    while at < len(text):
        if text[at] == '"':
            at = _STRING.match(text, at).end()  # type: ignore[union-attr]
            continue
        place = pairs.find(text[at])
        depth += 0 if place < 0 else 1 - 2 * (place % 2)
        if text[at] == separator and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return [*parts, text[begin:].strip()]


@dataclass(frozen=True)
class _Operand:
    """Of the asm statement; a `+` is given and comes back."""

    kind: str
    expression: str

    @classmethod
    def of(cls, text: str) -> _Operand:
        match = _STRING.match(text)
        assert match, text
        return cls(match[1], text[match.end() :].strip())

    def declared(self, name: str, *, itself: bool) -> str:
        kind = _TYPES[self.kind.lstrip("=+")]
        if itself and self.kind.startswith("+"):
            return f"auto& {name} = {self.expression};"
        if self.kind.startswith("="):
            return f"{kind} {name}{{}};"
        return f"{kind} {name} = emulated::given<{kind}>{self.expression};"


def _argument(text: str) -> str:
    """An operand of an instruction as an argument of its function."""
    if text.startswith("{"):
        return f"emulated::several({', '.join(map(_argument, _split(text[1:-1], ',')))})"
    if text.startswith("["):
        parts = _split(text[1:-1], ",")
        return f"({parts[0]})" if len(parts) == 1 else f"emulated::box({', '.join(map(_argument, parts))})"
    if text.startswith("_|"):  # of two results the second
        return text[2:]
    return "emulated::nowhere" if text == "_" else text


def _instruction(text: str) -> str:
    """One instruction of PTX as a call."""
    guard = re.match(r"@(!?)(\w+)\s+", text)
    if guard:
        return f"if ({guard[1]}{guard[2]}) {_instruction(text[guard.end() :])}"
    mnemonic, _, operands = text.partition(" ")
    if mnemonic == ".reg":
        kind, _, names = operands.partition(" ")
        return f"{_REGISTERS[kind.lstrip('.')]} {names};"
    parts = mnemonic.split(".")
    if _HINTED.match(mnemonic):
        parts = [part for part in parts if not _HINT.fullmatch(part)]
    name = "_".join(parts).replace("::", "_")
    arguments = [_argument(part) for part in _split(operands, ",")] if operands else []
    return f"ptx::{name}({', '.join(arguments)});"


def _call(statement: str) -> str:
    """The inside of an asm's parentheses as C++ statements."""
    template, *sections = _split(statement, ":")
    code = "".join(_STRING.findall(template)).replace("\\n", " ").replace("\\t", " ").strip()
    outputs, inputs = (
        [_Operand.of(part) for part in _split(section, ",") if part] for section in (*sections, "", "")[:2]
    )
    if code.startswith("{"):
        code = code[1:-1]
    code = re.sub(r"%(\d+)", r"kw_\1", code)
    if not code:  # it tells the compiler something, and does nothing
        return "do {} while (false)"
    operands = [*outputs, *inputs]
    later = "wgmma." in code  # writes its sums when it is waited for: they are not copied here and back
    lines = [operand.declared(f"kw_{number}", itself=later) for number, operand in enumerate(operands)]
    lines += [_instruction(" ".join(part.split())) for part in code.split(";") if part.strip()]
    if not later:
        lines += [f"emulated::take({operand.expression}, kw_{number});" for number, operand in enumerate(outputs)]
    return f"do {{ {' '.join(lines)} }} while (false)"


def _shared(match: re.Match[str]) -> str:
    name, kind = match["name"], match["type"].strip()
    if match["extern"]:
        return f"auto* const {name} = static_cast<{kind}*>(emulated::dynamic_shared());"
    align = match["align"] or f"alignof(emulated_{name})"
    return (
        f"typedef {kind} emulated_{name}{match['sizes']}; auto& {name} = *static_cast<emulated_{name}*>(emulated::"
        f"static_shared([] {{ static char place; return &place; }}(), sizeof(emulated_{name}), {align}));"
    )


def translated(text: str) -> str:
    """The text in C++; every line keeps its number."""
    parts, end = [], 0
    for match in _ASM.finditer(text):
        closing = _closing(text, match.end())
        inside = text[match.end() : closing]
        parts += [text[end : match.start()], _call(inside), "\n" * text[match.start() : closing].count("\n")]
        end = closing + 1
    return _SHARED.sub(_shared, "".join([*parts, text[end:]]))


def translate(sources: Mapping[Path, Path], to: Path) -> None:
    """Each file under the relative path that is given for it in `to`; the compiler's messages name the original."""
    for source, place in sources.items():
        text = translated(source.read_text(encoding="utf-8"))
        (to / place).parent.mkdir(parents=True, exist_ok=True)
        (to / place).write_text(f'#line 1 "{source}"\n{text}', encoding="utf-8")
