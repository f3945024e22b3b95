# SPDX-License-Identifier: MIT
"""`python -m kernelwright bench`: that it measures the model it names, and tells a wrong result. Not how fast."""

from __future__ import annotations

import copy
import json
import xml.etree.ElementTree as ET

import pytest

from kernelwright import errors
from kernelwright.bench import _measure, _plot, _report
from kernelwright.bench._shapes import ATTENTIONS, SHAPES
from tests.python.support import WITHOUT_TORCH, run

BENCH = "import runpy; runpy.run_module('kernelwright', run_name='__main__', alter_sys=True)"
TINY = SHAPES["llama-tiny-like"]


def asked(way, **changes):
    return {
        "device": "cpu", "model": "llama-tiny-like", "prompt": 5, "tokens": 3, "requests": 3, "batches": [1, 2],
        "threads": 0, "eager": False, "attention": "kernelwright", "way": way, **changes,
    }  # fmt: skip


@pytest.mark.torch
@pytest.mark.slow
def test_a_quick_sweep(tmp_path):
    files = ["--json", str(tmp_path / "found.json"), "--plot", str(tmp_path / "found.svg")]
    done = run(BENCH, "bench", "--quick", "--sweep", "--device", "cpu", "--threads", "1", *files, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "SUCCESS"
    found = json.loads((tmp_path / "found.json").read_text())
    assert [way["way"] for way in found["ways"]] == ["nf4", "bf16", "disabled"]
    for way in found["ways"]:
        assert [row["batch"] for row in way["batches"]] == [1, 2]
        for row in way["batches"]:
            assert row["tokens_per_second"] > 0
            assert 0 < row["token_ms"]["p50"] <= row["token_ms"]["p90"] <= row["token_ms"]["p99"]
    nf4, bf16, disabled = found["ways"]
    # Codes and scales are the same bytes with and without kernels; in bfloat16 two bytes an element.
    whole = 2 * (2 * TINY.vocabulary * TINY.width + (2 * TINY.layers + 1) * TINY.width)
    assert bf16["weights_bytes"] == 2 * TINY.linear_elements() + whole
    assert abs(disabled["weights_bytes"] - nf4["weights_bytes"]) < 100  # the offset of scales stands in digits
    small = nf4["weights_bytes"] - whole
    assert 4.12 < 8 * (small - 14 * (16 + 256 + 64) * 4) / TINY.linear_elements() < 4.3
    # Rounding to 4 bits moves the answers; leaving the kernels out does not.
    assert 0.05 < _report.difference(nf4, bf16) < 1
    assert _report.difference(nf4, disabled) < 0.05
    drawn = ET.parse(tmp_path / "found.svg").getroot()  # noqa: S314 - our own file
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"nf4", "bf16", "disabled"} <= set(words)


@pytest.mark.torch
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("quantized", [False, True])
def test_a_token_at_a_time_is_as_all_at_once(quantized, attention, seed):
    """The cache, the mask and the positions: what a step knows of the tokens before it."""
    import torch

    from kernelwright.bench._model import Model

    torch.manual_seed(seed)
    with torch.inference_mode():
        model = Model(TINY, "cpu", quantized=quantized, attention=attention)
        ids = torch.randint(TINY.vocabulary, (3, 9))
        whole = model(ids, model.cache(3, 12))
        cache = model.cache(3, 12)
        for part in ids.split([4, 1, 1, 3], 1):
            last = model(part, cache)
        assert cache.lengths.tolist() == [9, 9, 9]
        assert (last - whole).norm() <= 3e-2 * whole.norm()
        other = model(ids[:, [1, 0, *range(2, 9)]], model.cache(3, 12))
        assert (other - whole).norm() > 0.1 * whole.norm()  # the order of tokens matters
        cache.restart()
        assert (model(ids, cache) - whole).norm() <= 1e-6 * whole.norm()  # nothing is left of the request before


@pytest.mark.torch
def test_attention_by_kernels_is_as_by_torch(seed):
    import torch

    from kernelwright.bench._model import Model

    ids = torch.randint(TINY.vocabulary, (2, 7), generator=torch.Generator().manual_seed(seed))
    found = []
    for attention in ATTENTIONS:
        torch.manual_seed(seed)
        with torch.inference_mode():
            model = Model(TINY, "cpu", quantized=False, attention=attention)
            cache = model.cache(2, 12)
            found.append(torch.stack([model(part, cache) for part in ids.split([5, 1, 1], 1)]))
    ours, torchs = found
    assert (ours - torchs).norm() <= 3e-2 * torchs.norm()


@pytest.mark.torch
def test_what_does_not_fit_is_said_before_it_is_tried(monkeypatch):
    monkeypatch.setattr(_measure, "_free", lambda _: 10**10)
    with pytest.raises(errors.OutOfMemory, match=r"llama-8b-like takes about 16\.\d GB as bf16, and 10\.0 GB are free"):
        _measure.measure(asked("bf16", model="llama-8b-like"))


