# SPDX-License-Identifier: MIT
"""nix/driver.sh on machines of several kinds: trees with files of the right names, no driver and no Nix needed."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "nix" / "driver.sh"
TRIPLE = f"{platform.machine()}-linux-gnu"


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / "flake.nix").touch()
    return tmp_path


def install(machine: Path, folder: str, *names: str) -> None:
    (machine / "root" / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        (machine / "root" / folder / name).write_text(name)


def enter(machine: Path, **env: str) -> tuple[list[str], str]:
    """LD_LIBRARY_PATH after the shell's hook, and what it said."""
    script = f'. "{SCRIPT}"; kw_driver; echo "${{LD_LIBRARY_PATH:-}}"'
    env = {"PATH": "/usr/bin:/bin", "KW_ROOT": str(machine / "root"), **env}
    done = subprocess.run(
        ["bash", "-euc", script], cwd=machine / "tree" / "below", env=env, capture_output=True, text=True, check=True
    )
    return [path for path in done.stdout.strip().split(":") if path], done.stderr


def test_only_nvidias_libraries_are_let_in(machine):
    install(machine, f"usr/lib/{TRIPLE}", "libcuda.so.1", "libcuda.so", "libnvidia-ptxjitcompiler.so.1", "libc.so.6")
    (place,), said = enter(machine)
    assert place == str(machine / "tree" / ".kw" / "driver")
    links = {path.name: path.read_text() for path in Path(place).iterdir()}
    assert links == {name: name for name in ("libcuda.so", "libcuda.so.1", "libnvidia-ptxjitcompiler.so.1")}
    assert said == ""


def test_wsl_has_a_library_between_the_driver_and_the_gpu(machine):
    install(machine, "usr/lib/wsl/lib", "libcuda.so.1", "libdxcore.so", "libd3d12.so")
    (place,), _ = enter(machine)
    assert {path.name for path in Path(place).iterdir()} == {"libcuda.so.1", "libdxcore.so"}


def test_a_program_in_the_shell_loads_the_driver_by_its_name(machine):
    """With a whole shared library in the driver's place: the linker opens it, as the loader of kernels does."""
    install(machine, "usr/lib64", "libcuda.so.1")
    maps = "import re; print(*set(re.findall(r'/\\S*/lib64/libcuda\\S*', open('/proc/self/maps').read())))"
    shutil.copy(_any_library(), machine / "root/usr/lib64/libcuda.so.1")
    program = f"import ctypes; ctypes.CDLL('libcuda.so.1'); {maps}"
    script = f'. "{SCRIPT}"; kw_driver; exec "{sys.executable}" -c "$1"'
    env = {"PATH": "/usr/bin:/bin", "KW_ROOT": str(machine / "root")}
    done = subprocess.run(
        ["bash", "-euc", script, "-", program],
        cwd=machine / "tree",
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(machine / "root/usr/lib64/libcuda.so.1"), done.stderr


def _any_library() -> str:
    ctypes.CDLL("libm.so.6")
    return next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libm.so" in line)


def test_an_earlier_drivers_links_go(machine):
    install(machine, "usr/lib64", "libcuda.so.1", "libnvidia-old.so.1")
    enter(machine)
    (machine / "root/usr/lib64/libnvidia-old.so.1").unlink()
    (place,), _ = enter(machine)
    assert [path.name for path in Path(place).iterdir()] == ["libcuda.so.1"]


def test_what_was_on_the_path_stays_behind_it(machine):
    install(machine, "usr/lib", "libcuda.so.1")
    paths, _ = enter(machine, LD_LIBRARY_PATH="/mine")
    assert paths == [str(machine / "tree" / ".kw" / "driver"), "/mine"]


def test_nixos_has_a_place_of_its_own(machine):
    install(machine, "run/opengl-driver/lib", "libcuda.so.1")
    install(machine, "usr/lib", "libcuda.so.1")
    assert enter(machine)[0] == [str(machine / "root/run/opengl-driver/lib")]
    assert not (machine / "tree" / ".kw").exists()


def test_l4t_has_folders_of_its_own_and_is_named(machine):
    install(machine, f"usr/lib/{TRIPLE}/nvidia", "libcuda.so.1", "libnvrm_gpu.so", "libnvos.so")
    install(machine, "etc", "nv_tegra_release")
    (place,), said = enter(machine, KW_NIX_TARGET="some-target")
    assert {path.name for path in Path(place).iterdir()} == {"libcuda.so.1", "libnvrm_gpu.so", "libnvos.so"}
    assert "a Jetson with L4T" in said
    assert "for some-target" in said


def test_no_driver_is_said_and_is_no_error(machine):
    (machine / "root").mkdir()
    paths, said = enter(machine)
    assert paths == []
    assert "no NVIDIA driver" in said
