# SPDX-License-Identifier: MIT
"""What is supported beside what was tested, from the files that decide both: the table of targets, pyproject.toml, the
workflows' pins, the rehearsal's systems, and the machines of docs/evidence.md. Nothing here is written by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.targets.model import Table
from kernelwright_toolchain.targets.read import toml

EVIDENCE, REHEARSAL = "docs/evidence.md", "tests/release/roots.py"
_MACHINE = re.compile(
    r"^\| (?P<name>[^|]+) \| NVIDIA (?P<gpu>[^,|]+), driver (?P<driver>[\d.]+), torch (?P<torch>[^ |]+) \|$",
    re.MULTILINE,
)
_PYTHON = "Programming Language :: Python :: 3."

Row = tuple[str, str, str]


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def _constant(root: Path, name: str) -> Any:
    """What the rehearsal's file says, read without running it."""
    for node in ast.parse(_read(root, REHEARSAL)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise GateError(f"{REHEARSAL} has no {name} any more, from which docs/releasing.md says what was tested")


def gpus(root: Path) -> list[re.Match[str]]:
    """The machines with a GPU that docs/evidence.md has."""
    found = [*_MACHINE.finditer(_read(root, EVIDENCE))]
    if not found:
        raise GateError(f"{EVIDENCE}: no row of its machines is `| NAME | NVIDIA GPU, driver X, torch Y |` any more")
    return found


def _python(root: Path, project: Mapping[str, Any]) -> Row:
    named = [line.removeprefix(_PYTHON) for line in project["classifiers"] if line.startswith(_PYTHON)]
    systems = _constant(root, "SYSTEMS")
    there = sorted({*systems.values(), *_constant(root, "OTHERS")}, key=lambda v: int(v.partition(".")[2]))
    said = f"installed, upgraded and removed in bare systems each week: {', '.join(there)}; free-threaded: not tested"
    return "Python", f"{project['requires-python'].removeprefix('>=')} or newer; named: 3.{', 3.'.join(named)}", said


def _torch(root: Path, whole: Mapping[str, Any]) -> Row:
    from kernelwright_toolchain.workflows.render import pins

    lowest = re.fullmatch(r"torch>=([\d.]+)", whole["project"]["optional-dependencies"]["torch"][0])
    (locked,) = whole["dependency-groups"]["torch"]
    oldest = pins()["torch"]
    on_gpus = ", ".join(dict.fromkeys(machine["torch"] for machine in gpus(root)))
    said = (
        f"{locked.partition('==')[2]} with every change; {oldest['oldest']} ({oldest['machine']}) each week; "
        f"on GPUs {on_gpus}"
    )
    if lowest is None:
        raise GateError(f"pyproject.toml: the extra torch is not `torch>=VERSION`, from which {EVIDENCE} is made")
    return "torch, an extra", f"{lowest[1]} or newer", said


def _linux(root: Path, table: Table) -> Row:
    from kernelwright_toolchain.workflows.render import pins

    released = [target for target in table.targets.values() if target.release]
    floors = " and ".join(f"{target.machine} with glibc {target.glibc}" for target in released)
    runners = pins()["runner"]
    images = [label for target in released for label in runners[target.machine].values()]
    return "Linux", f"{floors} or newer", f"{', '.join(images)}; Debian {', '.join(_constant(root, 'SYSTEMS'))}"


def _driver(root: Path, table: Table) -> Row:
    released = [target for target in table.targets.values() if target.release]
    least = dict.fromkeys(table.toolkits[target.toolkit].driver for target in released)
    drivers: dict[str, list[str]] = {}
    for machine in gpus(root):
        drivers.setdefault(machine["driver"], []).append(machine["name"].strip())
    said = "; ".join(f"{driver} ({', '.join(names)})" for driver, names in drivers.items())
    return "NVIDIA driver", f"CUDA {' or '.join(f'{d.cuda} ({d.linux})' for d in least)} or newer", said


def _codes(root: Path, table: Table) -> Iterator[Row]:
    """Every code of a released wheel: who has it, and which GPU has run it."""
    released = [target for target in table.targets.values() if target.release]
    held = {code.name: code for t in released for code in table.default_codes(t, table.toolkits[t.toolkit])}
    seen = [machine["gpu"] for machine in gpus(root)]
    for code in (code for code in table.codes.values() if code.name in held):
        ran = [gpu for gpu in seen if any(board in gpu.split() for board in code.boards)]
        if code.kind == "ptx":
            yield f"`{code.name}`", "GPUs newer than the wheel", "by PTX; no such GPU has run it"
        else:
            yield f"`{code.name}`", ", ".join(code.boards), ", ".join(ran) or "compiled; no such GPU has run it"


def rows(table: Table, root: Path) -> list[Row]:
    whole = toml(_read(root, "pyproject.toml"), "pyproject.toml")
    return [
        _python(root, whole["project"]),
        _torch(root, whole),
        _linux(root, table),
        _driver(root, table),
        *_codes(root, table),
    ]
