# SPDX-License-Identifier: MIT
"""The Op records themselves, and the torch-free self-check. Nothing here needs torch."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import pytest

import kernelwright
from kernelwright import _library, errors, ops
from kernelwright.ops import _selfcheck
from kernelwright.ops.four_bit import _shared as four_bit
from kernelwright.ops.four_bit._selfcheck import decided

BUILT = _library.load().ops
RECORDS = [ops.record(name) for name in ops.names() if name in BUILT]
_DEFAULTS = {"None": None, "True": True, "False": False}

each = pytest.mark.parametrize("op", RECORDS, ids=lambda op: op.name)


def schema_defaults(schema):
    """Names and defaults of a schema's arguments; inspect.Parameter.empty where there is none."""
    arguments = schema[1 : schema.index(") ->")].split(", ")
    for argument in arguments:
        name, _, default = argument.split(" ")[-1].partition("=")
        yield (
            name,
            _DEFAULTS.get(default, float(default) if default not in {"", *_DEFAULTS} else inspect.Parameter.empty)
            if default
            else inspect.Parameter.empty,
        )


def test_discovery_finds_the_files():
    assert "rms_norm" in ops.names()
    assert set(ops.names()) <= set(dir(kernelwright))
    assert [ops.record(name).name for name in ops.names()] == list(ops.names()), "a record's name is its file's"


def test_a_build_lacks_operators_only_if_its_label_names_those_it_has():
    label = kernelwright.__version__.partition("+")[2].split(".")
    asked = {name for name in ops.names() if re.sub("[^a-z0-9]", "", name) in label}
    assert set(ops.names()) & BUILT == (asked or set(ops.names()))


@each
def test_functions_repeat_the_schema(op):
    """The dispatcher leaves out arguments that equal the schema's defaults: a function that differs would use its own."""
    for overload in op.overloads:
        expected = dict(schema_defaults(overload.schema))
        for function in (overload.fake, overload.reference):
            found = {name: p.default for name, p in inspect.signature(function).parameters.items()}
            assert found == expected, f"{function.__name__} of {op.qualified(overload)}"


@each
def test_overloads_and_cases_fit_together(op):
    names = [overload.name for overload in op.overloads]
    assert len(set(names)) == len(names)
    assert "default" in names
    assert {case.overload for case in op.cases} == set(names), "every overload has cases"
    assert {case.overload for case in op.benchmarks} <= set(names)
    assert {case.dtype for case in op.cases} <= set(op.tolerances)
    ids = [str(case) for case in (*op.cases,)]
    assert len(set(ids)) == len(ids), "a case's name says all about it"
    assert op.doc
    assert "\n" not in op.doc
    assert inspect.getdoc(op.function)
    for overload in op.overloads:
        writes = "!)" in overload.schema
        assert not (writes and overload.backward), (
            "torch registers no gradients for a schema that writes to its arguments"
        )


@each
def test_every_role_is_there(op):
    """Tests of all operators ask for them; one without "aligned" was tested at no edge of its values."""
    for overload in op.overloads:
        assert op.cases_for("small", overload.name)
        kinds = {case.dtype for case in op.cases if case.overload == overload.name}
        assert {case.dtype for case in op.cases_for("aligned", overload.name)} == kinds


def test_a_role_that_is_missing_is_named():
    op = replace(ops.record("rms_norm"), cases=())
    with pytest.raises(
        LookupError, match=r"rms_norm.default has no case with the shape \(3, 33\), which is its role 'small'"
    ):
        op.cases_for("small", "default")


def test_bytes_and_flops_of_a_known_case():
    op = ops.record("rms_norm")
    from kernelwright.ops._record import Case

    assert op.bytes(Case("default", (3, 5), "float16", {"weight": "float32"})) == 2 * 15 * 2 + 5 * 4
    assert op.bytes(Case("residual", (3, 5), "float32", {"weight": None})) == 4 * 15 * 4
    assert op.flops(Case("residual_", (3, 5), "float32", {"weight": "same"})) == 15 * 5


