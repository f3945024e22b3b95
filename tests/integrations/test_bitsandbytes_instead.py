# SPDX-License-Identifier: MIT
"""kernelwright's package under bitsandbytes' name, where none is installed: what other libraries do with it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.tensors import torch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

# A process in which no bitsandbytes is installed, whatever is here: finders do not see it.
WITHOUT = """
import importlib.machinery, importlib.metadata, sys
find, distributions = importlib.machinery.PathFinder.find_spec, importlib.metadata.MetadataPathFinder.find_distributions
def find_spec(name, *rest):
    return None if name.partition(".")[0] == "bitsandbytes" else find(name, *rest)
def find_distributions(context=importlib.metadata.DistributionFinder.Context()):
    return (d for d in distributions(context) if d.metadata["Name"] != "bitsandbytes")
importlib.machinery.PathFinder.find_spec = find_spec
importlib.metadata.MetadataPathFinder.find_distributions = find_distributions
"""


def run(program, *arguments, **variables):
    environment = {key: value for key, value in os.environ.items() if key != "KERNELWRIGHT_BITSANDBYTES"}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, *arguments],
        env={**environment, "HF_HUB_OFFLINE": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def passed(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


INSTALLED = """
import kernelwright.compat.bitsandbytes as ours
try:
    import bitsandbytes
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("it was found before")
ours.install()
ours.install()
import importlib.util
assert importlib.metadata.version("bitsandbytes") == ours.__version__
assert importlib.util.find_spec("bitsandbytes.nn.modules") is not None
assert importlib.util.find_spec("bitsandbytes.nothing") is None
import bitsandbytes as bnb
from bitsandbytes.optim import AdamW8bit
import bitsandbytes.nn.parametrize, bitsandbytes.autograd._functions
assert bnb is ours and bitsandbytes.nn.Linear4bit is ours.nn.Linear4bit and ours.installed()
assert ours.__spec__.name == "kernelwright.compat.bitsandbytes"
import torch
x, packed = torch.randn(2, 64), bnb.functional.quantize_4bit(torch.randn(32, 64), quant_type="nf4")
y = torch.ops.bitsandbytes.gemm_4bit(x, packed[0], [32, 64], packed[1].absmax, 64, "nf4")
torch.testing.assert_close(y, bnb.matmul_4bit(x, *packed))
fake = torch.library.opcheck(torch.ops.bitsandbytes.gemm_4bit.default, (x, packed[0], [32, 64], packed[1].absmax, 64, "nf4"))
assert set(fake.values()) == {"SUCCESS"}, fake
for name in ("backends", "xpu_ops", "nonsense"):
    assert not hasattr(bnb, name)
ours.uninstall()
try:
    import bitsandbytes
except ModuleNotFoundError:
    print("gone")
"""


def test_installed():
    assert passed(run(INSTALLED)).endswith("gone\n")


def test_a_real_one_stays():
    """Refused, by name and place."""
    if importlib.util.find_spec("bitsandbytes") is None:
        pytest.skip("bitsandbytes is not installed; tests/integrations/requirements.txt says with what these tests ran")
    program = "import kernelwright.compat.bitsandbytes as ours; ours.install()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "cannot take the place of an installed bitsandbytes (" in done.stderr
    assert "kernelwright.integrations.bitsandbytes.enable()" in done.stderr


VARIABLE = """
import torch
try:
    import bitsandbytes
    print(bitsandbytes.nn.Linear4bit.__module__)
except ModuleNotFoundError:
    print("none")
"""


@pytest.mark.parametrize(
    ("value", "said"), [("1", "kernelwright.nn.linear_4bit"), ("0", "none"), ("", "none"), ("2", "none")]
)
def test_the_variable(value, said):
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 5):
        pytest.skip("torch calls other packages at the end of its import since 2.5")
    assert passed(run(VARIABLE, KERNELWRIGHT_BITSANDBYTES=value)).strip() == said


ADAPTERS = """
import sys, warnings
warnings.simplefilter("ignore")
import torch, transformers
if sys.argv[2] == "peft first":
    import peft
import kernelwright.integrations.transformers as quantizer
quantizer.enable()
import peft
torch.manual_seed(0)
config = transformers.LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
                                  num_key_value_heads=2, vocab_size=500, pad_token_id=0)
folder = sys.argv[1] + "/plain"
transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
four = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                       bnb_4bit_compute_dtype=torch.bfloat16)
ids = torch.randint(1, 500, (2, 7))

def loaded():
    torch.set_default_dtype(torch.bfloat16)  # as programs do that build a model in their own type
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, quantization_config=four, dtype=torch.bfloat16, device_map={"": "cpu"})
    finally:
        torch.set_default_dtype(torch.float32)

