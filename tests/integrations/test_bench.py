# SPDX-License-Identifier: MIT
"""`python -m kernelwright bench transformers`: that each way is what its name says, and a wrong result is told."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from kernelwright.bench._shapes import SHAPES
from kernelwright.bench.transformers import _plot, _report
from kernelwright.bench.transformers._asked import QUICK, STEPS, WAYS, Asked

TINY = SHAPES["llama-tiny-like"]


def bench(*arguments):
    command = [sys.executable, "-m", "kernelwright", "bench", "transformers", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.torch
@pytest.mark.slow
def test_all_of_it_on_a_tiny_model(bnb, transformers, peft, accelerate, tmp_path):
    files = ["--json", str(tmp_path / "found.json"), "--plot", str(tmp_path / "found.svg")]
    done = bench("--quick", "--device", "cpu", "--threads", "1", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "SUCCESS"
    found = json.loads((tmp_path / "found.json").read_text())
    ways = found["ways"]
    assert list(ways) == [way for way in WAYS if way != "liger"]
    assert "liger: left out, as it needs a GPU" in done.stdout
    of_all, static = ["load", "eager-1", "eager-2"], ["static-1", "static-2"]
    steps, tune = [*of_all, "prefill-16", "prefill-32", *static], ["tune-2x16", "tune-1x8"]
    expected = {"bf16": [*steps, *tune, "train-2x16", "train-1x8"], "floor": [*of_all, *static], "fused": tune}
    for way, measured in ways.items():
        assert list(measured) == expected.get(way, [*steps, "train-2x16", "train-1x8"])
        assert all(value > 0 for step in measured.values() for key, value in step.items() if key in ("ms", "load_s"))
    # The same codes on three kinds of kernels; quantizing moves the answers, and so does leaving the products out.
    after = {way: measured["prefill-16"]["logits"] for way, measured in ways.items() if "prefill-16" in measured}
    assert 0.02 < _report.difference(after["quantizer"], after["bf16"]) < 1
    assert _report.difference(after["quantizer"], after["bitsandbytes"]) < 0.03
    assert _report.difference(after["under"], after["bitsandbytes"]) < 0.03
    assert _report.difference(after["optimize"], after["quantizer"]) < 0.03
    for measured in ways.values():
        for step in {"train-2x16", "tune-2x16"} & measured.keys():
            assert measured[step]["last_loss"] < measured[step]["loss"]
    assert abs(ways["fused"]["tune-2x16"]["loss"] - ways["bf16"]["tune-2x16"]["loss"]) < 0.02
    # Products that are one, and what lies between products.
    assert ways["optimize"]["eager-1"]["operators"] < ways["quantizer"]["eager-1"]["operators"]
    assert "| tokens/s, eager, batch 1 |" in done.stdout
    drawn = ET.parse(tmp_path / "found.svg").getroot()  # noqa: S314 - our own file
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert set(ways) <= set(words)


@pytest.mark.torch
def test_each_way_is_what_its_name_says(bnb, transformers, accelerate, tmp_path, monkeypatch):
    import torch

    from kernelwright import nn
    from kernelwright.bench.transformers import _models
    from kernelwright.integrations import bitsandbytes as under
    from kernelwright.integrations import transformers as quantizer

    _models.save(TINY, tmp_path, "cpu")
    kinds = {"bf16": torch.nn.Linear, "bitsandbytes": bnb.nn.Linear4bit, "under": bnb.nn.Linear4bit}
    kinds |= {"quantizer": nn.Linear4bit, "optimize": nn.Linear4bit, "floor": _models.Nothing}
    try:
        for way, kind in kinds.items():
            _models.prepare(way)
            model = _models.load(way, str(tmp_path), "cpu")
            layers = [module for name, module in model.named_modules() if name.endswith("_proj")]
            assert len(layers) == 7 * TINY.layers
            assert {type(layer) for layer in layers} == {kind}, way
            assert type(model.lm_head) is torch.nn.Linear
            assert under.enabled() == (way == "under")
            assert quantizer.enabled() == (way in ("quantizer", "optimize"))
            assert ("forward" in vars(model.model.norm)) == (way == "optimize")
            under.disable()
            quantizer.disable()
    finally:
        under.disable()
        quantizer.disable()


def made_up(speed, logits=(0.5, -1.0, 2.0)):
    return {
        "load": {"load_s": 1.0, "first_token_s": 3.0, "bytes": 2 * 10**9},
        "eager-1": {"tokens_per_second": speed, "first_call_s": 1.0},
        "prefill-256": {"ms": 100 / speed, "logits": list(logits)},
        "train-1x512": {"ms": 1000 / speed, "loss": 3.0, "last_loss": 2.0, "peak_bytes": 4 * 10**9},
    }


def test_a_wrong_result_is_told():
    ways = {"bf16": made_up(10.0, (9.0, 9.0, 9.0)), "bitsandbytes": made_up(5.0), "quantizer": made_up(20.0)}
    assert not _report.wrong(ways)
    assert not _report.errors(ways)
    other = copy.deepcopy(ways)
    other["quantizer"]["prefill-256"]["logits"][2] = 1.0
    assert _report.wrong(other) == [
        "WRONG quantizer: after prefill-256 its logits differ from those of bitsandbytes by 43.6%"
    ]
    other["quantizer"]["train-1x512"]["loss"] = float("nan")
    assert _report.wrong(other) == ["WRONG quantizer: train-1x512 gave what is no finite number"]
    ways["bf16"]["tune-1x8"], ways["fused"] = {"loss": 3.0}, {"tune-1x8": {"loss": 3.5}}
    assert _report.wrong(ways) == ["WRONG fused: tune-1x8 began with a loss of 3.5, and bf16 with 3"]
    other["quantizer"]["static"] = {"error": "RuntimeError: no room"}
    assert _report.errors(other) == ["quantizer: static was not measured. RuntimeError: no room"]


def test_the_table_and_the_line():
    about = dict.fromkeys(("model", "machine", "kernelwright", "torch", "transformers"), "<&>")
    ways = {"bf16": made_up(10.0), "bitsandbytes": made_up(5.0), "quantizer": made_up(20.0)}
    table = _report.table(ways)
    assert "| tokens/s, eager, batch 1 | 10 | 5 | 20 |" in table
    assert "| memory, GB | 2.00 | 2.00 | 2.00 |" in table
    assert "| training step 1x512 tokens, ms | 100 | 200 | 50 |" in table
    line = _report.share(about, ways)
    assert "tokens/s, eager, batch 1 20 (bf16 10, bitsandbytes 5)" in line
    assert "\n" not in line
    del ways["quantizer"], ways["bitsandbytes"]
    assert _report.share(about, ways) == ""
    bars = list(ET.fromstring(_plot.svg(about, ways)).iter("{http://www.w3.org/2000/svg}rect"))  # noqa: S314
    assert {bar.get("fill") for bar in bars[1:]} == {_plot.COLORS["bf16"]}


def test_every_way_has_a_color_and_a_request_survives_json():
    assert set(_plot.COLORS) >= set(WAYS)
    asked = Asked("bf16", "path", "cpu", tuple(STEPS), work=QUICK)
    assert Asked.read(json.loads(json.dumps(asked.json()))) == asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ways", "bf16,int8"], "no such name int8; there are bf16, bitsandbytes, under, quantizer, optimize"),
        (["--steps", "sleep"], "no such name sleep; there are load, eager, prefill, static, tune, train"),
        (["--layers", "0"], "argument --layers: invalid positive number value: '0'"),
        (["--plot", "found.png"], "the picture is an SVG"),
        (["--json", "nowhere/found.json"], "there is no directory nowhere; make it first"),
    ],
)
def test_odd_options(words, said):
    done = bench(*words)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.torch
def test_what_fails_is_told_and_the_next_step_measured(transformers, accelerate, tmp_path, monkeypatch, capsys):
    from kernelwright.bench.transformers import _models, _way

    _models.save(TINY, tmp_path, "cpu")

    def fails(_way, _model, _rank):
        raise RuntimeError("no adapter today")

    monkeypatch.setattr(_models, "adapted", fails)
    asked = Asked("bf16", str(tmp_path), "cpu", ("train", "prefill"), work=QUICK)
    assert _way.main(json.dumps(asked.json())) == 1
    told = [json.loads(line.removeprefix(_way.MARK)) for line in capsys.readouterr().out.splitlines()
            if line.startswith(_way.MARK)]  # fmt: skip
    assert told[0] == {"step": "train", "error": "RuntimeError: no adapter today"}
    assert [found["step"] for found in told[1:]] == ["prefill-16", "prefill-32"]
