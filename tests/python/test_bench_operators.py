# SPDX-License-Identifier: MIT
"""`bench --against`: who is here is timed, who is wrong has no figure, and figures of two machines are never put together.

Its way with bitsandbytes itself is run by tests/integrations/test_bench.py.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import xml.etree.ElementTree as ET

import pytest

from kernelwright import ops
from kernelwright.bench import command as front
from kernelwright.bench.operators import _cases, _peers, _plot, _report, _run, command
from tests.python.support import WITHOUT_TORCH, run

BENCH = "import runpy; runpy.run_module('kernelwright', run_name='__main__', alter_sys=True)"
SVG = "{http://www.w3.org/2000/svg}"
ON_CPU = ["--device", "cpu", "--threads", "1"]


@pytest.fixture
def threads():
    """torch's number of threads is what it was."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.torch
def test_what_is_here_is_timed_and_the_rest_named(tmp_path, capsys, threads):
    files = ["--json", str(tmp_path / "found.json"), "--plot", str(tmp_path / "found.svg")]
    words = ["--against", "torch,liger", "--ops", "swiglu", "--cases", "*/default-*", "--quick", *ON_CPU]
    assert front.main([*words, *files]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "SUCCESS"
    assert "left out: liger, needs a GPU" in out
    found = json.loads((tmp_path / "found.json").read_text())
    assert list(found["peers"]) == ["torch"]
    assert found["left out"] == {"liger": "needs a GPU"}
    assert found["command"] == f"python -m kernelwright bench {' '.join(words)}", "without this machine's folders"
    assert {"device", "instructions", "threads", "torch", "python", "kernelwright"} <= found.keys()
    ((name, case),) = found["cases"].items()
    assert name == "swiglu/default-3x64-bfloat16"
    assert set(case["us"]) == {"kernelwright", "eager", "copy"}
    assert all(us > 0 for us in case["us"].values())
    line = next(line for line in out.splitlines() if " takes " in line)
    times = case["us"]["eager"] / case["us"]["kernelwright"]
    assert f"torch takes {times:.2f}x as long (1 cases, {times:.2f}x to {times:.2f}x)" in line
    assert f"torch {found['torch']}, Python {found['python']}" in line
    assert f"{found['device']} ({found['instructions']}, threads: 1)" in line
    assert next(ET.parse(tmp_path / "found.svg").iter(f"{SVG}circle")) is not None  # noqa: S314 - our own file


@pytest.mark.torch
@pytest.mark.parametrize("who", ["eager", "kernelwright"])
def test_a_wrong_result_has_no_figure(who, monkeypatch, capsys, threads):
    from kernelwright.bench.harness import measure
    from kernelwright.bench.harness.contestants import contestants

    def off(*arguments):
        right = contestants(*arguments)
        prepare = right[0][who]
        right[0][who] = lambda *given: lambda: prepare(*given)() * 1.25
        return right

    monkeypatch.setattr(measure, "contestants", off)
    words = ["--against", "torch", "--ops", "swiglu", "--cases", "*/default-*", "--quick", *ON_CPU]
    assert front.main(words) == (1 if who == "kernelwright" else 0)
    out = capsys.readouterr().out
    assert " takes " not in out, "nobody's time is compared"
    if who == "kernelwright":
        assert "WRONG swiglu/default-3x64-bfloat16: kernelwright's output 0 is off by" in out
        assert out.splitlines()[-1] == "FAILED"
    else:
        assert "no figure: eager failed: WrongResult: swiglu/default-3x64-bfloat16: eager's output 0 is off by" in out
        assert "(1." not in out


def made_up(**changes):
    cases = {
        "a/default-1": {"bytes": 2000, "us": {"kernelwright": 2.0, "eager": 4.0, "liger": 1.0, "copy": 1.0}},
        "a/default-2": {"bytes": 9000, "us": {"kernelwright": 2.0, "eager": 16.0, "copy": 3.0}, "notes": ["liger failed"]},
        "b/default-1": {"bytes": 10, "us": {}, "notes": ["needs 9 MB, 1 MB are free"]},
    }  # fmt: skip
    about = {"device": "NVIDIA H200", "driver": "580.1", "cuda": "13.0", "torch": "2.13.0", "python": "3.11.7"}
    peers = {"liger": "0.6", "torch": "2.13.0"}
    return {
        **about,
        "kernelwright": "0.1.0",
        "peers": peers,
        "left out": {"flash_attn": "not installed"},
        "cases": cases,
    } | changes


def test_the_line_for_others():
    line = _report.share(made_up())
    assert line == (
        "kernelwright 0.1.0, torch 2.13.0, Python 3.11.7, liger 0.6, on NVIDIA H200 (driver 580.1, CUDA 13.0): "
        "torch takes 4.00x as long (2 cases, 2.00x to 8.00x); liger takes 0.50x as long (1 cases, 0.50x to 0.50x)"
    )
    assert _report.share(made_up(cases={})) == ""
    assert _report.best(made_up()) == 3.0
    assert _report.notes(made_up()) == ["no figure: a/default-2: liger failed"]


def test_the_table_names_what_has_no_time():
    run = made_up()
    table = _report.Table(run["cases"], ["liger", "eager"])
    assert table.head().split() == [
        "microseconds",
        "a",
        "call",
        "(times",
        "as",
        "long)",
        "kernelwright",
        "liger",
        "torch",
    ]
    lines = [table.line(name, case).split() for name, case in run["cases"].items()]
    assert lines[0] == ["a/default-1", "2", "1", "(0.50x)", "4", "(2.00x)"]
    assert lines[1] == ["a/default-2", "2", "-", "16", "(8.00x)"]
    assert lines[2] == ["b/default-1", "-", *["needs", "9", "MB,", "1", "MB", "are", "free"]]


def test_dots_stand_where_their_numbers_are():
    run = made_up()
    drawn = ET.fromstring(_plot.svg(run))  # noqa: S314 - our own
    dots = [dot for dot in drawn.iter(f"{SVG}circle") if dot.find(f"{SVG}title") is not None]
    assert [dot.find(f"{SVG}title").text for dot in dots] == [
        "liger: 0.50x as long", "torch: 2.00x as long", "torch: 8.00x as long",
    ]  # fmt: skip
    places = [float(dot.get("cx")) for dot in dots]
    one = (places[0] + places[1]) / 2  # a logarithmic axis: 0.5 and 2 are as far from 1
    (line,) = [path for path in drawn.iter(f"{SVG}path") if path.get("stroke") == "#111"]
    assert float(line.get("d")[1:].partition(" ")[0]) == pytest.approx(one, abs=0.1)
    assert places[2] - places[1] == pytest.approx(places[1] - places[0], abs=0.1)
    words = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"NVIDIA H200 (driver 580.1, CUDA 13.0)", "kernelwright 0.1.0, torch 2.13.0, Python 3.11.7"} <= set(words)
    assert set(_plot.COLORS) == {name for peer in _peers.PEERS.values() for name in peer.contestants}


