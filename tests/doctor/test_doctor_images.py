# SPDX-License-Identifier: MIT
"""Which image a GPU gets, as the report says it: the same choice as the library's, told without it."""

from __future__ import annotations

import ctypes

import pytest

from kernelwright import _files, _library, errors
from kernelwright.doctor.checks import package
from tests.doctor.made_up import WORKSTATION


def test_what_a_gpu_gets(monkeypatch):
    """Its own code first, then its family's, then PTX."""
    codes = _files.read(_files.TARGETS)["codes"]
    monkeypatch.setattr(
        package, "_images", lambda: [{"code": name} for name in ("sm_80", "sm_86", "sm_90a", "compute_90")]
    )
    assert package.served(86) == ("sm_86", "cubin")
    assert package.served(89) == ("sm_86", "cubin")
    assert package.served(87) == ("sm_80", "cubin")
    assert package.served(90) == ("sm_90a", "cubin")
    assert package.served(100) == ("compute_90", "ptx")
    assert package.served(75) is None
    assert "sm_75" in codes


def test_whose_files_an_image_lies_in(monkeypatch):
    """One that a wheel leaves out for an equal one is the GPU's own all the same; the report says where it is."""
    by = {"code": "sm_86"}
    rows = [{"code": "sm_86"}, {"code": "sm_89", "served_by": by}, {"code": "sm_89", "served_by": by}]
    monkeypatch.setattr(package, "_images", lambda: rows)
    assert package.served(89) == ("sm_89", "cubin")
    assert package.why(89) == "its own code, equal to that of sm_86 and in its files"
    assert package.why(86) == "its own code"
    rows[1] = {"code": "sm_89", "served_by": None}
    assert package.why(89) == "its own code for 1 of 2 operators, equal to that of sm_86 and in its files"


CAPABILITIES = (35, 70, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121, 130)


def test_every_operator_has_an_image():
    """Also one whose kernels lie in an image that its family shares."""
    library = _library.load()
    told = {op: librarys_choice(library, 90, op) for op in library.ops}
    assert set(told.values()) == {"sm_90a"}, told


def test_the_choice_is_the_librarys():
    library = _library.load()
    for capability in CAPABILITIES:
        assert (package.served(capability) or (None,))[0] == librarys_choice(library, capability), capability


def librarys_choice(library, capability, op="rms_norm"):
    image = ctypes.c_char_p()
    try:
        library.call("kw_image_for", op.encode(), capability, ctypes.byref(image))
    except (errors.NoImage, errors.Unsupported):
        return None
    return image.value.decode()


@pytest.mark.parametrize("asked", ["sm_80", "sm_87", "sm_90a", "compute_90", "sm_1", "fast"])
def test_an_image_asked_for_by_name(tmp_path, asked):
    """As with KERNELWRIGHT_ARCH: the report says what the library takes, and that it was asked for."""
    machine = WORKSTATION.but(variables={"KERNELWRIGHT_ARCH": asked}).at(tmp_path)
    library = _library.load()
    library.call("kw_set_option", b"arch", asked.encode())
    try:
        for capability in CAPABILITIES:
            code, _, why = package.chosen(machine, capability)
            assert code == librarys_choice(library, capability), capability
            assert why.startswith(f"KERNELWRIGHT_ARCH={asked}")
    finally:
        library.call("kw_set_option", b"arch", b"")
