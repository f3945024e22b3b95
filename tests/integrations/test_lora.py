# SPDX-License-Identifier: MIT
"""peft's LoRA layers after `optimize(model)`: gradients beside peft's, and whatever else such a layer may be asked for."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.integrations.answers import ROUNDING, far, logits

pytestmark = [
    pytest.mark.torch,
    # Whatever the other libraries warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def optimize(transformers):
    from kernelwright.integrations.transformers import optimize

    return optimize


@pytest.fixture(params=["quantizer", "under", "dense"])
def way(request, transformers):
    """Whose layers the adapter stands on. bitsandbytes' have our kernels: its own for the CPU are no float32."""
    if request.param != "dense":
        request.getfixturevalue(request.param).enable()
    return request.param


@pytest.fixture
def loaded(way, checkpoint, load, transformers):
    """A function of a type: the model on those layers, computing in it."""

    def make(dtype=torch.float32):
        config = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
        )
        return load(checkpoint, dtype=dtype, **({} if way == "dense" else {"quantization_config": config}))

    return make


@pytest.fixture
def adapt(peft):
    def make(model, **changes):
        """Both halves random: where one is 0, as peft has it at first, the other's gradient is 0."""
        options = {"r": 4, "target_modules": "all-linear", "task_type": "CAUSAL_LM", "init_lora_weights": False}
        return peft.get_peft_model(model, peft.LoraConfig(**{**options, **changes}))

    return make


def gradients(model, ids):
    model.zero_grad()
    model(ids, labels=ids).loss.backward()
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.requires_grad}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_pefts(way, loaded, adapt, optimize, ids, dtype):
    model = adapt(loaded(dtype)).train()
    expected, plain = gradients(model, ids), logits(model, ids)
    found = optimize(model)
    assert len(found.replaced["LoRA layer"]) == 14
    here = gradients(model, ids)
    assert here.keys() == expected.keys()
    assert len(here) == 28
    for name, value in here.items():
        assert value.dtype == expected[name].dtype, name
        assert far(value, expected[name]) <= (1e-4 if dtype is torch.float32 else 2 * ROUNDING), name
    assert far(logits(model, ids), plain) <= (1e-5 if dtype is torch.float32 else ROUNDING)
    found.undo()
    assert torch.equal(logits(model, ids), plain)


def test_one_layer_beside_its_definition(way, loaded, adapt, optimize, device):
    """Gradients of input and adapter in float64's words, and no pass over what peft converts."""
    model = adapt(loaded(torch.bfloat16)).train()
    layer = model.get_submodule("base_model.model.model.layers.0.mlp.down_proj")
    x = torch.randn(2, 5, 256).bfloat16().requires_grad_()
    grad = torch.randn(2, 5, 128).bfloat16()
    a, b, scale = layer.lora_A["default"].weight, layer.lora_B["default"].weight, layer.scaling["default"]
    wide = layer.base_layer(torch.eye(256).bfloat16()).detach().double().t()  # the weight, as it computes
    exact = [t.detach().double().requires_grad_() for t in (x, a, b)]
    y = exact[0] @ wide.t() + scale * (exact[0] @ exact[1].t()) @ exact[2].t()
    expected = torch.autograd.grad(y, exact, grad.double())

    class Seen(TorchDispatchMode):
        names: list[str] = []  # noqa: RUF012

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(func._schema.name.removeprefix("aten::"))
            return func(*args, **(kwargs or {}))

    optimize(model)
    with Seen() as seen:
        here = layer(x)
        found = torch.autograd.grad(here, (x, a, b), grad)
    assert far(here.double(), y) <= 2**-6
    for one, other, like in zip(found, expected, (x, a, b), strict=True):
        assert one.dtype is like.dtype
        assert far(one.double(), other) <= 2**-6
    copies = seen.names.count("_to_copy")
    assert copies <= 6  # the two halves to the layer's type, twice, and their gradients back: all of them small
    assert "add" not in seen.names
    assert "clone" not in seen.names


def test_steps_with_checkpointing_learn_as_pefts(way, peft, loaded, adapt, optimize, ids):
    found = []
    for ours in (False, True):
        torch.manual_seed(1)
        model = loaded(torch.float32)
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
        model = adapt(model).train()
        if ours:
            assert "LoRA layer" in optimize(model).replaced
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
        losses = []
        for _ in range(4):
            loss = model(ids, labels=ids).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        found.append(losses)
    assert found[0][-1] < found[0][0] - 0.1
    assert found[1] == pytest.approx(found[0], rel=1e-3)


