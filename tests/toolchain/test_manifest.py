# SPDX-License-Identifier: MIT
"""The files that describe a build say what the images say, in the form that docs/architecture.md promises."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess

import pytest
from device_support import FakeCompiler, tree

from kernelwright_toolchain import manifest
from kernelwright_toolchain.device import build_images
from kernelwright_toolchain.errors import RequestError, TableError
from kernelwright_toolchain.request import resolve
from tests.tree import ROOT


@pytest.fixture
def root(tmp_path):
    place = tree(tmp_path / "root", rms_norm="int a;", other="int b;")
    (place / "pyproject.toml").write_text('[build-system]\nversion = "9"\n[project]\nname = "x"\nversion = "1.2.3"\n')
    return place


@pytest.fixture
def make(table, root, tmp_path):
    def call(**options):
        request = resolve(table, **{"machine": "x86_64", "root": root, "archs": "90a;80;compute_90", **options})
        compiler = FakeCompiler()
        return request, compiler, build_images(request, compiler, root=root, cache_at=tmp_path / "cache")

    return call


def test_manifest(make):
    request, compiler, built = make()
    text = manifest.manifest(request, compiler, "1.2.3+x", built.images).decode()
    found = json.loads(text)
    assert text == json.dumps(found, indent=2, sort_keys=True) + "\n"
    images = found.pop("images")
    assert found == {
        "schema": 1,
        "project": "kernelwright",
        "version": "1.2.3+x",
        "target": "linux-x86_64",
        "toolkit": "cu122",
        "provider": "pip",
        "debug": False,
        "compiler": {"driver": "fake", "version": "12.2.140"},
    }
    assert [image["path"] for image in images] == [
        f"kernels/{name}"
        for op in ("other", "rms_norm")
        for name in (f"sm_80/{op}.cubin", f"sm_90a/{op}.cubin", f"compute_90/{op}.ptx")
    ]
    data = built.images[4].data
    assert images[4] == {
        "path": "kernels/sm_90a/rms_norm.cubin",
        "op": "rms_norm",
        "code": "sm_90a",
        "kind": "cubin",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "served_by": None,
        "kernels": [
            {
                "name": "rms_norm_k",
                "registers": 40,
                "shared": 0,
                "stack": 0,
                "constant": 360,
                "spill_stores": 0,
                "spill_loads": 0,
                "max_threads": 256,
            }
        ],
    }
    ptx = images[5]["kernels"][0]
    assert (ptx["name"], ptx["max_threads"], ptx["registers"], ptx["spill_loads"]) == ("rms_norm_k", 0, None, None)
    assert set(ptx) == set(images[4]["kernels"][0])


def test_version_is_the_projects_with_the_label(make, root):
    assert manifest.build_version(root, make(archs=None)[0]) == "1.2.3"
    assert manifest.build_version(root, make()[0]) == "1.2.3+cu122.sm80.sm90a.compute90"
    assert manifest.build_version(root, make()[0], "") == "1.2.3"
    assert manifest.build_version(root, make()[0], "mine") == "1.2.3+mine"
    with pytest.raises(RequestError, match="not a PEP 440"):
        manifest.build_version(root, make()[0], 'a"b')
    (root / "pyproject.toml").write_text('[project]\nname = "x"\n[tool]\nversion = "9"\n')
    with pytest.raises(TableError, match="names no version"):
        manifest.build_version(root, make()[0])


def test_version_of_this_tree(make):
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest.build_version(ROOT, make()[0], ""))


def test_images_inc_lines(make, table):
    request, _, built = make()
    text = manifest.images_inc(request, table, "1.2.3", built.images).decode()
    lines = [line for line in text.splitlines() if line.startswith("KW_IMAGE(")]
    assert len(lines) == 6
    bf16 = "KW_FEATURE_BF16_CVT | KW_FEATURE_BF16_MMA | "
    size, digest = len(built.images[3].data), built.images[3].sha256
    assert lines[3] == (
        f'KW_IMAGE("rms_norm", "sm_80", KW_IMAGE_CUBIN, "8.0 8.6 8.7 8.9", {bf16}KW_FEATURE_CP_ASYNC | '
        f'KW_FEATURE_INT8_MMA | KW_FEATURE_LDMATRIX, "sm_80", "8.0", {size}, "{digest}")'
    )
    assert lines[5].startswith('KW_IMAGE("rms_norm", "compute_90", KW_IMAGE_PTX, "9.0", ')
    assert "KW_FEATURE_WGMMA" in lines[4]
    assert "KW_FEATURE_WGMMA" not in lines[5]


def test_a_code_without_features_has_none(make, table):
    request, _, built = make(archs="70")
    assert '"7.0", 0, ' in manifest.images_inc(request, table, "1", built.images).decode()


PROGRAM = r"""
#include <stdio.h>
#include "kw_images.inc"
#include "kw_images.inc"
enum { KW_IMAGE_CUBIN, KW_IMAGE_PTX };
#define KW_IMAGE(op, code, kind, runs_on, features, file, made_for, size, sha256) \
  printf("%s|%s|%d|%s|%u|%s|%s|%d|%s\n", op, code, (int)kind, runs_on, (unsigned)(features), file, made_for, (int)size, sha256);