for settings in ({}, {"use_dora": True}, {"init_lora_weights": "olora"}):
    lora = peft.LoraConfig(target_modules=["q_proj", "down_proj"], r=4, task_type="CAUSAL_LM", **settings)
    model = peft.get_peft_model(loaded(), lora)
    before = [p for p in model.parameters() if p.requires_grad]
    model(input_ids=ids, labels=ids).loss.backward()
    assert all(p.grad is not None for p in before)
    with torch.no_grad():
        for p in before:
            p -= 0.01 * p.grad
    y = model(input_ids=ids).logits.float()
    merged = model.merge_and_unload()
    assert type(merged.model.layers[0].mlp.down_proj).__name__ == "Linear4bit"
    far = float((merged(input_ids=ids).logits.float() - y).norm() / y.norm())
    assert far < 0.35, (settings, far)  # a merged weight is quantized again
    print("merged", settings)

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return {"input_ids": ids[index % 2], "labels": ids[index % 2]}

lora = peft.LoraConfig(target_modules=["q_proj", "down_proj"], r=64, task_type="CAUSAL_LM")
model = peft.get_peft_model(loaded(), lora)
arguments = transformers.TrainingArguments(
    sys.argv[1] + "/out", optim="adamw_8bit", max_steps=3, per_device_train_batch_size=2, report_to=[], use_cpu=True,
    save_strategy="no", learning_rate=1e-2, logging_steps=1)
trainer = transformers.Trainer(model, arguments, train_dataset=Rows())
trainer.train()
inner = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
assert type(inner).__module__ == "kernelwright.compat.bitsandbytes.optim.adamw", type(inner)
losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
assert losses[-1] < losses[0], losses
print("trained")
"""


@pytest.mark.parametrize("order", ["ours first", "peft first"])
def test_adapters_and_trainer_without_bitsandbytes(order, tmp_path):
    """Merged, DoRA and OLoRA, and an optimizer by its name: peft and transformers take them from bitsandbytes."""
    for name in ("transformers", "peft", "accelerate"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    said = passed(run(ADAPTERS, str(tmp_path), order))
    assert said.count("merged") == 3
    assert "trained" in said


EMBEDDINGS = """
import sys
import kernelwright.compat.bitsandbytes as ours
ours.install()
import torch, transformers
from kernelwright import optim
model = torch.nn.Sequential(torch.nn.Embedding(128, 64), torch.nn.Linear(64, 128))
arguments = transformers.TrainingArguments(sys.argv[1], optim="adamw_8bit", report_to=[], use_cpu=True)
optimizer = transformers.Trainer(model, arguments).create_optimizer()
assert isinstance(optimizer, optim.AdamW) and isinstance(optimizer, ours.optim.optimizer.Optimizer8bit)
model(torch.arange(128)).square().mean().backward()
optimizer.step()
print(*(optimizer.state[layer.weight]["state1"].dtype for layer in model))
import copy, pickle
assert type(pickle.loads(pickle.dumps(optimizer))) is type(copy.deepcopy(optimizer)) is type(optimizer) is ours.optim.AdamW
"""


def test_the_trainer_keeps_states_of_embeddings_wide(tmp_path):
    """It asks whether "bitsandbytes" is in what the optimizer's class says it is."""
    for name in ("transformers", "accelerate"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    assert passed(run(EMBEDDINGS, str(tmp_path))).split() == ["torch.float32", "torch.uint8"]


PAGE = Path(__file__).parents[2] / "docs" / "bitsandbytes.md"


def table():
    """The page's rows: (module, name, whether it is there)."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    for module, names, there, *_ in rows:
        for name in names.replace("`", "").split(", "):
            yield module.strip("`"), name, there.startswith("yes")


def test_the_table_of_names_is_true():
    import kernelwright.compat.bitsandbytes as ours

    rows = list(table())
    assert len(rows) > 105
    for module, name, there in rows:
        where = ours if module == "bnb" else importlib.import_module(f"{ours.__name__}.{module}")
        assert hasattr(where, name) == there, (module, name)


def test_the_table_has_every_public_name(bnb):
    import ast

    known = {(module, name) for module, name, _ in table()}
    root = Path(bnb.__file__).parent
    for module in ("functional", "nn", "nn.parametrize", "optim", "utils", "cextension", "autograd._functions"):
        path = root / f"{module.replace('.', '/')}.py"
        path = path if path.exists() else path.with_suffix("") / "__init__.py"
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
            if isinstance(node, ast.ImportFrom) and path.name == "__init__.py":
                names = [alias.asname or alias.name for alias in node.names]
            for name in names:
                assert name.startswith("_") or (module, name) in known, (module, name)


def test_signatures_are_its(bnb):
    import inspect

    import kernelwright.compat.bitsandbytes as ours

    def shown(function):
        found = inspect.signature(function).parameters.values()
        return [(p.name, p.default) for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]

    for name in bnb.optim.__dict__:
        kind = getattr(bnb.optim, name)
        if inspect.isclass(kind):
            assert shown(getattr(ours.optim, name).__init__) == shown(kind.__init__), name
    for name in ours.functional.__all__:
        function = getattr(bnb.functional, name, None)  # matmul_4bit is there as well, where it was at first
        if inspect.isfunction(function) and not name.startswith("dequantize_"):  # two are partial functions here
            given = [n for n, _ in shown(function)]
            assert [n for n, _ in shown(getattr(ours.functional, name))] == given, name
