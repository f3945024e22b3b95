# SPDX-License-Identifier: MIT
"""fork, threads, and the number of threads."""

from __future__ import annotations

import threading

import pytest

import kernelwright
from kernelwright import _library
from tests.python import tensors
from tests.python.support import run
from tests.python.tensors import CASES, torch

pytestmark = pytest.mark.torch

FORK = """
import multiprocessing, sys, warnings
warnings.simplefilter("ignore")  # Python's own about fork and threads: that is what is tried here
import torch, kernelwright
x, w = torch.randn(512, 4096), torch.randn(4096)
expected = kernelwright.rms_norm(x, w)  # starts the threads
def same(a, b):
    # Row by row: torch compares large tensors with OpenMP's threads, and those do hang after a fork.
    return all(map(torch.equal, a, b))
def child(depth, queue):
    ok = same(kernelwright.rms_norm(x, w), expected)
    if depth:
        inner = multiprocessing.get_context("fork").Process(target=child, args=(depth - 1, queue))
        inner.start(), inner.join(60)
        ok = ok and inner.exitcode == 0
    queue.put(ok)
context = multiprocessing.get_context("fork")
queue = context.Queue()
children = [context.Process(target=child, args=(1, queue)) for _ in range(3)]
[c.start() for c in children]
answers = [queue.get(timeout=60) for _ in range(6)]
[c.join(60) for c in children]
assert same(kernelwright.rms_norm(x, w), expected)
print(all(answers), [c.exitcode for c in children])
"""


def test_fork():
    """Children, and theirs, of a process whose CPU threads already run."""
    done = run(FORK, timeout=200)
    assert done.stdout == "True [0, 0, 0]\n", done.stderr


THREADS = """
import os, torch, kernelwright

def own():
    return sum(open(f"/proc/self/task/{{t}}/comm").read() == "kernelwright\\n" for t in os.listdir("/proc/self/task"))

torch.set_num_threads(2)
x = torch.randn(512, 4096)
expected = x / (x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt()
{before}
y = kernelwright.rms_norm(x)
torch.set_num_threads(1)  # torch's own team is of no use in a forked child
print(own(), bool((y - expected).abs().max() < 1e-5))
"""

FORK_FIRST = """
if child := os.fork():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not torch.backends.openmp.is_available(), reason="this torch was built without OpenMP")
@pytest.mark.parametrize(
    ("before", "own"), [("", 0), (FORK_FIRST, 1), ("kernelwright.rms_norm(x)" + FORK_FIRST, 1)],
    ids=["one process", "registered in the child", "registered before"],
)  # fmt: skip
def test_torch_threads_are_shared(before, own):
    """Two sets would take the cores from each other. In a forked child nobody has torch's."""
    done = run(THREADS.format(before=before))
    assert done.stdout == f"{own} True\n", done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start_a_process(method, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "def child(n):\n"
        "    import torch, kernelwright\n"
        "    return kernelwright.rms_norm(torch.ones(n, 8)).sum().round().item()\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context({method!r}).Pool(2) as pool:\n"
        "        print(pool.map(child, [1, 2]))\n"
    )
    done = run(f"import sys, runpy; sys.argv = [{str(script)!r}]; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert done.stdout == "[8.0, 16.0]\n", done.stderr


def test_torch_says_how_many_threads():
    library, before = _library.load(), torch.get_num_threads()
    x = torch.randn(4, 8)
    try:
        for count in (1, 3, 2):
            torch.set_num_threads(count)
            kernelwright.rms_norm(x)
            assert library.functions["kw_num_threads"]() == count
    finally:
        torch.set_num_threads(before)
    kernelwright.rms_norm(x)
    assert library.functions["kw_num_threads"]() == before


def test_calls_from_many_threads(seed):
    """Also while torch's thread count changes; every thread has its own inputs and checks its own results."""
    op = next(op for op, case in CASES if op.name == "rms_norm")
    wrong, stop = [], threading.Event()

    def work(number):
        x = torch.randn(64 + number, 1024, generator=tensors.generator(seed + number, "cpu"))
        expected = op.overload("default").reference(x.double())
        while not stop.is_set():
            error = (kernelwright.rms_norm(x).double() - expected).abs().max()
            if not error < 1e-5:
                wrong.append((number, float(error)))
                return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    before = torch.get_num_threads()
    for count in (1, 2, 4, 1, 3) * 4:
        torch.set_num_threads(count)
        kernelwright.rms_norm(torch.randn(256, 1024))
    torch.set_num_threads(before)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_errors_belong_to_their_thread():
    """kw_last_error is one for each thread; two that fail in different ways must not swap words."""
    mixed = []

    def fail(cols):
        for _ in range(200):
            try:
                _library.load().call(
                    "kw_rms_norm", -1, None, None, 0, None, 0, None, 0, None, 0, None, None, 1, cols, 0, 0, 0.0
                )
            except ValueError as error:
                if f"cols is {cols};" not in str(error):
                    mixed.append(str(error))

    threads = [threading.Thread(target=fail, args=(cols,)) for cols in (0, -5, 70000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mixed