on_cpu = pytest.mark.parametrize("op", [op for op in RECORDS if not op.no_cpu], ids=lambda op: op.name)


@on_cpu
def test_selfcheck_passes(op):
    for _ in range(20):  # new numbers each time
        assert "% of the error allowed" in op.selfcheck(_selfcheck.OnCpu(_library.load()))


@on_cpu
@pytest.mark.parametrize("damage", ["one bit", "nothing done", "NaN"])
def test_selfcheck_notices(op, damage, monkeypatch):
    """A check that cannot fail is none: its C function is replaced by one that is wrong somewhere."""
    library = _library.load()
    real = library.functions[f"kw_{op.name}"]

    def wrong(*args):
        status = 0 if damage == "nothing done" else real(*args)
        buffers = [a for a in args if hasattr(a, "raw")]
        if damage == "one bit":
            place = len(buffers[0]) - 5 * 4 - 3  # within the last row, not in the padding behind it
            buffers[0][place] = bytes([buffers[0].raw[place] ^ 0x10])
        elif damage == "NaN":
            buffers[0][0:4] = b"\xff\xff\xff\xff"
        return status

    monkeypatch.setitem(library.functions, f"kw_{op.name}", wrong)
    with pytest.raises(errors.SelfCheckFailed, match=f"{op.name}, .*: element .* is .* but should be"):
        op.selfcheck(_selfcheck.OnCpu(library))


@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_a_value_on_a_bound_decides_nothing(quant_type):
    """A GPU's reciprocal may be a unit off the CPU's: there a code is right, and so is its neighbour."""
    bounds = four_bit.BOUNDS[quant_type]
    for off in (-(2.0**-23), 0.0, 2.0**-23):
        on = [1.0, *(bound * (1 + off) for bound in bounds)]
        assert decided(on, quant_type) == [1.0] + [0.0] * len(bounds)
    beside = [1.0, *(bound * 1.00001 for bound in bounds)]
    assert decided(beside, quant_type) == beside


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("bfloat16", 1.0 + 2**-8, 1.0),  # a tie goes to even
        ("bfloat16", 1.0 + 3 * 2**-8, 1.0 + 2**-6),
        ("bfloat16", 1.0 + 2**-8 + 2**-16, 1.0 + 2**-7),
        ("float16", 2049.0, 2048.0),
        ("float32", 1.0 + 2**-24, 1.0),
        ("float64", 0.1, 0.1),
    ],
)
def test_rounding_of_the_selfcheck(dtype, value, expected):
    assert _selfcheck.rounded(dtype, [value, -value]) == [expected, -expected]


def test_every_status_has_a_class():
    constants = _library.load().constants
    names = {name for name in constants if name.startswith("KW_ERROR_")}
    classes = {c.status: c for c in errors.KernelwrightError.__subclasses__() if c.status}
    assert set(classes) == names
    for name in names:
        assert errors.of_status(name) is classes[name]
    assert errors.of_status("KW_ERROR_OF_TOMORROW") is errors.KernelwrightError
    documented = [c for c in vars(errors).values() if isinstance(c, type)]
    assert all(issubclass(c, errors.KernelwrightError) and c.__doc__ for c in documented)


def test_failures_of_the_library_have_its_words():
    library = _library.load()
    with pytest.raises(errors.InvalidArgument, match=r"kw_set_option: .*no_such_option"):
        library.call("kw_set_option", b"no_such_option", b"")
    with pytest.raises(ValueError, match="kw_rms_norm: cols is 0"):
        library.call("kw_rms_norm", -1, None, None, 0, None, 0, None, 0, None, 0, None, None, 1, 0, 0, 0, 0.0)
    with pytest.raises(Exception, match="argument") as caught:  # ctypes checks numbers and types
        library.call("kw_set_num_threads", "two")
    assert re.search("ArgumentError|TypeError", repr(caught.value))
