# SPDX-License-Identifier: MIT
"""Fixtures of the tests with other people's libraries: skipped, with the reason, where those are not installed."""

from __future__ import annotations

import importlib
import importlib.util
import secrets

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
VOCABULARY = 500


def needed(name):
    """The library; one that is installed and cannot be imported fails the tests."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed; tests/integrations/requirements.txt says with what these tests ran")
    return importlib.import_module(name)


@pytest.fixture(scope="session")
def bnb():
    return needed("bitsandbytes")


@pytest.fixture(scope="session")
def transformers():
    return needed("transformers")


@pytest.fixture(scope="session")
def peft():
    return needed("peft")


@pytest.fixture(scope="session")
def accelerate():
    return needed("accelerate")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Where everything of the test is made."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    torch.set_default_device(request.param)
    yield request.param
    torch.set_default_device(None)


@pytest.fixture
def seed(device) -> int:
    """New numbers in every run; pytest shows the seed of a test that fails."""
    number = secrets.randbits(32)
    print(f"seed {number}")
    torch.manual_seed(number)
    return number


@pytest.fixture
def under(bnb, monkeypatch):
    """kernelwright under bitsandbytes, for one test; its layers' codes stay in order, whatever is faster here."""
    from kernelwright.integrations import _bitsandbytes_order, bitsandbytes

    monkeypatch.setattr(_bitsandbytes_order, "reordered_is_faster", lambda _: False)
    yield bitsandbytes
    bitsandbytes.disable()


@pytest.fixture
def quantizer(transformers):
    """kernelwright's quantizer in transformers, for one test."""
    from kernelwright.integrations import transformers as ours

    yield ours
    ours.disable()


@pytest.fixture
def checkpoint(transformers, seed, tmp_path):
    """A small Llama with random weights, bfloat16, saved."""
    config = transformers.LlamaConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        pad_token_id=0,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


@pytest.fixture(params=[("nf4", True), ("fp4", False)], ids=["nf4-double", "fp4"])
def settings(request, transformers):
    """What people pass to from_pretrained."""
    quant_type, double = request.param
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=quant_type,
        bnb_4bit_use_double_quant=double,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


@pytest.fixture
def load(transformers, device):
    """On the test's device: left to itself, transformers puts what it quantizes on a GPU if there is one."""

    def from_pretrained(path, dtype=torch.bfloat16, **options):
        pretrained = transformers.AutoModelForCausalLM.from_pretrained
        return pretrained(path, dtype=dtype, device_map={"": device}, **options).eval()

    return from_pretrained


@pytest.fixture
def ids(seed):
    return torch.randint(1, 500, (2, 7))


@pytest.fixture
def theirs(bnb, checkpoint, load, settings):
    """The model on bitsandbytes' own path."""
    return load(checkpoint, quantization_config=settings)


@pytest.fixture
def without_compiling():
    """transformers compiles what unpacks BitNet's weights; that takes longer than all else in its tests."""
    if not hasattr(torch.compiler, "set_stance"):  # torch 2.6
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture
def bitnet_kernels(transformers, accelerate):
    """kernelwright's layers for BitNet's checkpoints, for one test."""
    from kernelwright.integrations import transformers as kernels

    kernels.enable()
    yield kernels
    kernels.disable()


@pytest.fixture
def bitnet_models(transformers, bitnet_kernels, seed, device, tmp_path):
    """A function of how weights are stored: the model, evaluated, and each time the same. wide: in float32, whatever
    the checkpoint says."""
    from tests.integrations.bitnet import stored

    def make(linear_class="autobitlinear", mode="offline", *, path=None, wide=False, **changes):
        folder = path or tmp_path / f"{linear_class}-{mode}-{len(changes)}"
        if not folder.exists():
            stored(transformers, folder, linear_class, mode, **changes)
        found = transformers.BitNetForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map={"": device})
        return (torch.nn.Module.float(found) if wide else found).eval()

    return make
