# SPDX-License-Identifier: MIT
"""The operators of a package in C, for torch's dispatcher: what a table says in Python, said in C where that can be.

A call in C does the plain case. Everything else, a refusal too, it hands to the Python of the same operator, so a wrong
guess here could only cost time: what is not surely the same in C is not translated.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from kernelwright_toolchain.packages.table import SCALARS, Kernel

RUNTIME = Path(__file__).resolve().parent / "torch.c"
# torch's numbers of element types, which its files on disk and its stable shim both fix.
NUMBERS = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7, "bfloat16": 15,
}  # fmt: skip
_SUMS = {ast.Add: "kw_add", ast.Sub: "kw_sub", ast.Mult: "kw_mul", ast.FloorDiv: "kw_div", ast.Mod: "kw_mod"}
_ORDER = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class NotInCError(Exception):
    """Such an expression stays Python's."""


class _Expressions:
    """Each method gives C of one type: an integer, a truth, a shape."""

    def __init__(self, kernel: Kernel) -> None:
        self.tensors = {one.name for one in kernel.arguments if one.kind == "Tensor"}
        self.whole = {one.name for one in kernel.arguments if one.kind in ("int", "bool")}

    def tensor(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name) and node.id in self.tensors:
            return f"t_{node.id}"
        raise NotInCError

    def integer(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool) and abs(value) < 2**62:
                return f"INT64_C({value})"
            case ast.Name(id=name) if name in self.whole:
                return f"(int64_t)a_{name}"
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return f"kw_sub(0, {self.integer(inner)}, &odd)"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
                return f"{_SUMS[type(op)]}({self.integer(left)}, {self.integer(right)}, &odd)"
        return self.asked(node)

    def asked(self, node: ast.expr) -> str:
        match node:
            case ast.Subscript(value=ast.Attribute(value=of, attr="shape"), slice=place):
                return f"kw_at({self.tensor(of)}->sizes, {self.tensor(of)}->dims, {self.integer(place)}, &odd)"
            case ast.Attribute(value=of, attr="ndim"):
                return f"{self.tensor(of)}->dims"
            case ast.Call(func=ast.Attribute(value=of, attr=asked), args=words, keywords=[]):
                return self.question(self.tensor(of), asked, words)
        raise NotInCError

    def question(self, tensor: str, asked: str, words: Sequence[ast.expr]) -> str:
        if asked == "dim" and not words:
            return f"{tensor}->dims"
        if asked == "numel" and not words:
            return f"kw_numel({tensor})"
        if asked in ("size", "stride") and len(words) == 1:
            return f"kw_at({tensor}->{asked}s, {tensor}->dims, {self.integer(words[0])}, &odd)"
        raise NotInCError

    def truth(self, node: ast.expr) -> str:
        match node:
            case ast.BoolOp(op=op, values=values):
                return f"({(' && ' if isinstance(op, ast.And) else ' || ').join(map(self.truth, values))})"
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return f"!{self.truth(inner)}"
            case ast.Compare(left=left, ops=ops, comparators=others):
                pairs = zip([left, *others[:-1]], ops, others, strict=True)
                return f"({' && '.join(self.compared(*pair) for pair in pairs)})"
            case ast.Call(func=ast.Attribute(value=of, attr="is_contiguous"), args=[], keywords=[]):
                return f"kw_dense({self.tensor(of)})"
        raise NotInCError

    def compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
        if type(op) not in _ORDER:
            raise NotInCError
        try:
            return f"({self.integer(left)} {_ORDER[type(op)]} {self.integer(right)})"
        except NotInCError:
            if not isinstance(op, (ast.Eq, ast.NotEq)):
                raise
        return f"{'' if isinstance(op, ast.Eq) else '!'}kw_alike({self.shape(left)}, {self.shape(right)})"

    def shape(self, node: ast.expr) -> str:
        match node:
            case ast.Attribute(value=of, attr="shape"):
                return f"kw_shape_of({self.tensor(of)})"
            case ast.Tuple(elts=parts) if len(parts) <= 12:
                values = ", ".join(map(self.integer, parts)) or "0"
                return f"(struct kw_shape){{{len(parts)}, {{{values}}}}}"
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return f"kw_join({self.shape(left)}, {self.shape(right)}, &odd)"
            case ast.Subscript(value=of, slice=ast.Slice(lower=lower, upper=upper, step=None)):
                first = self.integer(lower) if lower else "0"
                return f"kw_slice({self.shape(of)}, {first}, {self.integer(upper) if upper else 'INT64_MAX'})"
        raise NotInCError

    def result(self, node: ast.expr) -> tuple[str, str]:
        """(a shape, the tensor whose element type it has)."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="empty_like"), args=[of], keywords=[]):
                return f"kw_shape_of({self.tensor(of)})", self.tensor(of)
            case ast.Call(func=ast.Attribute(value=of, attr="new_empty"), args=[shape], keywords=[]):
                return self.shape(shape), self.tensor(of)
        raise NotInCError


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise NotInCError from None


def _checks(kernel: Kernel, expressions: _Expressions) -> list[str]:
    first = f"t_{kernel.arguments[0].name}"
    known = " ".join(f"case {NUMBERS[dtype]}: dtype = {n}; break;" for n, dtype in enumerate(kernel.dtypes))
    lines = [f"  switch ({first}->dtype) {{ {known} default: return 1; }}"]
    strided = {tensor for tensor, question, _ in kernel.asked if question == "stride"}
    for one in kernel.arguments:
        if one.kind != "Tensor":
            continue
        t = f"t_{one.name}"
        odd = [f"{t}->{what} != {first}->{what}" for what in ("type", "index", "dtype") if t != first]
        odd = odd[:2] if one.name in kernel.free else odd
        odd += [] if one.name in strided else [f"!kw_dense({t})"]
        lines += [f"  if ({' || '.join(odd)}) return 1;"] if odd else []
    for condition in kernel.require:
        lines.append(f"  if (!{expressions.truth(_parsed(condition))} || odd) return 1;")
    return lines


def _answer(tensor: str, question: str, index: str) -> str:
    if question in ("size", "stride"):
        return f"kw_at(t_{tensor}->{question}s, t_{tensor}->dims, {index}, &odd)"
    return f"kw_numel(t_{tensor})" if question == "numel" else f"t_{tensor}->dims"


def _body(package: str, kernel: Kernel) -> list[str]:
    """1 where the call is Python's, 2 where its launch failed."""
    expressions = _Expressions(kernel)
    strided = {tensor for tensor, question, _ in kernel.asked if question == "stride"}
    made = []
    tensors = sum(one.kind == "Tensor" for one in kernel.arguments)
    for number, (name, text) in enumerate(kernel.returns.items(), tensors):
        node = _parsed(text)
        if isinstance(node, ast.Call) and any(isinstance(w, ast.Name) and w.id in strided for w in node.args):
            raise NotInCError  # the order of its dimensions may be another's
        shape, like = expressions.result(node)
        t = f"t_{name}"
        made.append(f"  struct kw_tensor *{t} = &tensors[{number}];")
        made.append(f"  if (kw_make(t_{kernel.arguments[0].name}, {shape}, {like}->dtype, {t}) || odd) return 1;")
        expressions.tensors.add(name)
        made.append(f"  {t}->dtype = {like}->dtype;")
    passed = [f"t_{one.name}->data" if one.kind == "Tensor" else f"a_{one.name}" for one in kernel.arguments]
    passed += [f"t_{name}->data" for name in kernel.returns]
    asked = [f"  const int64_t q_{n} = {_answer(*one)};" for n, one in enumerate(kernel.asked)]
    passed += [f"q_{n}" for n in range(len(kernel.asked))]
    first = f"t_{kernel.arguments[0].name}"
    return [
        *_checks(kernel, _Expressions(kernel)), *made, *asked,
        f"  if (odd || kw_stream({first}, &stream)) return 1;",
        f"  return {package}_{kernel.name}(dtype, {', '.join(passed)}, {first}->index, stream) ? 2 : 0;",
    ]  # fmt: skip