def test_figures_of_one_machine_are_put_together(tmp_path, capsys):
    cases = made_up()["cases"]
    parts = [{"a/default-1": cases["a/default-1"]}, {"a/default-2": cases["a/default-2"]}]
    for number, part in enumerate(parts):
        (tmp_path / f"{number}.json").write_text(_run.text({"what": _run.WHAT, **made_up(cases=part)}))
    files = [str(tmp_path / "0.json"), str(tmp_path / "1.json")]
    assert front.main(["--from", *files, "--json", str(tmp_path / "both.json")]) == 0
    assert "torch takes 4.00x as long (2 cases" in capsys.readouterr().out
    assert json.loads((tmp_path / "both.json").read_text())["cases"] == parts[0] | parts[1]


@pytest.mark.parametrize(
    "changes",
    [{"device": "NVIDIA H100"}, {"driver": "570.2"}, {"torch": "2.12.0"}, {"peers": {"liger": "0.7", "torch": "2.13.0"}},
     {"kernelwright": "0.1.1"}],
)  # fmt: skip
def test_figures_of_two_machines_are_not(changes, tmp_path, capsys):
    for number, run_ in enumerate((made_up(), made_up(**changes))):
        (tmp_path / f"{number}.json").write_text(_run.text(run_))
    assert front.main(["--from", str(tmp_path / "0.json"), str(tmp_path / "1.json")]) == 1
    out = capsys.readouterr().out
    assert "are not of one machine with the same versions" in out
    assert f"({next(iter(changes))}: " in out
    assert " takes " not in out


def test_every_peer_has_a_word_and_every_word_is_somebody():
    pytest.importorskip("torch", reason="torch is not installed")
    from kernelwright.bench.harness.contestants import COMPILE, EAGER, peers

    known = {name for op in ops.names() for name in peers(op)} | {EAGER, COMPILE}
    asked = {name for peer in _peers.PEERS.values() for name in peer.contestants}
    assert known - asked == {"dense"}, "our own dequantize and torch's product, for benchmarks/run.py"
    assert asked <= known


