# SPDX-License-Identifier: MIT
"""The runs of operators on GPUs: how memory gets there and back, and what the report makes of every end they can have.

tests/emulator/test_doctor.py runs the real kernels in the whole program.
"""

from __future__ import annotations

import ctypes
import json

import pytest

from kernelwright import _library, errors, ops
from kernelwright.doctor.html.report import report
from kernelwright.doctor.machine import _probes
from kernelwright.doctor.operators import _child
from kernelwright.doctor.operators._gpu import Driver, OnGpu
from kernelwright.doctor.operators._run import Busy, run
from kernelwright.doctor.report.command import exit_code
from kernelwright.doctor.report.facts import gather
from kernelwright.doctor.report.text import lines
from tests.doctor.made_up import WORKSTATION


class HostMemory(Driver):
    """A driver whose GPU's memory is this process's: what runs there is the CPU's path. `refuses`: name to code."""

    def __init__(self, **refuses: int) -> None:
        self.kept: dict[int, object] = {}
        self.refuses = refuses
        self._functions = {
            "cuMemAlloc_v2": self.allocate,
            "cuMemFree_v2": self.free,
            "cuMemcpyHtoD_v2": lambda to, source, size: ctypes.memmove(to.value, source, size.value) and 0,
            "cuMemcpyDtoH_v2": lambda to, source, size: ctypes.memmove(to, source.value, size.value) and 0,
            "cuCtxSynchronize": lambda: refuses.get("cuCtxSynchronize", 0),
            "cuGetErrorName": self.name_error,
        }

    def allocate(self, address, size):
        room = ctypes.create_string_buffer(size.value + 256)
        address._obj.value = ctypes.addressof(room) + -ctypes.addressof(room) % 256
        self.kept[address._obj.value] = room
        return self.refuses.get("cuMemAlloc_v2", 0)

    def free(self, address):
        del self.kept[address.value]
        return 0

    def name_error(self, _, text):
        text._obj.value = b"CUDA_ERROR_OF_TESTS"
        return 0

    def enter(self, ordinal):
        """There is one context."""


def on_gpu(driver):
    """Operators there, whose kernels are the CPU's path."""
    return lambda library: OnGpu(library, driver, library.constants["KW_CPU"])


each = pytest.mark.parametrize("name", ops.names())


@each
def test_memory_there_and_back(name):
    driver = HostMemory()
    for _ in range(5):
        assert "% of the error allowed" in run(name, on_gpu(driver))["right"]
    assert not driver.kept, "memory was not freed"


@each
@pytest.mark.parametrize("damage", ["nothing done", "a byte before"])
def test_a_kernel_that_is_wrong(name, damage, monkeypatch):
    library = _library.load()
    real = library.functions[f"kw_{name}"]

    def wrong(*arguments):
        if damage == "nothing done":
            return 0
        status = real(*arguments)
        ctypes.memset(arguments[2] - 1, 0, 1)  # the first buffer comes after the device and the stream
        return status

    monkeypatch.setitem(library.functions, f"kw_{name}", wrong)
    ran = run(name, on_gpu(HostMemory()))
    assert ran["own"]
    assert ("but should be" if damage == "nothing done" else "in none of its buffers") in ran["error"]


class MadeUp:
    """A library of one function."""

    def __init__(self, function) -> None:
        self.constants: dict[str, int] = {}
        self.functions = {"f": function}

    def refusal(self, function, status):
        return errors.of_status("KW_ERROR_OUT_OF_MEMORY" if status == 11 else "KW_ERROR_CUDA")(f"{function}: {status}")


