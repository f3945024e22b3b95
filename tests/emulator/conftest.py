# SPDX-License-Identifier: MIT
"""The emulating driver with the images of the installed wheel's operators, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator import build

CODES = ("sm_90a", "sm_80")


@pytest.fixture(scope="session")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the driver and those images that the wheel has."""
    codes = [code for code in CODES if build.kernels_of(code)]
    if not codes:
        pytest.skip(f"the installed wheel has images of none of {', '.join(CODES)}")
    try:
        build.compiler()
    except build.NoCompiler as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("operators")
    build.build_operators(build.manifest(), codes, build.build_driver(folder), folder)
    return folder