def test_who_is_not_here_is_told_why(monkeypatch):
    assert _peers.here("flash_attn", "cpu") == ("", "needs a GPU")
    monkeypatch.setitem(sys.modules, "liger_kernel", types.SimpleNamespace(__version__="0.6"))
    assert _peers.here("liger", "cuda") == ("0.6", "")
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    version, why = _peers.here("flash_attn", "cuda")
    assert not version
    assert "flash_attn" in why or why == "not installed"


@pytest.mark.torch
def test_the_calls_of_flash_attn_are_attention():
    """By kernelwright's own functions of flash-attn's names and layout: it is not installed where there is no GPU."""
    import torch

    from kernelwright.bench.harness.check import check, expected
    from kernelwright.bench.harness.contestants import peers
    from kernelwright.bench.harness.subject import Subject
    from kernelwright.compat import flash_attn

    op = ops.record("attention")
    case = op.cases_for("aligned", "default", "bfloat16")[0]
    ops.register()
    flash_attn.install()
    try:
        bind = peers("attention")["flash_attn"]()["default"]
        for options in (
            {},
            {"causal": True},
            {"kv_heads": 1, "causal": True},
            {"window": (3, 5)},
            {"softcap": 2.0},
            {"slopes": True},
        ):
            subject = Subject(op, dataclasses.replace(case, options={**case.options, **options}))
            given = op.make(subject.case, "cpu", torch.Generator().manual_seed(5))
            check(subject, "flash_attn", bind, given, expected(subject, given))
        masked = dataclasses.replace(case, options={**case.options, "mask": True})
        with pytest.raises(ValueError, match="no mask"):
            bind(*op.make(masked, "cpu", torch.Generator().manual_seed(5)))
    finally:
        flash_attn.uninstall()


@pytest.mark.torch
def test_a_cpu_gets_cases_that_it_computes_in_a_moment():
    ops.register()
    every = _cases.choose(None, ["*"], "cpu", whole=False, quick=False)
    timed = {(op.name, case.overload) for op in map(ops.record, ops.names()) for case in op.benchmarks}
    assert {(s.op.name, s.case.overload) for s in every} == timed
    assert all(s.bytes <= _cases.CPU_BYTES and s.flops <= _cases.CPU_FLOPS for s in every)
    quick = _cases.choose(None, ["*"], "cuda", whole=False, quick=True)
    assert len(quick) == len(timed)
    assert max(s.bytes for s in _cases.choose(["linear"], ["*"], "cuda", whole=False, quick=False)) > _cases.CPU_BYTES


@pytest.mark.torch
def test_torch_stands_beside_what_one_writes_in_it_alone():
    """A definition in plain torch that nobody runs is nobody's figure."""
    ops.register()
    subjects = {s.name.partition("-")[0]: s for s in _cases.choose(None, ["*"], "cpu", whole=False, quick=True)}
    assert _cases.beside(subjects["rms_norm/default"], "cpu", ["eager"]) == {"eager"}
    assert _cases.beside(subjects["quantize_ternary/default"], "cpu", ["eager"]) == set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--against", "torch,cutlass"], "--against: nobody is called cutlass; there are bitsandbytes, flash_attn, liger"),
        (["--against=torch", "--ops", "nothing"], "--ops: no operator nothing; there are attention"),
        (["--against", "torch", "--plot", "found.png"], "the picture is an SVG"),
        (["--against", "torch", "--json", "nowhere/found.json"], "there is no directory nowhere; make it first"),
    ],
)  # fmt: skip
def test_odd_options(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        front.main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.torch
@pytest.mark.parametrize("name", ["KERNELWRIGHT_DISABLE", "KERNELWRIGHT_BITSANDBYTES"])
def test_what_would_be_compared_with_itself_is_refused(name, monkeypatch, capsys):
    monkeypatch.setenv(name, "1")
    assert command.main(["--against", "bitsandbytes", "--quick"]) == 1
    assert capsys.readouterr().out.startswith(f"{name} is set: ")


@pytest.mark.torch
def test_a_gpu_that_is_not_there(capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("torch sees a GPU")
    assert command.main(["--device", "cuda"]) == 1
    assert "sees no GPU" in capsys.readouterr().out


def test_without_torch_it_says_what_to_install():
    done = run(WITHOUT_TORCH + BENCH, "bench", "--against", "torch")
    assert done.returncode == 1
    assert "pip install torch" in done.stdout
    assert "Traceback" not in done.stderr