CASES = {
    "dropout": {"lora_dropout": 0.5},
    "bias": {"lora_bias": True},
    "dora": {"use_dora": True},
    "rslora": {"use_rslora": True},
}


@pytest.mark.parametrize("case", CASES)
def test_other_adapters_are_computed_as_pefts(way, loaded, adapt, optimize, ids, case):
    """Those with more than two products go peft's way; a scaling of another kind does not."""
    if way == "under" and case == "bias":
        pytest.skip("peft 0.21.2 refuses a bias there")
    model = adapt(loaded(), **CASES[case]).train()
    expected = gradients(model.eval(), ids)
    optimize(model)
    for name, value in gradients(model, ids).items():
        assert far(value, expected[name]) <= 1e-4, name
    if case == "dropout":
        model.train()
        torch.manual_seed(0)
        one = gradients(model, ids)
        torch.manual_seed(0)
        again, name = gradients(model, ids), next(iter(one))
        assert torch.equal(one[name], again[name])
        assert far(gradients(model, ids)[name], one[name]) > 1e-2  # another draw


def test_several_disabled_and_merged(way, peft, loaded, adapt, optimize, ids):
    model = adapt(loaded()).eval()
    model.add_adapter("second", copy.deepcopy(model.peft_config["default"]))
    asked = {}
    for ours in (False, True):
        if ours:
            optimize(model)
        with torch.no_grad():
            found = [model(ids).logits]
            model.set_adapter("second")
            found.append(model(ids).logits)
            model.base_model.set_adapter(["default", "second"])
            found.append(model(ids).logits)
            model.set_adapter("default")
            with model.disable_adapter():
                found.append(model(ids).logits)
            found.append(model(ids, adapter_names=["default", "__base__"]).logits)
        asked[ours] = found
    for one, other in zip(asked[True], asked[False], strict=True):
        assert far(one, other) <= 1e-5
    assert min(far(one, asked[True][0]) for one in asked[True][1:]) > 1e-3
    if way != "quantizer":  # codes of ours are dequantized first: tests of peft beside this one
        merged = copy.deepcopy(model)
        merged.merge_adapter()
        with torch.no_grad():
            assert far(merged(ids).logits, asked[True][0]) <= (1e-4 if way == "dense" else 0.3)
            plain = copy.deepcopy(model.get_base_model())
        assert "lora_A" in str(plain)


def test_saved_and_loaded_as_pefts(way, peft, loaded, adapt, optimize, ids, tmp_path):
    model = adapt(loaded()).eval()
    names = set(model.state_dict())
    model.save_pretrained(tmp_path / "before")
    optimize(model)
    assert set(model.state_dict()) == names
    y = logits(model, ids)
    model.save_pretrained(tmp_path / "after")
    files = [(tmp_path / which / "adapter_model.safetensors").read_bytes() for which in ("before", "after")]
    assert files[0] == files[1]
    again = peft.PeftModel.from_pretrained(loaded(), tmp_path / "after").eval()
    assert far(logits(again, ids), y) <= 1e-5


def test_trainer(way, accelerate, transformers, loaded, adapt, optimize, tmp_path, device):
    """It trains, saves and goes on, with checkpointing, as with peft alone."""
    data = [{"input_ids": ids, "labels": ids} for ids in torch.randint(3, 500, (4, 8), device="cpu")]
    torch.set_default_device(None)
    found = []
    for ours in (False, True):
        model = loaded()
        torch.manual_seed(1)
        model = adapt(model)
        if ours:
            optimize(model)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / str(ours)), per_device_train_batch_size=2, max_steps=4, learning_rate=1e-2,
            logging_steps=1, save_steps=4, report_to=[], use_cpu=device == "cpu", gradient_checkpointing=True, seed=3,
        )  # fmt: skip
        trainer = transformers.Trainer(model, arguments, train_dataset=data)
        trainer.train()
        found.append([row["loss"] for row in trainer.state.log_history if "loss" in row])
        assert (tmp_path / str(ours) / "checkpoint-4" / "adapter_model.safetensors").is_file()
    assert len(found[0]) == 4
    assert found[0][-1] < found[0][0]
    assert found[1] == pytest.approx(found[0], rel=2e-3)
