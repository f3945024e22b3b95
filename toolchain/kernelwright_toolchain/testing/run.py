# SPDX-License-Identifier: MIT
"""The test run, the benchmark run and the lint run: which commands, in which environment."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright_toolchain import start
from kernelwright_toolchain.building import clean
from kernelwright_toolchain.building.stamp import digest_of
from kernelwright_toolchain.project import project
from kernelwright_toolchain.testing import environment
from kernelwright_toolchain.testing.torch import Torch

# Tests of what only the environments of lint have: conda-lock, the schema of workflows, their auditor.
ONLY_HERE = (
    "tests/toolchain/test_conda_lock.py",
    "tests/toolchain/test_conda_solve.py",
    "tests/toolchain/test_workflow_tools.py",
    "tests/toolchain/test_own_workflow.py",
)
NATIVE = (".h", ".cpp", ".cu", ".cuh", ".inc")
# OpenMP's threads sleep while they wait: where two processes of pytest share the cores, one's would spin on those that
# the other's need, and two then take four times as long as one.
PATIENT = {"OMP_WAIT_POLICY": "passive"}


def _run(title: str, command: Sequence[str], python: Path, more: Mapping[str, str] | None = None) -> int:
    print(f"\n== {title}", file=sys.stderr, flush=True)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's background job; tests interrupt their children
        signal.signal(signal.SIGINT, signal.default_int_handler)
    env = {**environment.environment(python), **(more or {})}
    return subprocess.run(command, cwd=project().root, env=env, check=False).returncode


def _with_wheel(lock: str, wheel: Path, torch: Torch, more: Path | None = None) -> Path:
    """The interpreter of the environment of this lock, with that torch and this wheel in it."""
    print(torch.about, file=sys.stderr, flush=True)
    python = environment.ready(lock, torch, more)
    marker = python.parent.parent / "wheel"
    digest = digest_of(wheel)
    if not marker.is_file() or marker.read_text(encoding="utf-8") != digest:
        marker.unlink(missing_ok=True)  # while it is half installed, it is none
        clean.install_wheel(python, wheel)
        marker.write_text(digest, encoding="utf-8")
    return python


def run_tests(wheel: Path, torch: Torch, rest: Sequence[str], more: Path | None = None) -> int:
    """pytest's exit code, with the wheel installed and nothing of the sources in its place."""
    python = _with_wheel("tests", wheel, torch, more)
    return _run(f"tests of {wheel.name}", start.command(python, project().root, "pytest", *rest), python, PATIENT)


def run_bench(wheel: Path, torch: Torch, rest: Sequence[str]) -> int:
    """The exit code of benchmarks/run.py, with the wheel installed."""
    python = _with_wheel("bench", wheel, torch)
    return _run(
        f"benchmarks of {wheel.name}", [str(python), str(project().root / "benchmarks" / "run.py"), *rest], python
    )


def run_docs(out: Path, version: str, commits: str) -> int:
    """Sphinx's exit code; where it is 0 the site lies in `out`."""
    python = environment.ready("docs")
    words = [str(out), "--version", version, "--commits", commits]
    command = start.command(python, project().root, "docs.site", *words)
    code = subprocess.run(command, cwd=project().root, env=clean.environment(), check=False).returncode
    if code == 0:
        print(f"{project().shown(out / 'index.html')}")
    return code


def native_sources() -> list[str]:
    """Every C++ and CUDA file, relative to the root."""
    found = [
        p for name in ("csrc", "tests", "benchmarks") for p in (project().root / name).rglob("*") if p.suffix in NATIVE
    ]
    return sorted(str(path.relative_to(project().root)) for path in found)


def workflows() -> list[str]:
    """The workflow files, relative to the root."""
    return _of_github("workflows/*.yml")


def _of_github(pattern: str) -> list[str]:
    root = project().root
    return sorted(str(path.relative_to(root)) for path in (root / ".github").glob(pattern))


def run_lint(rest: Sequence[str]) -> int:
    """0 if every check passes; all run, whatever the first ones say. What follows -- goes to the layout tests."""
    python = environment.ready("lint")
    own = [str(python), "-I", "-m"]
    schema = [*own, "check_jsonschema", "--builtin-schema"]
    forms = [path for path in _of_github("ISSUE_TEMPLATE/*.yml") if Path(path).stem != "config"]
    checks = [
        ("ruff check", [*own, "ruff", "check", "."]),
        ("ruff format", [*own, "ruff", "format", "--check", "."]),
        ("mypy --strict", [*own, "mypy"]),
        ("workflows", [*schema, "vendor.github-workflows", *workflows()]),
        ("issue forms", [*schema, "vendor.github-issue-forms", *forms]),
        ("citation", [*schema, "vendor.citation-file-format", "CITATION.cff"]),
        # Rights, pins, secrets, expressions in scripts: what a schema cannot see.
        ("workflow audit", [str(python.parent / "zizmor"), "--offline", "--quiet", "--no-progress", *workflows()]),
        ("clang-format", [str(python.parent / "clang-format"), "--dry-run", "-Werror", *native_sources()]),
        # First the locks: that makes the environment with conda-lock, which the tests of its lock use.
        ("locks", start.command(python, project().root, "kernelwright_toolchain", "lock", "--check")),
        ("layout tests", start.command(python, project().root, "pytest", "-q", "tests/layout", *ONLY_HERE, *rest)),
    ]
    failed = [title for title, command in checks if _run(title, command, python)]
    print(f"\nlint: {', '.join(failed)} failed" if failed else "\nlint: all passed", file=sys.stderr, flush=True)
    return 1 if failed else 0