int main(void) {
  printf("%s|%s|%d|%s\n", KW_BUILD_VERSION, KW_BUILD_TOOLKIT, KW_BUILD_DRIVER_CUDA, KW_BUILD_DRIVER_LINUX);
#include "kw_images.inc"
  return 0;
}
"""


def test_images_inc_means_to_a_compiler_what_the_manifest_says(make, table, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no C compiler on PATH")
    request, driver, built = make()
    (tmp_path / "kw_images.inc").write_bytes(manifest.images_inc(request, table, "1.2.3", built.images))
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run([compiler, "-Wall", "-Werror", "-o", "main", "main.c"], cwd=tmp_path, check=True)
    said = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0] == "1.2.3|cu122|12020|535.54.03"
    features = table.features()
    images = json.loads(manifest.manifest(request, driver, "1.2.3", built.images))["images"]
    for line, image in zip(said[1:], images, strict=True):
        code = next(code for code in request.codes if code.name == image["code"])
        bits = sum(1 << features.index(name) for name in code.features)
        kind = {"cubin": 0, "ptx": 1}[code.kind]
        runs_on = " ".join(map(str, code.runs_on))
        file = f"{code.name}|{code.native}|{image['size']}|{image['sha256']}"
        assert line == f"{image['op']}|{code.name}|{kind}|{runs_on}|{bits}|{file}"


def test_targets_json_has_what_loader_and_diagnosis_need(table):
    found = json.loads(manifest.targets_json(table))
    assert list(found["codes"]) == list(table.codes)
    assert found["codes"]["sm_87"] == {
        "kind": "cubin",
        "runs_on": ["8.7"],
        "features": ["ldmatrix", "int8_mma", "bf16_cvt", "bf16_mma", "cp_async"],
        "boards": ["Jetson AGX Orin", "Jetson Orin NX", "Jetson Orin Nano"],
        "toolkits": {"first": "11.4", "last": None},
    }
    assert found["codes"]["sm_70"]["toolkits"]["last"] == "12.9"
    assert found["toolkits"]["cu122"] == {
        "release": "12.2",
        "driver": {"cuda": "12.2", "linux": "535.54.03"},
        "ptx": "8.2",
        "gcc": {"min": 6, "max": 12},
    }
    assert found["targets"]["l4t-r36"]["codes"] == ["sm_87"]
    assert found["targets"]["l4t-r36"]["system"] == {"glibc": "2.35", "cuda": "12.2", "userland": "tegra"}
    assert found["targets"]["linux-aarch64"]["system"] is None


def test_report_says_what_the_build_took(make):
    request, _, built = make()
    found = json.loads(manifest.report(built, request))
    assert [image["cached"] for image in found["images"]] == [False] * 6
    assert found["images"][0]["peak"] == 1 << 20
    assert found["images"][0]["seconds"] == 0.1
    assert "6 images" in found["jobs"]
    assert [image["cached"] for image in json.loads(manifest.report(make()[2], request))["images"]] == [True] * 6