def _function(package: str, kernel: Kernel) -> str:
    tensors = [n for n, one in enumerate(kernel.arguments) if one.kind == "Tensor"]
    body = _body(package, kernel)
    total, results = len(tensors) + len(kernel.returns), len(kernel.returns)
    lines = [
        f"static int kw_serve_{kernel.name}(const kw_value *stack, struct kw_tensor *tensors) {{",
        "  int dtype = 0, odd = 0;\n  void *stream;\n  (void)odd;",
    ]
    for place, n in enumerate(tensors):
        lines.append(f"  struct kw_tensor *t_{kernel.arguments[n].name} = &tensors[{place}];")
        lines.append(f"  if (kw_read(stack[{n}], &tensors[{place}])) return 1;")
    for n, one in enumerate(kernel.arguments):
        if one.kind != "Tensor":
            size = "1" if one.kind == "bool" else f"sizeof a_{one.name}"
            lines.append(f"  {SCALARS[one.kind]} a_{one.name} = 0;\n  memcpy(&a_{one.name}, &stack[{n}], {size});")
    lines += [*body, "}", f"static void kw_boxed_{kernel.name}(kw_value *stack, uint64_t inputs, uint64_t outputs) {{"]
    lines += [
        f"  struct kw_tensor tensors[{total}];",
        f"  for (int i = 0; i < {total}; ++i) tensors[i].handle = 0;",
        f"  int code = kw_serve_{kernel.name}(stack, tensors);",
        f"  if (code) kw_finish(tensors + {len(tensors)}, {results});",
        f'  if (code == 1) code = kw_elsewhere("{package}_python::{kernel.name}", stack, {results});',
        f"  else kw_finish(tensors, {len(tensors)});",
        *[f"  if (tensors[{len(tensors) + n}].handle) stack[{n}] = (kw_value)tensors[{len(tensors) + n}].handle;"
          for n in range(results)],
        "  (void)inputs, (void)outputs;\n  if (code) kw_raise();", "}",
    ]  # fmt: skip
    return "\n".join(lines)


def source(package: str, kernels: Sequence[Kernel]) -> str:
    """What follows the launcher's functions."""
    parts, rows = [RUNTIME.read_text(encoding="utf-8")], []
    for kernel in kernels:
        try:
            parts.append(_function(package, kernel))
        except NotInCError:
            continue
        rows.append(f'    {{"{kernel.name}", kw_boxed_{kernel.name}}},')
    if not rows:
        return ""
    exported = '__attribute__((visibility("default")))'
    return "\n".join([
        *parts,
        f'{exported} void {package}_refuse(const char *words) {{\n  kw_refused = 1;\n  kw_fail("%s", words);\n}}',
        "// 1 where torch has taken the operator's kernel in C for this dispatch key.",
        f"{exported} int {package}_implement(const char *space, const char *key, const char *name) {{",
        "  static const struct {\n    const char *name;\n    kw_boxed call;\n  } known[] = {", *rows, "  };",
        "  void *library;",
        "  for (unsigned i = 0; i < sizeof known / sizeof *known; ++i) {",
        "    if (strcmp(known[i].name, name)) continue;",
        '    if (!kw_shim_found() || kw_shim.init(space, key, "kw", 0, &library)) return 0;',
        "    return kw_shim.impl(library, name, known[i].call, KW_SHIM_VERSION) == 0;",
        "  }\n  return 0;\n}",
    ])  # fmt: skip
