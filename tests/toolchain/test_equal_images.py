# SPDX-License-Identifier: MIT
"""An image is left out of a default wheel where another's loads the same, and stays where one byte of it differs.

The images are NVRTC's own, one small kernel for each code; what a test plants, it plants into the bytes of one of them.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace

import pytest
import tiny
from device_support import Made, record, tree

from kernelwright_toolchain.commands import device
from kernelwright_toolchain.cubin import CubinError, info, loaded
from kernelwright_toolchain.cubin.elf import Elf
from kernelwright_toolchain.device import Compiled, build_images
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.exact import wheel as wheels
from kernelwright_toolchain.exact.compare import compare
from kernelwright_toolchain.exact.verify import Verdict
from kernelwright_toolchain.request import resolve
from kernelwright_toolchain.wheel import gates

KERNEL = r"""
__constant__ float table[4] = {1, 2, 3, 4};
extern "C" __global__ void __launch_bounds__(256) one_k(float* p) { p[threadIdx.x] *= table[threadIdx.x & 3]; }
"""
SERVING, LEFT_OUT, NEITHER = "sm_86", "sm_89", "sm_80"


@pytest.fixture(scope="module")
def real(nvrtc, table, tmp_path_factory):
    """(op, code) -> what NVRTC made, filled as it is asked."""
    return {}


class Planting:
    """NVRTC, whose image for one code is changed on its way."""

    def __init__(self, nvrtc, known, code, plant):
        self.nvrtc, self.known, self.code, self.plant = nvrtc, known, code, plant

    def __getattr__(self, name):
        return getattr(self.nvrtc, name)

    def compile(self, job):
        if job.code.name not in self.known:
            self.known[job.code.name] = self.nvrtc.compile(job)
        made = self.known[job.code.name]
        if job.code.name != self.code:
            return made
        return Compiled(self.plant(made.image), made.log, made.seconds, made.peak)


def same(image):
    return image


@pytest.fixture
def fill(nvrtc, real, table, tmp_path):
    """Builds into tmp_path/out; gives the request and the manifest's rows by code."""
    root = tree(tmp_path / "root", one=KERNEL)
    (root / "csrc/include/kernelwright").mkdir(parents=True)
    (root / "csrc/include/kernelwright/base.h").write_text("KW_API int32_t kw_abi(void);\n")
    (root / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')

    def call(plant=same, code=LEFT_OUT, rows=table, **options):
        request = resolve(rows, **{"machine": "x86_64", "root": root, **options})
        compiler = Planting(nvrtc, real, code, plant)
        built = build_images(request, compiler, root=root, cache_at=tmp_path / "cache", afresh=True)
        device.write_outputs(tmp_path / "out", rows, request, compiler, built, root=root)
        found = json.loads((tmp_path / "out/manifest.json").read_text())["images"]
        return request, {row["code"]: row for row in found}

    return call


def files(tmp_path):
    return {path.parent.name for path in (tmp_path / "out/kernels").glob("*/one.cubin")}


def test_an_equal_image_is_left_out_and_the_manifest_says_which_serves(fill, real, tmp_path):
    request, rows = fill()
    assert request.is_default
    assert files(tmp_path) == {"sm_80", SERVING, "sm_90a"}
    data = (tmp_path / f"out/kernels/{SERVING}/one.cubin").read_bytes()
    own = real[LEFT_OUT].image
    assert own != data
    served = {"code": SERVING, "compiled": hashlib.sha256(own).hexdigest(), "loaded": loaded(own)}
    assert rows[LEFT_OUT] == rows[SERVING] | {"code": LEFT_OUT, "served_by": served}
    assert rows[LEFT_OUT]["path"] == f"kernels/{SERVING}/one.cubin"
    assert rows[LEFT_OUT]["sha256"] == hashlib.sha256(data).hexdigest()
    assert [code for code, row in rows.items() if row["served_by"]] == [LEFT_OUT]
    lines = (tmp_path / "out/kw_images.inc").read_text().splitlines()
    [line] = [line for line in lines if f'"{LEFT_OUT}"' in line]
    assert line.endswith(f'"{SERVING}", "8.6", {len(data)}, "{rows[SERVING]["sha256"]}")')
    assert '"8.9", ' in line
    assert "KW_FEATURE_FP8" in line  # its own features: the library plans as for its own image


def section(image, name):
    [found] = [part for part in Elf(image).sections if part.name == name]
    return found


def flipped(name, at=0):
    def plant(image):
        place = section(image, name).offset + at
        return image[:place] + bytes([image[place] ^ 1]) + image[place + 1 :]

    return plant


def one_register_more(image):
    part = section(image, ".nv.info")
    body = image[part.offset : part.offset + part.size]
    at = body.index(struct.pack("<BBH", info.SIZED, info.REGISTERS, 8)) + 8
    [count] = struct.unpack_from("<I", body, at)
    changed = body[:at] + struct.pack("<I", count + 1) + body[at + 4 :]
    return image[: part.offset] + changed + image[part.offset + part.size :]


def fewer_threads(image):
    part = section(image, ".nv.info.one_k")
    at = image.index(struct.pack("<BBHI", info.SIZED, info.MAX_THREADS, 12, 256), part.offset) + 4
    return image[:at] + struct.pack("<I", 128) + image[at + 4 :]


def wider_alignment(image):
    [header] = struct.unpack_from("<Q", image, 40)
    number = next(i for i, part in enumerate(Elf(image).sections) if part.name == ".nv.constant3")
    at = header + 64 * number + 48  # sh_addralign
    return image[:at] + struct.pack("<Q", struct.unpack_from("<Q", image, at)[0] * 2) + image[at + 8 :]


PLANTS = {
    "a byte of code": flipped(".text.one_k", 16),
    "a byte of the constants": flipped(".nv.constant3"),
    "a byte of the bank that parameters go to": flipped(".nv.constant0.one_k", 7),
    "the number of registers": one_register_more,
    "the threads of a block": fewer_threads,
    "a section's alignment": wider_alignment,
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_an_image_that_differs_stays(fill, tmp_path, plant):
    _, rows = fill(plant)
    assert files(tmp_path) == {"sm_80", SERVING, LEFT_OUT, "sm_90a"}
    assert rows[LEFT_OUT]["path"] == f"kernels/{LEFT_OUT}/one.cubin"
    assert not any(row["served_by"] for row in rows.values())


def test_codes_that_are_asked_for_by_name_stay_and_so_do_debug_builds(fill, tmp_path):
    _, rows = fill(archs="86;89")
    assert files(tmp_path) == {SERVING, LEFT_OUT}
    assert not any(row["served_by"] for row in rows.values())
    fill(debug=True)
    assert files(tmp_path) == {"sm_80", SERVING, LEFT_OUT, "sm_90a"}


def test_a_row_that_is_always_packed_stays(fill, table, tmp_path):
    codes = dict(table.codes) | {LEFT_OUT: replace(table.codes[LEFT_OUT], always=True)}
    fill(rows=replace(table, codes=codes))
    assert files(tmp_path) == {"sm_80", SERVING, LEFT_OUT, "sm_90a"}
    assert [code.name for code in table.codes.values() if code.always] == ["sm_87"]


def test_one_that_does_not_run_on_all_of_its_gpus_does_not_serve(fill, table, tmp_path):
    codes = dict(table.codes) | {SERVING: replace(table.codes[SERVING], runs_on=table.codes[SERVING].runs_on[:1])}
    fill(rows=replace(table, codes=codes))
    assert files(tmp_path) == {"sm_80", SERVING, LEFT_OUT, "sm_90a"}


# --- what counts as loaded, on cubins made by hand

WORKAROUND = b"\x01\x35\x00\x00"


@pytest.mark.parametrize(
    "other",
    [
        Made(flags=0x560556),
        Made(info=WORKAROUND),
        Made(extra={".note.nv.tkinfo": b"-arch sm_86"}),
    ],
    ids=["the architecture's number", "the mark of a workaround", "a note"],
)
def test_what_is_not_loaded(other):
    plain = Made(extra={".note.nv.tkinfo": b"-arch sm_89"} if other.extra else {})
    assert plain.bytes() != other.bytes()
    assert loaded(plain.bytes()) == loaded(other.bytes())


@pytest.mark.parametrize(
    "other",
    [
        Made(registers=41),
        Made(flags=0x590D59),
        Made(flags=0x590659),
        Made(osabi=65, abi=8, flags=0x6005904),
        Made(info=record(0x36, 1)),
        Made(info=b"\x01\x36\x00\x00"),
        Made(extra={".nv.shared.op_kernel": bytes(16)}),
        Made(extra={".nv.global.init": b"\1"}),
        Made(extra={".text.op_kernel": b"\x90" * 15 + b"\x91"}),
        Made(symbols=("table",)),
        Made(kernel="op_kernel2"),
    ],
)
def test_what_is_loaded(other):
    assert loaded(Made().bytes()) != loaded(other.bytes())


def test_bytes_that_are_no_cubin_give_one_error():
    with pytest.raises(CubinError, match="unknown cubin ABI 9"):
        loaded(Made(abi=9).bytes())
    image = Made().bytes()
    for size in range(0, len(image), 7):
        with pytest.raises(CubinError):
            loaded(image[:size])


# --- the gate, and what verify says


def members(tmp_path):
    out = tmp_path / "out"
    found = {f"kernelwright/{path.relative_to(out)}": path.read_bytes() for path in out.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if "/kernels/" in name or name == gates.MANIFEST}


def changed(found, change):
    told = json.loads(found[gates.MANIFEST])
    [row] = [row for row in told["images"] if row["served_by"]]
    change(row)
    return {**found, gates.MANIFEST: json.dumps(told).encode()}


def test_the_gate_compares_what_was_left_out_with_the_file_that_serves(fill, table, tmp_path):
    request, _ = fill()
    found = members(tmp_path)
    gates.images(found, request)
    with pytest.raises(GateError, match=rf"one for {LEFT_OUT} was left out for the image of {SERVING}, which loads"):
        gates.images(changed(found, lambda row: row["served_by"].update(loaded="0" * 64)), request)
    instead = {"code": NEITHER, "compiled": "", "loaded": loaded(found[f"kernelwright/kernels/{NEITHER}/one.cubin"])}
    with pytest.raises(CubinError, match=f"architecture 86, not for {NEITHER}"):
        gates.images(changed(found, lambda row: row.update(served_by=instead)), request)
    with pytest.raises(GateError, match=f"the image of {LEFT_OUT}x, which may not serve"):
        gates.images(changed(found, lambda row: row["served_by"].update(code=LEFT_OUT + "x")), request)
    codes = {name: replace(code, always=True) for name, code in table.codes.items()}
    kept = replace(request, codes=tuple(codes[code.name] for code in request.codes))
    with pytest.raises(GateError, match="which may not serve in its place"):
        gates.images(found, kept)
    gone = {name: data for name, data in found.items() if not name.endswith(f"{SERVING}/one.cubin")}
    with pytest.raises(GateError, match=f"lacks one for {SERVING}"):
        gates.images(gone, request)


def test_verify_says_what_serves(fill, tmp_path):
    fill()
    whole = tiny.sealed(members(tmp_path))
    one, other = (wheels.read(tiny.write(tmp_path / f"{name}.whl", whole)) for name in "ab")
    gone, serving = (f"kernelwright/kernels/{code}/one.cubin" for code in (LEFT_OUT, SERVING))
    assert f"left out   {gone}: what is loaded of it equals {serving}" in list(Verdict(one, other, ()).lines())
    fill(flipped(".text.one_k", 16))
    kept = wheels.read(tiny.write(tmp_path / "c.whl", tiny.sealed(members(tmp_path))))
    told = {difference.member: str(difference) for difference in compare(kept, one)}
    assert told[gone] == f"{gone}: extra: only in the wheel; the other has {serving} in its place"
    assert not any(line.startswith("left out") for line in Verdict(kept, one, ()).lines())


@pytest.mark.parametrize(
    "manifest", [b"", b"[]", b'{"images": 1}', b'{"images": [1]}', b'{"images": [{"served_by": 1}]}']
)
def test_a_manifest_from_anywhere_says_nothing(manifest, tmp_path):
    whole = {gates.MANIFEST: manifest}
    assert wheels.left_out(wheels.read(tiny.write(tmp_path / "x.whl", whole))) == {}