def made_up(way, speed):
    row = {
        "batch": 1, "graph": False, "tokens_per_second": speed,
        "first_token_ms": {"p50": 2.0, "p90": 2.0, "p99": 2.0}, "token_ms": {"p50": 1.0, "p90": 1.5, "p99": 3.0},
    }  # fmt: skip
    return {
        "way": way, "logits": [0.5, -1.0, 2.0], "weights_bytes": 10**9, "peak_bytes": 2 * 10**9,
        "batches": [row, {**row, "batch": 4}],
    }  # fmt: skip


def test_a_wrong_result_is_told():
    right = [made_up("nf4", 20.0), made_up("disabled", 1.0)]
    assert not _report.wrong(right)
    assert any("times 20.00 at 1, 20.00 at 4" in line for line in _report.comparison(right))
    other = copy.deepcopy(right)
    other[0]["logits"][2] = 1.0
    assert len(_report.wrong(other)) == 1
    assert "differ from those of the path without kernels by 43.6%" in _report.wrong(other)[0]
    other[0]["logits"][1] = float("nan")
    assert _report.wrong(other) == ["WRONG nf4: the logits are not finite numbers"]


def test_numbers_stand_where_they_belong():
    about = dict.fromkeys(("model", "machine", "kernelwright", "torch"), "<&>") | dict.fromkeys(
        ("requests", "prompt", "tokens"), 3
    )
    drawn = ET.fromstring(_plot.svg(about, [made_up("nf4", 20.0), made_up("bf16", 10.0)]))  # noqa: S314
    dots = [dot.attrib for dot in drawn.iter("{http://www.w3.org/2000/svg}circle") if dot.get("r") == "4"]
    fast, slow = (
        {float(dot["cy"]) for dot in dots if dot["fill"] == _plot.COLORS[way] and float(dot["cx"]) < 400}
        for way in ("nf4", "bf16")
    )
    assert max(fast) < min(slow)  # higher up
    assert len(dots) == 8


@pytest.mark.parametrize("speeds", [(20.0, 19.0, 1.0), (10.0, 20.0, 18.0), (5.0, 5.0, 5.0)])
def test_numbers_do_not_overlap(speeds):
    about = dict.fromkeys(("model", "machine", "kernelwright", "torch", "requests", "prompt", "tokens"), 3)
    found = [made_up(way, speed) for way, speed in zip(_plot.COLORS, speeds, strict=True)]
    for one, speed in zip(found[1:], speeds[1:], strict=True):
        for row in one["batches"]:
            row["token_ms"] = {"p50": 30.0 / speed, "p99": 40.0}
    drawn = ET.fromstring(_plot.svg(about, found))  # noqa: S314
    texts = [
        text for text in drawn.iter("{http://www.w3.org/2000/svg}text") if text.get("fill") in _plot.COLORS.values()
    ]
    places = [(float(text.get("x", 0)), float(text.get("y", 0))) for text in texts]
    assert len(places) == 12
    near = [(a, b) for n, a in enumerate(places) for b in places[:n] if abs(a[0] - b[0]) < 20 and abs(a[1] - b[1]) < 9]
    assert not near


def test_percentiles_are_measurements():
    assert _measure.percentiles([n / 1e3 for n in range(100, 0, -1)]) == {"p50": 50, "p90": 90, "p99": 99}
    assert _measure.percentiles([0.002, 0.001]) == {"p50": 1, "p90": 2, "p99": 2}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--requests", "0"], "argument --requests: invalid positive number value: '0'"),
        (["--tokens", "1"], "argument --tokens: invalid number of tokens (2 or more) value: '1'"),
        (["--json", "nowhere/found.json"], "nowhere/found.json: there is no directory nowhere; make it first"),
        (["--plot", "nowhere/found.svg"], "nowhere/found.svg: there is no directory nowhere; make it first"),
        (["--ways", "nf4,int8"], "no such way int8; there are nf4, bf16, disabled"),
        (["--plot", "found.png"], "the picture is an SVG"),
    ],
)
def test_odd_options(words, said):
    done = run(BENCH, "bench", *words)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.torch
def test_a_gpu_that_is_not_there():
    import torch

    if torch.cuda.is_available():
        pytest.skip("torch sees a GPU")
    done = run(BENCH, "bench", "--quick", "--device", "cuda")
    assert done.returncode == 1
    assert done.stdout.startswith("--device cuda: torch ")
    assert "sees no GPU" in done.stdout
    assert not done.stderr


def test_without_torch_it_says_what_to_install():
    done = run(WITHOUT_TORCH + BENCH, "bench", "--quick")
    assert done.returncode == 1
    assert "pip install torch" in done.stdout
    assert "Traceback" not in done.stderr
