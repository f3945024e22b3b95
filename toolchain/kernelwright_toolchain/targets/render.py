# SPDX-License-Identifier: MIT
"""The tables of documents that are read from elsewhere: targets, GPUs, toolkits, operators, what a release supports.

Each stands between two comments, `<!-- begin NAME` and `<!-- end NAME`; what is between them is made here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import tested
from kernelwright_toolchain.targets.model import PROVIDERS, Code, Table, Target
from kernelwright_toolchain.targets.read import load

COMMAND = "python -m toolchain render"
RECORDS = Path("src/kernelwright/ops")


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _codes(codes: Iterable[Code]) -> str:
    return ", ".join(f"`{code.name}`" for code in codes) or "none"


def targets_block(table: Table) -> str:
    """What the default wheel of each target holds and needs."""
    rows = []
    for target in table.targets.values():
        toolkit = table.toolkits[target.toolkit]
        codes = table.default_codes(target, toolkit)
        name = f"**`{target.name}`**" if target.release else f"`{target.name}`"
        cubins, ptx = ([code for code in codes if code.kind == kind] for kind in ("cubin", "ptx"))
        # Without NVIDIA's number for it: a Jetson's drivers are numbered otherwise.
        driver = f"CUDA {toolkit.driver.cuda}"
        rows.append([name, target.about, _codes(cubins), _codes(ptx), driver, str(target.glibc)])
    return _markdown(["target", "for", "cubins", "PTX", "oldest driver", "oldest glibc"], rows)


def _fallback(table: Table, target: Target, code: Code) -> str:
    """What the target's default wheel runs on this GPU where it lacks this code, as the loader chooses."""
    codes = table.default_codes(target, table.toolkits[target.toolkit])
    cubins = [c for c in codes if c.kind == "cubin" and code.native in c.runs_on]
    ptx = [c for c in codes if c.kind == "ptx" and c.native <= code.native]
    return f"`{(cubins or ptx)[-1].name}`" if cubins or ptx else "nothing"


def gpus_block(table: Table) -> str:
    """For each GPU: which default wheels have its code, what the others run on it, and what builds the code."""
    released = [target for target in table.targets.values() if target.release]
    rows = []
    for code in (code for code in table.codes.values() if code.kind == "cubin"):
        having = [t for t in released if code in table.default_codes(t, table.toolkits[t.toolkit])]
        lacking = [t for t in released if t not in having]
        fallbacks = dict.fromkeys(_fallback(table, target, code) for target in lacking)
        # The option that a target needs: a toolkit that knows the code, and its name where no default set has it.
        able = [t.name for t in table.toolkits.values() if code.toolkits.knows(t.release)]
        known = all(target.toolkit in able for target in released)
        planned = any(code.name in target.cubins for target in released)
        wish = [*([] if known else [f"--toolkit {able[0]}"]), *([] if planned else [f"--archs {code.number}"])]
        held = ", ".join(f"`{target.name}`" for target in having) or "none"
        option = f"`{' '.join(wish or [f'--archs {code.number}'])}`"
        rows.append([", ".join(code.boards), f"`{code.name}`", held, " or ".join(fallbacks), option if lacking else ""])
    return _markdown(["GPU", "its code", "default wheels with it", "the others run", "to build it"], rows)


def toolkits_block(table: Table) -> str:
    """What each toolkit asks for, and the build machines on which each provider has it."""
    rows = []
    for kit in table.toolkits.values():
        hosts = [", ".join(kit.hosts[provider]) or "not there" for provider in PROVIDERS]
        driver = f"CUDA {kit.driver.cuda} ({kit.driver.linux})"
        rows.append([f"`{kit.name}`", kit.components["nvcc"], driver, f"{kit.gcc.min} to {kit.gcc.max}", *hosts])
    return _markdown(["toolkit", "compiler", "oldest driver", "GCC its nvcc takes", *PROVIDERS], rows)


def support_block(table: Table) -> str:
    """Each wheel that is released: where it runs and what it runs on."""
    released = [target for target in table.targets.values() if target.release]
    rows = []
    for kit in table.toolkits.values():
        for target in released:
            codes = table.default_codes(target, kit)
            label = "" if kit.name == target.toolkit else f"+{kit.name}"
            ptx = ", ".join(str(code.native) for code in codes if code.kind == "ptx")
            newer = f"newer than {ptx}, by PTX" if ptx else "none"
            rows.append([
                f"`VERSION{label}` for {target.machine}", f"glibc {target.glibc}",
                f"CUDA {kit.driver.cuda} ({kit.driver.linux})", _codes(c for c in codes if c.kind == "cubin"), newer,
            ])  # fmt: skip
    return _markdown(["wheel", "Linux from", "driver from", "GPUs by a cubin", "others"], rows)


def _doc(path: Path) -> str:
    """The `doc` of the Op record in this file, read without running it: torch need not be there."""
    for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        if [target.id for target in node.targets if isinstance(target, ast.Name)] == ["OP"]:
            for keyword in node.value.keywords:
                if keyword.arg == "doc" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
    raise GateError(f"{path}: its Op record has no `doc` that is a plain string; docs/use.md's table needs one")


def ops_block(root: Path) -> str:
    """One row for each operator: what its record says of it."""
    rows = []
    for path in sorted((root / RECORDS).glob("*/[!_]*.py"), key=lambda path: path.stem):
        header = f"csrc/ops/{path.parent.name}/api/{path.stem}.h"
        rows.append([f"`kernelwright.{path.stem}`", _doc(path), f"[`kw_{path.stem}`](../{header})"])
    return _markdown(["operator", "what it does", "C function"], rows)


def blocks(table: Table, root: Path) -> dict[str, dict[str, str]]:
    """Each page that has such tables: its blocks, by name."""
    return {
        "docs/start.md": {"gpus": gpus_block(table), "targets": targets_block(table)},
        "docs/use.md": {"operators": ops_block(root)},
        "docs/options.md": {"toolkits": toolkits_block(table)},
        "docs/releasing.md": {
            "tested": _markdown(["what", "supported", "tested with"], tested.rows(table, root)),
            "support": support_block(table),
        },
    }


def render(text: str, made: dict[str, str], name: str) -> str:
    """This page with every block replaced by what it should be."""
    for block, content in made.items():
        begin, end = f"<!-- begin {block}: made by `{COMMAND}` -->", f"<!-- end {block} -->"
        pattern = re.compile(rf"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
        # A function, because a backslash in a table would be read as a group of the pattern.
        text, count = pattern.subn(lambda match, content=content: f"{match[1]}{content}{match[2]}", text)  # type: ignore[misc]
        if count != 1:
            raise GateError(f"{name}: expected one block between {begin} and {end}, found {count}; put it back")
    return text


def pages(root: Path | None = None) -> dict[Path, str]:
    """Each document with such tables, as it should be."""
    root = root or project().root
    made = blocks(load(root / "targets.toml"), root)
    return {
        root / name: render((root / name).read_text(encoding="utf-8"), content, name) for name, content in made.items()
    }


def check(root: Path | None = None) -> None:
    """Raises a GateError unless the documents say what the table and the records say."""
    root = root or project().root
    for path, text in pages(root).items():
        name = path.relative_to(root)
        found, wanted = path.read_text(encoding="utf-8").splitlines(), text.splitlines()
        for number, (is_, should) in enumerate(zip(found, wanted, strict=False), start=1):
            if is_ != should:
                raise GateError(f"{name}:{number} is stale: run `{COMMAND}`\n  is      {is_}\n  should  {should}")
        if len(found) != len(wanted):
            raise GateError(f"{name} is stale: run `{COMMAND}`")
