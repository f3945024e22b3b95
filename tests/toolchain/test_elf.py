# SPDX-License-Identifier: MIT
"""One file reads ELF for the X-ray and for the toolchain, which finds it in a checkout and in its own wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright_toolchain.distribution import contents
from kernelwright_toolchain.wheel import elf
from tests.tree import ROOT

READER = "src/kernelwright/doctor/xray/_elf.py"
_TELL = """import sys
from kernelwright_toolchain import elf
from kernelwright_toolchain.wheel.elf import parse
print(sys.modules[elf.Elf.__module__].__file__)
print(*parse(open(sys.argv[1], "rb").read()).libraries)
print(*[name for name in sys.modules if name.partition(".")[0] == "kernelwright"])
"""


def libraries() -> list[Path]:
    import _struct

    return [Path(_struct.__file__)] if getattr(_struct, "__file__", None) else []


def told(place: Path) -> list[str]:
    act = f"import sys; sys.path.insert(0, {str(place)!r})\n{_TELL}"
    command = [sys.executable, "-I", "-c", act, str(libraries()[0])]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")


def test_the_tables_of_elf_are_unpacked_in_one_file():
    """A section header, a file's header, a symbol: whoever unpacks one of them reads ELF."""
    for layout in ("<IIQQQQIIQQ", "<HHIQQQIHHHHHH", "<HHIII"):
        paths = [path for room in ("src", "toolchain") for path in (ROOT / room).rglob("*.py")]
        found = [path.relative_to(ROOT).as_posix() for path in paths if f'"{layout}"' in path.read_text()]
        assert found == [READER], layout


@pytest.mark.skipif(not libraries(), reason="this interpreter has no extension modules as files")
def test_a_checkout_and_a_wheel_read_by_the_same_file_and_import_no_kernelwright(tmp_path):
    for name, data in contents.package(ROOT / "toolchain").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    packed = tmp_path / contents.DATA / "doctor" / "kernelwright" / "doctor" / "xray" / "_elf.py"
    needed = " ".join(elf.needs(libraries()[0]).libraries)
    assert needed
    assert told(ROOT / "toolchain") == [str(ROOT / READER), needed, "", ""]
    assert told(tmp_path) == [str(packed), needed, "", ""]
    assert packed.read_bytes() == (ROOT / READER).read_bytes()


@pytest.mark.skipif(not libraries(), reason="this interpreter has no extension modules as files")
def test_a_section_that_the_file_does_not_have_is_refused():
    """It was taken as far as the file went, and compared so."""
    whole = libraries()[0].read_bytes()
    assert len(elf.sections(whole)[1].data) > 0
    headers = int.from_bytes(whole[40:48], "little")
    damaged = bytearray(whole)
    damaged[headers + 64 + 32 : headers + 64 + 40] = len(whole).to_bytes(8, "little")  # the size of the first section
    with pytest.raises(ValueError, match="lie outside the file"):
        elf.sections(bytes(damaged))
