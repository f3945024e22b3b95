# SPDX-License-Identifier: MIT
"""NVRTC out of NVIDIA's archives: what is fetched, refused and laid out, and the lock that names it."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.device.nvrtc import Nvrtc
from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.locking import redist
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.providers import archives, nvrtc, pip, untar
from tests.tree import ROOT

TABLE = targets.load()
KIT, PLATFORM = next(iter(redist.locks(TABLE).values()))
PATH = f"cuda_nvrtc/{PLATFORM}/cuda_nvrtc-{PLATFORM}-{KIT.components['nvrtc']}-archive.tar.xz"


def archive(members: dict[str, bytes | str]) -> bytes:
    """As NVIDIA packs one: everything in one folder; a text is where a link leads."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz", preset=0) as made:
        for name, content in members.items():
            info = tarfile.TarInfo(f"cuda_nvrtc-archive/{name}")
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                made.addfile(info)
            else:
                info.size = len(content)
                made.addfile(info, io.BytesIO(content))
    return data.getvalue()


def offered(folder: Path, data: bytes, sha256: str | None = None) -> Path:
    """A lock of one archive that lies in a directory."""
    (folder / PATH).parent.mkdir(parents=True)
    (folder / PATH).write_bytes(data)
    row = {"path": PATH, "sha256": sha256 or hashlib.sha256(data).hexdigest(), "size": len(data)}
    lock = folder / "cuda.json"
    lock.write_text(json.dumps({"from": str(folder), "archives": [row]}))
    return lock


