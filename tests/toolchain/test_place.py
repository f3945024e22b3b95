# SPDX-License-Identifier: MIT
"""`./kw install -- --from PATH`: a path where no wheel can lie is refused before anything is built."""

from __future__ import annotations

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.building import install
from kernelwright_toolchain.building.options import Options
from kernelwright_toolchain.errors import RequestError


@pytest.mark.parametrize(("name", "what"), [("nowhere", "does not exist"), ("file", "is not a directory")])
def test_a_path_that_is_no_directory_is_refused_at_once(tmp_path, monkeypatch, name, what):
    (tmp_path / "file").touch()
    built: list[Options] = []
    monkeypatch.setattr(install, "build", lambda options, _: built.append(options))
    with pytest.raises(RequestError, match=rf"--from \S+{name}: {tmp_path}/{name} {what}\. Name the directory"):
        install.get(Options(), targets.load(), str(tmp_path / name), None, None)
    assert built == []
