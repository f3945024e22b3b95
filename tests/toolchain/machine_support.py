# SPDX-License-Identifier: MIT
"""A machine with stand-ins for compilers: they answer the questions a provider asks as real ones do."""

from __future__ import annotations

from pathlib import Path

import pytest

ENVIRONMENTS = ("CONDA_PREFIX", "IN_NIX_SHELL", "KW_NIX_TARGET", "KW_LIBDEFLATE")
VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDACXX", "CUDAHOSTCXX", "NVCC_CCBIN", *ENVIRONMENTS)


class Folder:
    """A directory of programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def program(self, name: str, says: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n/bin/cat <<'EOF'\n{says}\nEOF\n")
        path.chmod(0o755)
        return path

    def nvcc(self, version: str, name: str = "nvcc") -> Path:
        release = version.rpartition(".")[0]
        return self.program(name, f"Cuda compilation tools, release {release}, V{version}")

    def gcc(self, version: str, name: str = "g++", extra: str = "") -> Path:
        major, minor = version.split(".")
        return self.program(name, f"#define __GNUC__ {major}\n#define __GNUC_MINOR__ {minor}\n{extra}")


class Machine(Folder):
    """A machine with the programs it is given and nothing else on PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.monkeypatch = monkeypatch
        monkeypatch.setenv("PATH", str(folder))
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("platform.machine", lambda: "x86_64")


def says(error: pytest.ExceptionInfo[BaseException], *words: object) -> None:
    for word in words:
        assert str(word) in str(error.value)