def laid_out(place: Path) -> dict[str, bytes | str]:
    return {
        path.relative_to(place).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in place.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_libraries_headers_and_licence_lie_as_nvidias_wheels_have_them(tmp_path):
    (tmp_path / "place").mkdir()
    kept = {
        "lib/libnvrtc.so.12.2.140": b"code",
        "lib/libnvrtc.so.12": "libnvrtc.so.12.2.140",
        "lib/libnvrtc-builtins.so.12.2": b"more",
        "include/nvrtc.h": b"// header",
        "LICENSE": b"terms",
    }
    other = {
        "lib/libnvrtc_static.a": b"static",
        "lib/stubs/libnvrtc.so": b"stub",
        "pkg-config/nvrtc.pc": b"pc",
        "lib/evil.so": "../../../etc/passwd",
        "include/../../../evil.h": b"out",
    }
    archives.fill(offered(tmp_path, archive({**kept, **other})), tmp_path / "place")
    assert laid_out(tmp_path / "place") == {f"nvidia/cuda_nvrtc/{name}": content for name, content in kept.items()}


def test_an_archive_that_is_another_is_not_unpacked(tmp_path):
    lock = offered(tmp_path, archive({"lib/libnvrtc.so.12": b"code"}), "0" * 64)
    (tmp_path / "place").mkdir()
    with pytest.raises(ProvisionError, match=r"has sha256 [0-9a-f]{64}, and cuda\.json says 0{64}: nothing"):
        archives.fill(lock, tmp_path / "place")
    assert laid_out(tmp_path / "place") == {}
    (tmp_path / PATH).unlink()
    with pytest.raises(ProvisionError, match=r"could not be fetched: .* is not there\. PyPI has none"):
        archives.fill(lock, tmp_path / "place")
    (tmp_path / PATH).write_bytes(b"no archive")
    lock.write_text(lock.read_text().replace("0" * 64, hashlib.sha256(b"no archive").hexdigest()))
    with pytest.raises(ProvisionError, match="is no archive of NVIDIA's"):
        archives.fill(lock, tmp_path / "place")


@pytest.mark.long
def test_nvrtc_of_an_archive_is_the_one_of_the_wheel(tmp_path, memo):
    """This machine's real NVRTC, packed as NVIDIA's archives are, and taken by the lock of such an archive."""
    machine = platform.machine()
    kits = [kit for kit in TABLE.toolkits.values() if not archives.is_lock(Path(kit.locks[machine]))]
    wheel = next((path for kit in kits if (path := nvrtc.here(kit, machine))), None)
    if wheel is None:
        pytest.skip("no NVRTC of PyPI's: `./kw provision` brings it")
    release = Nvrtc(wheel, memo=memo).version
    members: dict[str, bytes | str] = {
        f"lib/{path.name}": path.read_bytes() for path in wheel.parent.glob("libnvrtc*.so*") if ".alt." not in path.name
    }
    members[f"lib/{wheel.name}.{release}"] = members.pop(f"lib/{wheel.name}")
    members[f"lib/{wheel.name}"] = f"{wheel.name}.{release}"
    kit = replace(kits[0], locks={machine: str(offered(tmp_path, archive(members)))})
    with serving(Project(tmp_path)):
        library = nvrtc.library(kit, machine)
        assert nvrtc.here(kit, machine) == library
    assert library.is_relative_to(tmp_path / ".kw" / "tools")
    assert library.read_bytes() == wheel.read_bytes()
    assert Nvrtc(library, memo=memo).version == release


def test_what_nix_runs_lays_out_the_same(tmp_path):
    """As a script, by a Python that has nothing of this project."""
    data = archive({"lib/libnvrtc.so.12": b"code", "lib/libnvrtc_static.a": b"static"})
    (tmp_path / "place").mkdir()
    archives.fill(offered(tmp_path, data), tmp_path / "place")
    command = [sys.executable, "-I", "-S", untar.__file__, str(tmp_path / "nix"), "cuda_nvrtc", str(tmp_path / PATH)]
    subprocess.run(command, check=True)
    assert laid_out(tmp_path / "nix") == laid_out(tmp_path / "place") != {}


def manifest(folder: Path, **changes: object) -> str:
    row = {
        "version": KIT.components["nvrtc"],
        PLATFORM: {"relative_path": PATH, "sha256": "1" * 64, "md5": "2" * 32, "size": "7"},
        **changes,
    }
    (folder / f"redistrib_{KIT.redist}.json").write_text(json.dumps({"cuda_nvrtc": row}))
    return str(folder)


def test_a_lock_is_made_of_nvidias_manifest(tmp_path):
    made = redist.text(KIT, PLATFORM, manifest(tmp_path))
    (tmp_path / "a.json").write_text(made)
    assert archives.read(tmp_path / "a.json") == (redist.BASE, (archives.Archive(PATH, "1" * 64, 7),))
    with pytest.raises(ProvisionError, match=rf"has cuda_nvrtc 99\.9 for {PLATFORM}; the row of {KIT.name} wants"):
        redist.text(KIT, PLATFORM, manifest(tmp_path, version="99.9"))
    with pytest.raises(ProvisionError, match="for linux-sparc"):
        redist.text(KIT, "linux-sparc", manifest(tmp_path))
    (tmp_path / f"redistrib_{KIT.redist}.json").unlink()
    with pytest.raises(ProvisionError, match="has no redistrib_"):
        redist.text(KIT, PLATFORM, str(tmp_path))


def test_a_lock_of_another_archive_than_the_rows_is_told(tmp_path):
    assert list(redist.problems(TABLE)) == []
    (path,) = redist.locks(TABLE)
    assert list(redist.problems(TABLE, tmp_path)) == [f"{path} is missing; make it with `{redist.REGENERATE} {path}`"]
    (tmp_path / path).parent.mkdir()
    text = (ROOT / path).read_text()
    for old, new in ((KIT.components["nvrtc"], "12.2.91"), (PLATFORM, "linux-x86_64"), (redist.BASE, "https://a.b")):
        (tmp_path / path).write_text(text.replace(old, new))
        assert [re.sub("; run.*", "", line) for line in redist.problems(TABLE, tmp_path)] == [
            f"{path} is not of cuda_nvrtc-{PLATFORM}-{KIT.components['nvrtc']} from {redist.BASE}"
        ]


def test_what_is_to_be_fetched_is_said_before_it_is(tmp_path, capsys):
    data = archive({"lib/libnvrtc.so.12": b"code"})
    lock = offered(tmp_path, data)
    with serving(Project(tmp_path)):
        place = pip.install(lock)
    assert (place / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12").read_bytes() == b"code"
    assert f"cuda_nvrtc-{PLATFORM}-{KIT.components['nvrtc']} (0 MB to fetch, once)" in capsys.readouterr().out