def test_what_a_call_gets():
    """Buffers as addresses, each its own and where an allocation would begin; the rest as it is; what is written comes back."""
    seen = []

    def function(*arguments):
        seen.extend(arguments)
        assert ctypes.string_at(arguments[1], 3) == b"abc"
        ctypes.memmove(arguments[3], b"new", 3)
        return 0

    buffers = [ctypes.create_string_buffer(value, len(value)) for value in (b"abc", b"", b"old" * 200)]
    OnGpu(MadeUp(function), HostMemory(), 5).call("f", 5, *buffers, None, 0.5)
    assert seen[0] == 5
    assert seen[4:] == [None, 0.5]
    assert len({address // 256 for address in seen[1:4]}) == 3
    assert all(address % 256 == 0 for address in seen[1:4])
    assert [buffer.raw for buffer in buffers] == [b"abc", b"", b"new" + b"old" * 199]


@pytest.mark.parametrize(("at", "behind"), [(300, 1), (-1, 0), (-256, 0), (555, 1)])
def test_a_write_outside(at, behind):
    first, second = (ctypes.create_string_buffer(size) for size in (3, 300))
    stray = MadeUp(lambda _, address: ctypes.memset(address + at, 0, 1) and 0)
    with pytest.raises(errors.SelfCheckFailed, match=f"^f: memory that is in none .* behind number {behind + 1}$"):
        OnGpu(stray, HostMemory(), 0).call("f", first, second)


@pytest.mark.parametrize("refuses", [{"cuMemAlloc_v2": 2}, {"cuCtxSynchronize": 46}])
def test_a_gpu_that_others_use(refuses):
    with pytest.raises(Busy):
        run(ops.names()[0], on_gpu(HostMemory(**refuses)))
    with pytest.raises(Busy):
        OnGpu(MadeUp(lambda *_: 11), HostMemory(), 0).call("f")


def test_a_kernel_that_fails_while_it_runs():
    ran = run(ops.names()[0], on_gpu(HostMemory(cuCtxSynchronize=700)))
    assert ran["error"] == "CudaError: cuCtxSynchronize returned 700 (CUDA_ERROR_OF_TESTS)"
    assert not ran["own"]


def child_on(monkeypatch, capsys, **refuses):
    """What the child process prints last on a machine with two GPUs of a kind and one of another."""
    driver = HostMemory(**refuses)
    monkeypatch.setattr(_child, "Driver", lambda: driver)
    monkeypatch.setattr(_child, "OnGpu", lambda library, driver, _: OnGpu(library, driver, library.constants["KW_CPU"]))
    answers = {"kw_device_count": lambda: 3, "kw_device_capability": (90, 90, 35).__getitem__}
    monkeypatch.setattr(_child, "_asked", lambda _, function, *arguments: answers[function](*arguments))
    _child.main()
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["running"] for each in said[:2]] == ["a context on GPU 0", f"{ops.names()[0]} on GPU 0"]
    assert said[-1].pop("running") is None
    return said[-1]


def test_the_child_runs_all_on_one_of_each_kind(monkeypatch, capsys):
    gpus = child_on(monkeypatch, capsys)["gpus"]
    assert [(gpu["ordinal"], gpu["capability"]) for gpu in gpus] == [(0, 90), (2, 35)]
    for gpu in gpus:
        assert [each["name"] for each in gpu["operators"] if "right" in each] == list(ops.names())


def test_the_child_stops_where_the_gpu_is_of_no_more_use(monkeypatch, capsys):
    gpu, _ = child_on(monkeypatch, capsys, cuCtxSynchronize=700)["gpus"]
    assert [each["name"] for each in gpu["operators"]] == [ops.names()[0]]
    assert gpu["untried"].startswith(f"{ops.names()[0]} left the GPU in a state")


def test_the_child_where_others_use_the_gpu(monkeypatch, capsys):
    answer = child_on(monkeypatch, capsys, cuMemAlloc_v2=2)
    assert [(gpu["operators"], gpu["untried"]) for gpu in answer["gpus"]] == [
        ([], "its memory is used up by other processes")
    ] * 2
    assert "error" not in answer


# What a child process said in the end, and what the report says then.
ENDS = {
    "all is well": (
        {"gpus": [{"ordinal": 0, "operators": [{"name": "a", "right": "1 %"}]}]},
        "a            ok, on GPU 0\n",
        True,
    ),
    "wrong": (
        {"gpus": [{"ordinal": 1, "operators": [{"name": "a", "error": "b"}], "untried": "c"}]},
        "FAILED a: on GPU 1: b",
        False,
    ),
    "stopped": ({"gpus": [{"ordinal": 1, "operators": [], "untried": "in use"}]}, "were not all run: in use", True),
    "no driver": ({"gpus": [], "untried": "no driver"}, "were not run on a GPU: no driver", True),
    "refused": ({"gpus": [], "error": "too old"}, "FAILED operators: on GPUs: too old", False),
    "hung": (
        {"error": "no answer within 5 s", "hung": True, "before": {"gpus": [], "running": "a on GPU 0"}},
        "FAILED operators: on GPUs: no answer within 5 s; it was at: a on GPU 0",
        False,
    ),
    "hung at once": ({"error": "no answer", "hung": True}, "FAILED operators: on GPUs: no answer", False),
    "compiling": (
        {"error": "no answer", "hung": True, "before": {"gpus": [], "running": "a on GPU 0", "compiles": True}},
        "were not run on a GPU: the driver was still compiling for a on GPU 0",
        True,
    ),
    "crashed": (
        {"error": "signal 11", "crashed": True, "before": {"gpus": [], "running": "a", "compiles": True}},
        "FAILED operators: on GPUs: signal 11; it was at: a",
        False,
    ),
    "left early": (  # as a driver may, by exit()
        {"gpus": [{"ordinal": 0, "operators": [{"name": "a", "right": "1 %"}]}], "running": "b on GPU 0"},
        "FAILED operators: on GPUs: the child process ended before it was done; it was at: b on GPU 0",
        False,
    ),
    "no process": ({"error": "no child process", "unasked": True}, "were not run on a GPU: no child process", True),
    "no word": ({"error": "exit code 1 and no word"}, "FAILED operators: on GPUs: exit code 1 and no word", False),
}


@pytest.mark.parametrize("kind", ENDS)
def test_what_the_report_says(tmp_path, kind):
    said, words, success = ENDS[kind]
    told = gather(WORKSTATION.but(operators=said).at(tmp_path))
    printed = "\n".join(lines(told))
    assert words in printed
    assert (told["success"], exit_code(told)) == (success, 0 if success else 1)
    assert printed.endswith("SUCCESS" if success else "FAILED")
    page = report(told)
    assert success or words.removeprefix("FAILED ").partition(": ")[2] in page
    assert ("FAILED: 1 of the checks" in page) is not success


def test_of_itself_alone_no_gpu_is_asked(tmp_path):
    made = WORKSTATION.at(tmp_path)
    made.probe = pytest.fail
    assert "operators_on_gpus" not in gather(made, only_self=True)


LAST_WORDS = """
import json, sys, time
print(json.dumps({"running": "first"}), flush=True)
print(json.dumps({"running": "second"}), flush=True)
print('{"running": "thi', end="", flush=True)
"""


@pytest.mark.parametrize(("end", "kind"), [("time.sleep(60)", "hung"), ("import os; os.abort()", "crashed")])
def test_the_last_words_of_a_child(monkeypatch, end, kind):
    monkeypatch.setitem(_probes._PROGRAMS, "operators", LAST_WORDS + end)
    told = _probes.Probes({"operators": 5.0})("operators")
    assert told[kind]
    assert told["before"] == {"running": "second"}
