# SPDX-License-Identifier: MIT
"""fork() while another thread makes the first call: the child computes, or is refused in words, and never hangs."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time

import pytest

from kernelwright import _fork, errors
from tests.python.support import run

# A process forks helpers before anything is loaded, and each of those makes its own first call in a thread and forks
# after a delay of its own: so each cuts a first call, and mostly also the import of torch, which the child needs too.
PROGRAM = """
import os, random, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")  # Python's own about fork and threads: that is what is tried here
import kernelwright
{before}

def first_call():
    import torch
    return kernelwright.rms_norm(torch.ones(2, 8)).sum().item()

def child():
    try:
        return 0 if abs(first_call() - 16) < 1e-3 else 1
    except kernelwright._fork.Forked as error:
        return 2 if "forked while another thread" in str(error) else 3

def grandparent(delay):
    caller = threading.Thread(target=kernelwright.__getattr__, args=("rms_norm",), daemon=True)
    caller.start()
    time.sleep(delay)
    during = caller.is_alive()
    inner = os.fork()
    if not inner:
        os._exit(child())
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(inner, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) + 16 * during
        time.sleep(0.005)
    os.kill(inner, signal.SIGKILL)
    return 9

random.seed({seed})
for _ in range({count}):
    outer = os.fork()
    if not outer:
        os._exit(grandparent(random.uniform(0, {longest})))
    print(os.waitstatus_to_exitcode(os.waitpid(outer, 0)[1]), flush=True)
"""
WORKS, REFUSED = 0, 2
DURING = 16


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("before", "longest", "count"), [("", 1.5, 8), ("import torch", 0.12, 40)], ids=["torch is not loaded", "torch is"]
)
def test_a_child_forked_in_the_first_call_works_or_is_refused(before, longest, count):
    done = run(PROGRAM.format(before=before, longest=longest, count=count, seed=20261123), timeout=600)
    assert done.returncode == 0, done.stderr
    came = [int(line) for line in done.stdout.split()]
    assert {code % DURING for code in came} <= {WORKS, REFUSED}, (came, done.stderr[-2000:])
    assert len(came) == count
    assert any(code >= DURING for code in came), "no fork came during a first call"


def in_child(act) -> int:
    child = os.fork()
    if not child:
        try:
            act()
        except errors.Forked as error:
            os._exit(7 if "spawn or forkserver" in str(error) else 8)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextlib.contextmanager
def another_thread_inside(section):
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with section, section:
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait(60)
    yield leave
    leave.set()
    thread.join()


MANY_THREADS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@MANY_THREADS
def test_a_fork_waits_for_another_thread_that_is_in_a_section():
    section = _fork.Section()
    assert in_child(section.__enter__) == 0
    with section:
        assert in_child(section.__enter__) == 0  # this thread is there too, and goes on
    with another_thread_inside(section) as leave:
        later = threading.Timer(0.2, leave.set)
        later.start()
        assert in_child(section.__enter__) == 0
        assert leave.is_set()
        later.join()


@MANY_THREADS
def test_a_fork_that_would_wait_for_ever_cuts_the_section_and_its_child_is_told(monkeypatch):
    section = _fork.Section()
    monkeypatch.setattr(_fork, "PATIENCE", 0.1)
    with another_thread_inside(section):
        assert in_child(section.__enter__) == 7
        assert in_child(lambda: os._exit(in_child(section.__enter__))) == 7  # and so are its children
        assert not section.is_cut
    assert in_child(section.__enter__) == 0


@MANY_THREADS
def test_a_waiting_fork_keeps_no_lock_of_loggings():
    """As torch's import needs it."""
    section = _fork.Section()
    with another_thread_inside(section) as leave:
        logger = threading.Timer(0.1, lambda: (logging.getLogger("new one").warning, leave.set()))
        logger.start()
        start = time.monotonic()
        with logging._lock:  # as its handler has it
            assert in_child(section.__enter__) == 0
        assert time.monotonic() - start < _fork.PATIENCE / 2
        logger.join()
