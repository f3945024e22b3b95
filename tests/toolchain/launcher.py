# SPDX-License-Identifier: MIT
"""The launcher `kw` as a module, and small trees in which it can be run without any package index."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from tests.tree import ROOT

CODE = Path("toolchain/kernelwright_toolchain/launcher.py")
SHOUT = """import os, sys
odd = [name for name in os.environ if name.startswith(("NOX", "PYTHON")) and name != "PYTHONPATH"]
print("NOX", sys.argv[1:], os.getcwd(), os.environ["KW_CALLED_FROM"], *odd)
"""


def load(path: Path = ROOT / CODE) -> ModuleType:
    loader = SourceFileLoader("kw_under_test", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def make_wheel(directory: Path, name: str, files: dict[str, str], version: str = "1.0") -> Path:
    """A small valid wheel."""
    info = f"{name}-{version}.dist-info"
    members = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for member, text in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{member},sha256={digest},{len(text)}\n")
    members[f"{info}/RECORD"] = "".join(lines) + f"{info}/RECORD,,\n"
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return path


NOXFILE = """import nox
@nox.session
def build(session):
    \"\"\"Make the wheel.\"\"\"
@nox.session
def lint(session):
    \"\"\"Look at it.\"\"\"
"""


class Tree:
    """A copy of kw and its code with a stand-in for nox that prints what it is told."""

    def __init__(self, root: Path) -> None:
        self.root, self.wheels = root / "tree", root / "wheels"
        (self.root / "locks").mkdir(parents=True)
        self.wheels.mkdir()
        shutil.copy(ROOT / "kw", self.root / "kw")
        (self.root / "noxfile.py").write_text(NOXFILE)
        self.code = self.root / CODE
        self.code.parent.mkdir(parents=True)
        for name in ("__init__.py", CODE.name):
            shutil.copy(ROOT / CODE.parent / name, self.code.parent)
        wheel = make_wheel(self.wheels, "nox", {"nox/__init__.py": "", "nox/__main__.py": SHOUT})
        self.lock(hashlib.sha256(wheel.read_bytes()).hexdigest())

    def lock(self, digest: str, comment: str = "") -> None:
        (self.root / "locks" / "nox.txt").write_text(f"{comment}nox==1.0 --hash=sha256:{digest}\n")

    def start(self, *words: str, cwd: Path | None = None, **variables: str) -> subprocess.Popen[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
        env = {**kept, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), **variables}
        command = [sys.executable, str(self.root / "kw"), *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=cwd or self.root, env=env, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str, cwd: Path | None = None, **variables: str) -> tuple[int, str, str]:
        child = self.start(*words, cwd=cwd, **variables)
        out, err = child.communicate(timeout=120)
        return child.returncode, out, err

    def homes(self) -> list[Path]:
        return sorted(path for path in (self.root / ".kw").glob("nox-*") if path.is_dir())
