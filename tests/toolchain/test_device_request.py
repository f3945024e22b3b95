# SPDX-License-Identifier: MIT
"""A request is resolved against the table before anything is compiled, and its label names the bytes."""

from __future__ import annotations

import itertools
import re

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.request import Request, find_ops, label, resolve


@pytest.fixture(scope="module")
def table():
    return targets.load()


@pytest.fixture
def root(tmp_path):
    (tmp_path / "csrc/ops/toy").mkdir(parents=True)
    for stem in ("rms_norm", "swiglu"):
        (tmp_path / f"csrc/ops/toy/{stem}.cu").write_text("")
    return tmp_path


@pytest.fixture
def ask(table, root):
    def call(**options) -> Request:
        return resolve(table, **{"machine": "x86_64", "root": root, **options})

    return call


def names(request):
    return [code.name for code in request.codes]


def test_the_default_is_this_machines_released_target(ask):
    assert ask().target.name == "linux-x86_64"
    assert ask(machine="aarch64").target.name == "linux-aarch64"
    request = ask()
    assert request.toolkit.name == "cu122"
    assert names(request) == ["sm_80", "sm_86", "sm_89", "sm_90a", "compute_90"]
    assert request.ops == ("rms_norm", "swiglu")
    assert request.is_default


@pytest.mark.parametrize(
    ("archs", "expected"),
    [
        ("89;90", ["sm_89", "sm_90"]),
        ("90,89", ["sm_89", "sm_90"]),
        ("sm_89", ["sm_89"]),
        ("8.9 89;", ["sm_89"]),
        ("90a", ["sm_90a"]),
        ("compute_90", ["compute_90"]),
        ("90+ptx", ["sm_90", "compute_90"]),
        ("8.0;9.0+PTX", ["sm_80", "sm_90", "compute_90"]),
    ],
)
def test_archs_are_read_as_people_write_them(ask, archs, expected):
    assert names(ask(archs=archs)) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"archs": "88"}, ["'88'", "sm_89", "compute_90"]),
        ({"archs": "sm_"}, ["'sm_'", "there are"]),
        ({"archs": "1.20", "toolkit": "cu130"}, ["'1.20'", "sm_120"]),
        ({"archs": "9..0"}, ["'9..0'", "sm_90"]),
        ({"archs": "90+foo"}, ["'90+foo'"]),
        ({"archs": "89+ptx"}, ["'89+ptx'", "compute_80"]),
        ({"archs": " ; "}, ["--archs", "names nothing"]),
        ({"archs": "100"}, ["cu122", "12.2", "sm_100", "12.8 or newer", "--toolkit cu128 or cu130"]),
        ({"archs": "70", "toolkit": "cu130"}, ["sm_70", "9.0 to 12.9", "cu122"]),
        ({"toolkit": "cu999"}, ["'cu999'", "cu122"]),
        ({"target": "windows"}, ["'windows'", "linux-x86_64"]),
        ({"machine": "riscv64"}, ["riscv64", "--target", "linux-aarch64"]),
        ({"ops": "rms_norm,flash"}, ["'flash'", "rms_norm, swiglu"]),
        ({"ops": ","}, ["--ops", "names nothing"]),
        ({"provider": "brew"}, ["'brew'", "pip", "system", "auto"]),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(ask, options, words):
    with pytest.raises(RequestError) as caught:
        ask(**options)
    for word in words:
        assert word in str(caught.value)


def test_no_sources_is_refused(table, tmp_path):
    with pytest.raises(RequestError, match="no device source"):
        resolve(table, machine="x86_64", root=tmp_path)


def test_a_toolkit_may_be_named_by_its_release(ask):
    assert ask(toolkit="12.8").toolkit.name == "cu128"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ""),
        ({"archs": "80;86;89;90a;compute_90"}, ""),
        ({"ops": "swiglu,rms_norm"}, ""),
        ({"toolkit": "cu128"}, "cu128"),
        ({"archs": "sm_87"}, "cu122.sm87"),
        ({"archs": "90+ptx", "toolkit": "cu130"}, "cu130.sm90.compute90"),
        ({"ops": "rms_norm"}, "rmsnorm"),
        ({"provider": "system", "debug": True}, "system.debug"),
        ({"target": "l4t-r36"}, "l4tr36"),
        ({"machine": "aarch64", "archs": "87"}, "cu122.sm87"),
    ],
)
def test_labels(ask, options, expected):
    assert label(ask(**options)) == expected
    assert ask(**options).is_default is (expected == "")


def test_no_two_builds_of_one_platform_share_a_name(ask, table):
    """The promise behind the label, over every target, toolkit, provider and a spread of sets."""
    seen: dict[tuple[str, str], tuple] = {}
    for target, toolkit, archs, ops, provider, debug in itertools.product(
        table.targets, table.toolkits, (None, "80", "87", "80;87", "90", "90+ptx", "90a"), (None, "rms_norm"),
        ("pip", "system", "conda"), (False, True),
    ):  # fmt: skip
        try:
            request = ask(target=target, toolkit=toolkit, archs=archs, ops=ops, provider=provider, debug=debug)
        except RequestError:
            continue
        key = (request.target.platform_tag, label(request))
        build = (request.target.name, request.toolkit.name, request.codes, request.ops, provider, debug)
        assert re.fullmatch(r"([a-z0-9]+(\.[a-z0-9]+)*)?", key[1])
        assert seen.setdefault(key, build) == build
    assert len(seen) > 300


def test_an_unpicked_provider_has_no_label(ask):
    with pytest.raises(RequestError, match="auto"):
        label(ask(provider="auto"))


@pytest.fixture
def family(tmp_path):
    """Three operators: one with an image of its own, two that share the family's other two; beside them another family."""
    for name in ("wide/api/linear.h", "wide/api/gated.h", "wide/api/quantize.h", "wide/gemm.cu", "wide/gemv.cu",
                 "wide/quantize.cu", "alone/api/norm.h", "alone/norm.cu"):  # fmt: skip
        (tmp_path / "csrc/ops" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "csrc/ops" / name).write_text("")
    return tmp_path


def test_an_image_may_serve_several_operators_and_an_operator_have_several_images(table, family):
    assert find_ops(family) == {
        "gated": ("gemm", "gemv"),
        "linear": ("gemm", "gemv"),
        "norm": ("norm",),
        "quantize": ("gemm", "gemv", "quantize"),
    }
    everything = resolve(table, machine="x86_64", root=family)
    assert everything.ops == ("gated", "linear", "norm", "quantize")
    assert everything.images == ("gemm", "gemv", "norm", "quantize")
    assert everything.is_default
    one = resolve(table, machine="x86_64", root=family, ops="gated")
    assert (one.ops, one.images, label(one)) == (("gated",), ("gemm", "gemv"), "gated")
    with pytest.raises(RequestError, match=r"op 'gemm' has no csrc/ops/<family>/api/gemm\.h; there are gated, linear"):
        resolve(table, machine="x86_64", root=family, ops="gemm")
