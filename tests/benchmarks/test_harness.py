# SPDX-License-Identifier: MIT
"""The benchmarks measure what they say: which cases, what counts as wrong, what a goal asks. No figure is held to anything here."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("kernelwright", reason="the kernelwright wheel is not installed here")

from benchmarks import run
from benchmarks.harness import goals, record, report
from kernelwright import ops
from kernelwright.bench.harness.check import WrongResult, check, expected
from kernelwright.bench.harness.contestants import contestants, peers
from kernelwright.bench.harness.measure import Result, measure
from kernelwright.bench.harness.subject import Subject, choose

ROOT = Path(__file__).resolve().parents[2]
RECORDS = [ops.record(name) for name in ops.names()]


@pytest.fixture(autouse=True, scope="module")
def _operators():
    ops.register()


def small(op, case):
    """The benchmark case with fewer rows and columns of the same kind, or, where shapes are no matrix', a small one."""
    if len(op.roles["aligned"]) != 2:
        return Subject(op, op.cases_for("aligned", case.overload, case.dtype)[0])
    return Subject(op, dataclasses.replace(case, shape=(5, 64)))


EACH = [
    pytest.param(op, next(c for c in op.benchmarks if (c.overload, c.dtype) == pair), id=f"{op.name}-{'-'.join(pair)}")
    for op in RECORDS
    for pair in dict.fromkeys((c.overload, c.dtype) for c in op.benchmarks)
]


def arguments(subject, seed=0):
    return subject.op.make(subject.case, "cpu", torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("op", "case"), EACH)
