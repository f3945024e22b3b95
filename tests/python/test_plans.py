# SPDX-License-Identifier: MIT
"""What the launchers of the norms plan and what the images hold: the same kernels, in every image of the wheel. And
what a launch cannot hold."""

from __future__ import annotations

import re

import pytest

from kernelwright import _files
from tests.python import standin
from tests.python.support import WITHOUT_TORCH, run

OPS = ("layer_norm", "rms_norm")

# Every kind of call of an operator's C functions, on addresses that nobody reads: the driver runs no kernel.
CALLS = """
import itertools, random, sys
from kernelwright import _library

op, seed = sys.argv[1], int(sys.argv[2])
library, chance, layer = _library.load(), random.Random(seed), op == "layer_norm"
place = [(i + 1) << 48 for i in range(12)]
widths = [*range(1, 70), *(1 << i for i in range(7, 17)), *(chance.randrange(129, 512) for _ in range(30))]
widths += [chance.randrange(1, 65537) for _ in range(50)]
widths += [chance.randrange(1, high // 16 + 1) * 16 for high in (512, 4096, 16384, 32768, 65536) for _ in range(20)]
for cols, dtype, rows in itertools.product(widths, range(3), (1, 100, 1 << 20)):
    size = 2 if dtype else 4
    for off, gap, add in itertools.product((0, size), (0, 1, 16), (False, True)):
        y, s, x, r, weight, bias, mean, rstd, *_ = place
        pitch = cols + gap
        residual = (s, pitch, x + off, pitch, r, pitch) if add else (None, 0, x + off, pitch, None, 0)
        given = (y, pitch, *residual, weight, *((bias, None) if layer else ()), rstd)
        library.call(f"kw_{op}", 0, None, *given, rows, cols, dtype, dtype, 1e-6)
        if gap > 1:
            continue
        dx, dweight, dbias, dy, h, weight, mean, rstd, workspace, *_ = place
        dsum = (r, pitch) if add else (None, 0)
        given = (dx, pitch, dweight, *((dbias,) if layer else ()), dy, pitch, *dsum, h + off, pitch, weight)
        given += (*((mean,) if layer else ()), rstd, workspace, 1 << 46)
        for weight_dtype in {dtype, 0}:
            library.call(f"kw_{op}_backward", 0, None, *given, rows, cols, dtype, weight_dtype, 1e-6)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return str(standin.build(tmp_path_factory.mktemp("standin")))


def images():
    return [image for image in _files.read(_files.MANIFEST)["images"] if image["op"] in OPS]


@pytest.mark.parametrize("image", images(), ids=lambda image: f"{image['op']}-{image['code']}")
def test_plans_and_images_name_the_same_kernels(image, driver, tmp_path, seed):
    """No call asks for a kernel that its image lacks, and none lies in the wheel that no call asks for."""
    capability = _files.read(_files.TARGETS)["codes"][image["code"]]["runs_on"][0]
    record = tmp_path / "record"
    settings = {"LD_LIBRARY_PATH": driver, "KW_STANDIN_RECORD": str(record), "KW_STANDIN_DEVICES": capability}
    done = run(WITHOUT_TORCH + CALLS, image["op"], str(seed), KERNELWRIGHT_ARCH=image["code"], **settings)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    asked = set(re.findall(r"^cuKernelGetFunction (\w+) ", record.read_text(), re.MULTILINE))
    assert asked == {kernel["name"] for kernel in image["kernels"]}, f"seed {seed}"


# On addresses that nobody reads, as above.
ENDS = """
import sys
from kernelwright import _library, errors

library = _library.load()
place = [(i + 1) << 48 for i in range(12)]

def norm(op, rows, cols, dweight=None):
    y, x, r, dy, *_ = place
    layer = op == "layer_norm"
    rest = (rows, cols, 2, 2, 1e-6)
    library.call(f"kw_{op}", 0, None, y, cols, None, 0, x, cols, None, 0, None, *[None] * (1 + 2 * layer), *rest)
    given = (y, cols, dweight, *[dweight] * layer, dy, cols, None, 0, x, cols, None, *[None] * (1 + layer))
    library.call(f"kw_{op}_backward", 0, None, *given, place[9], 1 << 46, *rest)

def refused(op, *sizes):
    try:
        norm(op, *sizes)
    except errors.Unsupported as error:
        assert "Split the rows" in str(error), error
    else:
        raise SystemExit(f"{op}: {sizes} was taken")

for op in ("rms_norm", "layer_norm"):
    norm(op, 0, 64)
    norm(op, 0, 64, dweight=place[8])
    refused(op, 1 << 41, 65536)
y, gate, up, *_ = place
for rows, cols in ((1 << 17, 1 << 18), (3, 1 << 33), (1, (1 << 35) + 6)):
    # Gaps between rows, so that they stay rows.
    library.call("kw_swiglu", 0, None, y, cols + 16, gate, cols + 16, up, cols + 16, rows, cols, 2)
"""


def test_what_a_launch_cannot_hold(driver, tmp_path):
    """No rows are no launch, but sums over them, which are zero. Too many rows of a norm are refused; of swiglu, each
    half is launched by itself."""
    record = tmp_path / "record"
    settings = {"LD_LIBRARY_PATH": driver, "KW_STANDIN_RECORD": str(record), "KW_STANDIN_DEVICES": "9.0"}
    done = run(WITHOUT_TORCH + ENDS, **settings)
    assert done.returncode == 0, done.stderr
    launches = re.findall(r"^cuLaunchKernelEx (\w+) .* grid=(\d+) block=256 ", record.read_text(), re.MULTILINE)
    assert [kernel for kernel, _ in launches[:2]] == ["rms_norm_reduce_partials", "layer_norm_reduce_partials"]
    most = 1 << 21  # blocks of 256 threads, of which each has two units: half of what a launch holds
    assert launches[2:] == [
        *[("swiglu_rows_bfloat16", str(most))] * 4,
        *[("swiglu_flat_bfloat16", str(most))] * 3,  # one row a launch
        *[("swiglu_flat_bfloat16", str(most))] * 3,
        ("swiglu_flat_bfloat16", str(most + 1)),
    ]
