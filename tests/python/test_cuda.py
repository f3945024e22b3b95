# SPDX-License-Identifier: MIT
"""What only a GPU can show: streams, graph capture, several devices, forced images, fork. Numbers are in test_numbers."""

from __future__ import annotations

import pytest

import kernelwright
from kernelwright import _files, ops
from tests.python import tensors
from tests.python.support import run
from tests.python.tensors import OVERLOADS, case_id, torch

pytestmark = [pytest.mark.torch, pytest.mark.gpu]

OP = ops.record("rms_norm")


def near(found, x, weight):
    expected = OP.overload("default").reference(x.double(), weight.double())
    tensors.assert_near(found, expected, OP.tolerances[str(found.dtype).partition(".")[2]], "result")


def test_on_the_current_stream():
    """The stream first waits, then changes x: on any other stream the operator would see the old x."""
    x, weight = torch.zeros(64, 1024, device="cuda"), torch.randn(1024, device="cuda")
    new = torch.randn_like(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x.copy_(new)
        y = kernelwright.rms_norm(x, weight)
    stream.synchronize()
    near(y, new, weight)


def test_many_streams_and_threads():
    import threading

    wrong = []

    def work(seed):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.randn(128, 1000 + seed, device="cuda", generator=tensors.generator(seed, "cuda"))
            weight = torch.ones(1000 + seed, device="cuda")
            for _ in range(50):
                y = kernelwright.rms_norm(x, weight)
            stream.synchronize()
        try:
            near(y, x, weight)
        except AssertionError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


CAPTURE = """
import torch, kernelwright
x, w = torch.randn(33, 4096, device="cuda"), torch.randn(4096, device="cuda")
rms_norm = kernelwright.rms_norm
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = rms_norm(x, w)
for _ in range(3):
    x.normal_()
    graph.replay()
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (4096,), w, 1e-6), rtol=1e-5, atol=1e-5)
print("fine")
"""


def test_first_use_inside_graph_capture():
    done = run(CAPTURE)
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_graph_capture(op, overload):
    call = tensors.target(op, overload.name)
    torch.zeros(1, device="cuda")  # a context, which cuBLAS warns without: this may be a process's first test
    torch.cuda.current_blas_handle()  # products of many rows are torch's, and its first one may not be in a capture
    cases = [c for c in op.cases if c.overload == overload.name and 0 not in c.shape]
    on_host = overload.reads_on_host and (op.torch_on_gpu or {case.dtype for case in cases})
    for case in [c for c in cases if not (on_host and c.dtype in on_host)][::7]:
        args = op.make(case, "cuda", tensors.generator(3, "cuda"))
        made = tensors.outputs(overload.fake(*args)) + [args[i] for i in tensors.written(op, overload.name)]
        if not any(tensor.numel() for tensor in made):
            continue  # nothing is launched, and torch warns of an empty graph
        fresh = op.make(case, "cuda", tensors.generator(4, "cuda"))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = tensors.outputs(call(*args))
        for a, b in zip(args, fresh, strict=True):
            if isinstance(a, torch.Tensor):
                a.copy_(b)
        graph.replay()
        torch.cuda.synchronize()
        written = tensors.written(op, overload.name)
        expected = tensors.outputs(call(*fresh))
        for a, b in zip([*found, *[args[i] for i in written]], [*expected, *[fresh[i] for i in written]], strict=True):
            assert tensors.same_bits(a, b), str(case)


@pytest.mark.parametrize(("op", "overload"), OVERLOADS, ids=case_id)
def test_references_can_be_captured(op, overload):
    """Benchmarks time them so, and KERNELWRIGHT_DISABLE puts them where the kernels were."""
    if overload.reads_on_host:
        pytest.skip("the reference reads lengths on the host")
    case = next(c for c in op.cases if c.overload == overload.name and 0 not in c.shape)
    args, same = (op.make(case, "cuda", tensors.generator(5, "cuda")) for _ in range(2))
    expected = tensors.outputs(overload.reference(*same))
    with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
        found = tensors.outputs(overload.reference(*args))
    graph.replay()
    torch.cuda.synchronize()
    assert all(tensors.same_bits(a, b) for a, b in zip(found, expected, strict=True))


def test_every_device():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU only")
    for index in reversed(range(torch.cuda.device_count())):
        x, weight = torch.randn(9, 512, device=f"cuda:{index}"), torch.randn(512, device=f"cuda:{index}")
        y = kernelwright.rms_norm(x, weight)  # the current device stays 0
        assert y.device == x.device
        near(y, x, weight)


FORCED = """
import torch, kernelwright
for dtype, bound in ((torch.float32, 2e-6), (torch.float16, 6e-4), (torch.bfloat16, 5e-3)):
    for shape in ((3, 1), (5, 33), (64, 1024), (7, 4096), (3, 8191), (2, 65536)):
        x, w = torch.randn(shape, device="cuda").to(dtype), torch.randn(shape[-1], device="cuda")
        d = x.double()
        expected = d * (d * d).mean(-1, keepdim=True).add(1e-6).rsqrt() * w.double()
        found = kernelwright.rms_norm(x, w).double()
        assert ((found - expected).abs() <= bound * expected.abs() + 1e-6).all(), (dtype, shape)
print("fine")
"""


def codes():
    """The installed images of rms_norm, and whether this GPU should run them."""
    capability = torch.cuda.get_device_capability()
    table = _files.read("targets.json")["codes"]
    for image in _files.read("manifest.json")["images"]:
        if image["op"] == "rms_norm":
            row = table[image["code"]]
            fits = [tuple(map(int, text.split("."))) for text in row["runs_on"]]
            yield image["code"], (capability >= fits[0] if row["kind"] == "ptx" else capability in fits)


def test_forced_images():
    """Every image that fits this GPU is right, PTX too; one that does not fit is refused by name."""
    tried = list(codes())
    assert any(fits for _, fits in tried)
    for code, fits in tried:
        done = run(FORCED, timeout=300, KERNELWRIGHT_ARCH=code)
        if fits:
            assert done.stdout == "fine\n", f"{code}: {done.stderr}"
        else:
            assert done.returncode == 1
            assert code in done.stderr.splitlines()[-1], done.stderr
            assert "kernelwright.errors." in done.stderr.splitlines()[-1], done.stderr


def test_an_image_that_is_not_there():
    done = run(FORCED, KERNELWRIGHT_ARCH="sm_1")
    assert done.returncode == 1
    assert "NoImage" in done.stderr
    assert "sm_1" in done.stderr.splitlines()[-1]


def test_kernels_of_another_directory(tmp_path):
    done = run(FORCED, KERNELWRIGHT_KERNELS=str(_files.locate("kernels")))
    assert done.stdout == "fine\n", done.stderr
    done = run(FORCED, KERNELWRIGHT_KERNELS=str(tmp_path))
    assert done.returncode == 1
    assert "ImageMissing" in done.stderr
    assert str(tmp_path) in done.stderr.splitlines()[-1]


def test_after_fork():
    done = run(
        """
import os, torch, kernelwright
from kernelwright import _library, errors
x = torch.ones(2, 8, device="cuda")
y = kernelwright.rms_norm(x)
torch.cuda.synchronize()
library, pointer = _library.load(), x.data_ptr()
child = os.fork()
if not child:
    try:
        library.call("kw_rms_norm", 0, None, pointer, 8, None, 0, pointer, 8, None, 0, None, None, 2, 8, 0, 0, 1e-6)
    except errors.Forked as error:
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert done.stdout == "7\n", done.stderr


def test_disabled_on_a_gpu():
    done = run(FORCED + "assert 'libkernelwright' not in open('/proc/self/maps').read()", KERNELWRIGHT_DISABLE="1")
    assert done.stdout == "fine\n", done.stderr