def test_every_contestant_computes_the_same(op, case):
    """What the records give as torch eager included: it is what users compare with."""
    subject = small(op, case)
    given = arguments(subject)
    before = [a.clone() if isinstance(a, torch.Tensor) else a for a in given]
    known, _ = contestants(subject, "cpu", lambda name: name != "compile")
    assert {"kernelwright", "eager"} <= set(known)
    for name, prepare in known.items():
        check(subject, name, prepare, given, expected(subject, given))
    for a, b in zip(given, before, strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_what_is_allowed_is_not_computed_in_the_type_of_the_result():
    """The sum of so many squares is infinite in float16."""
    op = ops.record("dequantize_4bit")
    case = next(c for c in op.benchmarks if (c.overload, c.dtype) == ("default", "float16"))
    subject = Subject(op, dataclasses.replace(case, shape=(1024, 1024)))
    given = arguments(subject)
    right = expected(subject, given)
    assert right[0].dtype == torch.float16
    assert right[0].square().sum().isinf()
    check(subject, "eager", contestants(subject, "cpu", "eager".__eq__)[0]["eager"], given, right)


@pytest.mark.parametrize("damage", ["an element", "nothing written", "a row", "NaN", "shape"])
def test_a_wrong_result_is_noticed(damage):
    op = ops.record("rms_norm")
    subject = small(op, next(c for c in op.benchmarks if c.overload == "default"))
    given = arguments(subject)
    right = expected(subject, given)

    def prepare(*args):
        def call():
            if damage == "nothing written":
                return torch.empty_like(args[0]).fill_(math.nan)
            y = subject.target()(*args)
            if damage == "an element":
                y[3, 7] += 0.01 * y[3, 7].abs() + 0.01
            elif damage == "a row":
                y[4] = 0
            elif damage == "NaN":
                y[0, 0] = math.nan
            return y[:3] if damage == "shape" else y

        return call

    with pytest.raises(WrongResult, match="rms_norm/default-5x64"):
        check(subject, "kernelwright", prepare, given, right)


def test_an_output_that_is_not_written_holds_nan_and_not_the_last_result():
    op = ops.record("rms_norm")
    subject = small(op, next(c for c in op.benchmarks if (c.overload, c.dtype) == ("residual_", "float32")))
    given = arguments(subject)
    seen = []

    def prepare(x, residual, weight, eps):
        def call():
            y = subject.target()(x, residual, weight, eps) if not seen else torch.empty_like(x)
            seen.append(y)
            return y

        return call

    with pytest.raises(WrongResult):
        check(subject, "kernelwright", prepare, given, expected(subject, given))


def result(ours, **others):
    op = ops.record("rms_norm")
    case = dataclasses.replace(op.benchmarks[0], shape=(16384, 8192), dtype="bfloat16")
    return Result(Subject(op, case), {"kernelwright": ours, **others}, limit=100.0)


GPU = SimpleNamespace(kind="cuda", name="NVIDIA H200")


def test_goals_are_missed_and_met():
    assert goals.missed(result(105.0, compile=105.0, eager=400.0), GPU) == []
    assert goals.missed(result(110.0, compile=105.0), GPU) == ["limit 92%", "0.98x compile"]
    assert goals.missed(result(110.0), GPU) == ["limit 92%"], "a peer that did not run asks nothing"
    cpu = SimpleNamespace(kind="cpu", name="cpu avx2")
    assert goals.missed(result(110.0, compile=1.0, eager=109.0), cpu) == ["1x eager"]


def test_the_best_peer_is_the_fastest_that_ran():
    goal = goals.Goal({"on": "cuda"}, {"best": 1.15})
    assert goal.missed(result(100.0, compile=200.0, liger=110.0, copy=1.0)) == ["1.15x liger"]
    assert goal.missed(result(100.0, compile=115.0, copy=1.0)) == []
    assert goal.missed(result(100.0, copy=1.0)) == []


def test_every_goal_is_about_some_case_and_asks_what_there_is():
    families = ops.families()
    names = {"limit", "us", "best", "eager", "compile", *(name for op in RECORDS for name in peers(op.name))}
    asked = [(name, goal) for name in set(families.values()) for goal in goals.read(name)]
    for family, goal in asked:
        cases = [Subject(op, case) for op in RECORDS if families[op.name] == family for case in op.benchmarks]
        assert set(goal.asks) <= names
        assert goal.asks
        device = SimpleNamespace(kind=goal.where["on"], name=goal.where.get("device", "any").replace("*", ""))
        assert any(goal.about(Result(subject), device) for subject in cases), goal


def test_cases_are_chosen_by_operator_and_glob():
    every = choose(None, ["*"], quick=False)
    assert {s.op.name for s in every} == {op.name for op in RECORDS if op.benchmarks}
    one = choose(["rms_norm"], ["default-1x4096-*"], quick=False)
    assert {s.case.overload for s in one} == {"default"}
    assert {s.case.shape for s in one} == {(1, 4096)}
    quick = choose(["rms_norm"], ["*"], quick=True)
    assert {s.case.overload for s in quick} == {c.overload for c in ops.record("rms_norm").benchmarks}
    assert len(quick) == 2 * len({s.case.overload for s in quick})
    with pytest.raises(SystemExit, match=r"no operator 'nothing'; there are .*rms_norm"):
        choose(["nothing"], ["*"], quick=False)
    with pytest.raises(SystemExit, match="no case matches 'nothing'; names are like "):
        choose(["rms_norm"], ["nothing"], quick=False)


class Clock:
    """Calls everybody once a round and says how long a row of ones would have taken."""

    kind, name, sets = "cpu", "a clock", staticmethod(lambda _: 3)
    calls = staticmethod(lambda _bytes, _flops: 11)  # at least: whole rounds of the sets are 12

    def __init__(self, memory=1 << 40):
        self.memory, self.clean = lambda: memory, lambda: None

    @staticmethod
    def copy(bytes_, sets):
        return [lambda: torch.ones(bytes_ // 8).clone()] * sets

    @staticmethod
    def times(entries, _rounds):
        calls = {name: prepare() for name, prepare in entries.items()}
        assert {len(c) for c in calls.values()} == {12}, "everybody makes as many calls"
        for each in calls.values():
            for call in each:
                call()
        return {name: 10.0 + index for index, name in enumerate(calls)}, {"liger": "not enough memory"}


def test_a_case_is_measured_and_recorded():
    op = ops.record("rms_norm")
    subject = small(op, op.benchmarks[0])
    found = measure(subject, Clock(), lambda name: name == "eager", quick=True)
    assert found.us == {"kernelwright": 10.0, "eager": 11.0, "copy": 12.0}
    assert found.limit == 12.0
    assert found.notes == ["liger: not enough memory"]
    text = record.text({"op": "rms_norm"}, [found, measure(subject, Clock(0), bool, quick=True)])
    cases = json.loads(text)["cases"]
    assert cases[str(subject.case)]["not run"], "the second, for which there was no memory"
    assert text.count("\n") == 7, "a case is a line"
    assert "1.10x" in report.line(found, ["limit 92%"])
    assert "MISSED limit 92%" in report.line(found, ["limit 92%"])


def test_a_peer_that_is_wrong_is_noted_and_has_no_time(monkeypatch):
    """Ours ends the run."""
    op = ops.record("rms_norm")
    case = next(c for c in op.benchmarks if (c.overload, c.dtype) == ("default", "float32"))
    subject = small(op, case)

    def off(*arguments):
        return lambda: subject.overload.reference(*arguments) * 1.5

    for wrong in ("eager", "kernelwright"):
        known = contestants(subject, "cpu", "eager".__eq__)[0] | {wrong: off}
        monkeypatch.setattr("kernelwright.bench.harness.measure.contestants", lambda *_, known=known: (known, []))
        if wrong == "kernelwright":
            with pytest.raises(WrongResult):
                measure(subject, Clock(), bool, quick=True)
        else:
            found = measure(subject, Clock(), bool, quick=True)
            assert set(found.us) == {"kernelwright", "copy"}
            assert "eager failed: WrongResult" in found.notes[0]


def test_the_start_of_a_graph_is_no_part_of_a_figure():
    """Of the fastest GPU: elsewhere calls take longer. No graph has so many that it takes seconds."""
    from kernelwright.bench.harness import cuda

    for op in RECORDS:
        for case in op.benchmarks:
            subject = Subject(op, case)
            least = max(subject.bytes / cuda.BYTES_A_US, subject.flops / cuda.FLOPS_A_US, cuda.LEAST_US)
            calls = cuda.Gpu.calls(SimpleNamespace(), subject.bytes, subject.flops)
            assert 0.005 * calls * least > 9.999, subject.name
            assert calls <= 2000, subject.name


def test_a_graph_keeps_as_many_outputs_as_there_are_working_sets(monkeypatch):
    """Those of calls by the thousand are more than a GPU's memory."""
    from kernelwright.bench.harness import cuda

    @contextlib.contextmanager
    def nothing(*_, **__):
        yield

    stream = SimpleNamespace(wait_stream=lambda _: None)
    for name, stand_in in (
        ("CUDAGraph", SimpleNamespace),
        ("Stream", lambda: stream),
        ("current_stream", lambda: stream),
        ("stream", nothing),
        ("graph", nothing),
        ("synchronize", lambda: None),
    ):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    numbers = iter(range(100))
    graph = cuda.Graph(lambda: [lambda: next(numbers), lambda: next(numbers), lambda: next(numbers)] * 9)
    assert len(graph.calls) == 27
    assert list(graph.kept) == [25, 26, 27], "call 0 was the one before the capture"


FAULTS = """
import resource, sys, torch
from kernelwright.bench.harness.cpu import keep_freed_memory
if "keep" in sys.argv:
    assert keep_freed_memory()
for call in range(40):
    if call == 20:  # by then malloc has found its places
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    results = [torch.ones(2 << 20) for _ in range(3)]
    del results
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_freed_memory_is_kept_while_a_cpu_is_timed():
    """Three results of 8 MB a call: without it each call takes 6144 new pages from the system."""
    argv = [sys.executable, "-c", FAULTS]
    kept, plain = (
        int(subprocess.run([*argv, *more], cwd=ROOT, capture_output=True, text=True, check=True).stdout)
        for more in (["keep"], [])
    )
    assert kept < 2048, f"{kept} and {plain} pages"
    assert kept <= plain


def test_file_names_of_devices():
    assert record.slug("NVIDIA H200") == "h200"
    assert record.slug("NVIDIA H100 80GB HBM3") == "h100-80gb-hbm3"
    assert record.slug("cpu avx512") == "cpu-avx512"


def test_a_run_that_is_cut_off_has_recorded_what_it_measured(tmp_path, monkeypatch):
    measured = []

    def once(subject, *_rest, **_options):
        if measured:
            raise KeyboardInterrupt
        measured.append(str(subject.case))
        return Result(subject, {"kernelwright": 2.0, "copy": 1.0}, limit=1.0)

    monkeypatch.setattr("kernelwright.bench.harness.measure.measure", once)
    with pytest.raises(KeyboardInterrupt):
        run.main(["--device", "cpu", "--ops", "rms_norm", "--out", str(tmp_path), "--no-plot", "--commit", "here"])
    (path,) = tmp_path.iterdir()
    assert list(json.loads(path.read_text())["cases"]) == measured


@pytest.mark.slow
def test_the_command_measures_on_the_cpu(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--device", "cpu", "--quick", "--peers", "eager"]
    options = ["--ops", "rms_norm", "--cases", "*-1x4096-*", "--out", str(tmp_path), "--no-plot", "--commit", "here"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.iterdir()
    assert str(path) in done.stdout
    found = json.loads(path.read_text())
    assert found["commit"] == "here"
    wanted = "--device cpu --quick --peers eager --ops rms_norm --cases *-1x4096-* --no-plot"
    assert found["command"] == f"python benchmarks/run.py {wanted}", "without the directory of this machine"
    for case in found["cases"].values():
        assert set(case["us"]) == {"kernelwright", "eager", "copy"}
        assert min(case["us"].values()) > 0
