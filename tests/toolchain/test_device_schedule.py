# SPDX-License-Identifier: MIT
"""Compilers run side by side within the CPUs, the caller's limit and the memory there is."""

from __future__ import annotations

import _thread
import threading
import time

import pytest

from kernelwright_toolchain.device.environment import JobLimit, job_limit
from kernelwright_toolchain.device.memory import Budget, available
from kernelwright_toolchain.device.schedule import MARGIN, SHARE, UNKNOWN_PEAK, Task, describe, run_all
from kernelwright_toolchain.errors import RequestError

GB = 1 << 30
V1_NONE = 9223372036854771712


PATIENCE = 60  # seconds for another thread to get its turn on a busy machine


class Load:
    """Tasks that claim memory, and the most that was claimed at once. The small ones stay until `meeting` run at once."""

    def __init__(self, smallest: int | None, meeting: int) -> None:
        self.now, self.most, self.side_by_side, self.count = 0, 0, 0, 0
        self.smallest, self.meeting = smallest, meeting
        self.order: list[int] = []
        self._changed = threading.Condition()

    def task(self, name, peak):
        def run():
            with self._changed:
                self.order.append(name)
                self.now += peak or UNKNOWN_PEAK
                self.count += 1
                self.most, self.side_by_side = max(self.most, self.now), max(self.side_by_side, self.count)
                self._changed.notify_all()
                wanted = self.meeting if peak == self.smallest else 0
                assert self._changed.wait_for(lambda: self.side_by_side >= wanted, PATIENCE)
            time.sleep(0.02)  # for one too many, if there is one
            with self._changed:
                self.now -= peak or UNKNOWN_PEAK
                self.count -= 1
            return name

        return Task(run, peak)


def run(peaks, limit, budget, meeting=1):
    load, results = Load(min(peaks, key=lambda peak: peak or 0), meeting), {}
    run_all([load.task(i, peak) for i, peak in enumerate(peaks)], limit, budget, results.__setitem__)
    assert results == {i: i for i in range(len(peaks))}
    return load


def test_as_many_as_the_limit_run_at_once():
    assert run([GB] * 8, 3, 100 * GB, meeting=3).side_by_side == 3
    assert run([GB] * 4, 1, 100 * GB).side_by_side == 1


def test_memory_is_never_promised_twice():
    load = run([3 * GB, GB, 2 * GB, GB, GB, 3 * GB], 6, 5 * GB, meeting=2)
    assert load.most <= 5 * GB * SHARE / MARGIN


def test_the_biggest_starts_first():
    assert run([GB, 4 * GB, 2 * GB, 3 * GB], 1, 100 * GB).order == [1, 3, 2, 0]


def test_a_job_nobody_knows_counts_as_a_gigabyte():
    assert run([None] * 4, 4, int(2.5 * GB), meeting=2).side_by_side == 2


def test_a_job_bigger_than_the_machine_runs_alone():
    load = run([50 * GB, GB, GB], 3, 4 * GB)
    assert load.order[0] == 0
    assert load.most == 50 * GB


def test_a_failure_ends_what_has_not_begun_and_the_first_is_told():
    begun, failing = [], threading.Event()

    def task(index):
        def run():
            begun.append(index)
            if index == 1:
                failing.set()
                raise ValueError("second")
            assert failing.wait(PATIENCE)
            time.sleep(0.1)  # while the failure is noted
            return index

        return Task(run, GB)

    done = {}
    with pytest.raises(ValueError, match="second"):
        run_all([task(i) for i in range(30)], 2, 100 * GB, done.__setitem__)
    assert len(begun) < 30
    assert 1 not in done


def test_an_interrupt_starts_nothing_more_and_waits_for_what_runs():
    begun, ended, stopped, interrupted = [], [], [], threading.Event()

    def task(index):
        def run():
            begun.append(index)
            if index == 1:
                _thread.interrupt_main()
                interrupted.set()
            assert interrupted.wait(PATIENCE)
            time.sleep(0.3)
            ended.append(index)

        return Task(run, GB)

    with pytest.raises(KeyboardInterrupt):
        run_all([task(i) for i in range(20)], 2, 100 * GB, lambda *_: None, stop=lambda: stopped.append(1))
    assert sorted(ended) == sorted(begun)
    assert len(begun) < 20
    assert stopped


def test_an_error_while_reporting_is_raised_too():
    def report(index, result):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_all([Task(lambda: 1, GB)] * 3, 2, 100 * GB, report)


@pytest.mark.parametrize(
    ("limit", "budget", "peaks", "words"),
    [
        (JobLimit(2, "2 CPUs"), Budget(64 * GB, "MemAvailable"), [GB] * 5, ["5 images, 2 at a time", "limited by 2 CPUs", "room for all"]),
        (JobLimit(16, "16 CPUs"), Budget(4 * GB, "cgroup limit of /x"), [None] * 9, ["3 at a time", "limited by memory 4.0 GB (cgroup limit of /x)"]),
        (JobLimit(16, "MAX_JOBS=16"), Budget(64 * GB, "MemAvailable"), [GB] * 2, ["2 at a time", "no limit reached"]),
        (JobLimit(4, "-j 4"), Budget(GB, "MemAvailable"), [3 * GB] * 2, ["1 at a time", "limited by memory"]),
        (JobLimit(4, "-j 4"), Budget(GB, "MemAvailable"), [GB], ["1 image, 1 at a time"]),
    ],
)  # fmt: skip
def test_one_line_says_which_limit_holds(limit, budget, peaks, words):
    text = describe(limit, budget, [Task(lambda: 0, peak) for peak in peaks])
    assert "\n" not in text
    for word in words:
        assert word in text


def test_who_limits_the_jobs(monkeypatch):
    for name in ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    assert job_limit(None).source.endswith(("CPU", "CPUs"))
    monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", "7")
    assert job_limit(None) == JobLimit(7, "CMAKE_BUILD_PARALLEL_LEVEL=7")
    monkeypatch.setenv("MAX_JOBS", "3")
    assert job_limit(None) == JobLimit(3, "MAX_JOBS=3")
    assert job_limit(5) == JobLimit(5, "-j 5")
    for wrong in ("0", "many", "-1", "²"):
        monkeypatch.setenv("MAX_JOBS", wrong)
        with pytest.raises(RequestError, match="MAX_JOBS"):
            job_limit(None)
    with pytest.raises(RequestError, match="-j 0"):
        job_limit(0)


@pytest.fixture
def machine(tmp_path):
    """A /proc and a cgroup mount that a test writes."""

    class Machine:
        proc = tmp_path / "proc"
        mount = tmp_path / "cgroup mount"

        def write(self, cgroup, mountinfo, available=16 * GB):
            (self.proc / "self").mkdir(parents=True)
            (self.proc / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {available // 1024} kB\n")
            (self.proc / "self/cgroup").write_text(cgroup)
            point = str(self.mount).replace(" ", "\\040")
            (self.proc / "self/mountinfo").write_text(mountinfo.format(point=point))

        def group(self, path, **files):
            directory = self.mount / path
            directory.mkdir(parents=True, exist_ok=True)
            for name, value in files.items():
                (directory / name.replace("__", ".")).write_text(f"{value}\n")

    return Machine()


V2 = "30 23 0:26 / {point} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
V1 = "31 23 0:27 / /other rw - cgroup cgroup rw,cpu\n36 23 0:30 / {point} rw - cgroup cgroup rw,memory\n"


def test_without_a_limit_what_is_available_counts(machine):
    machine.write("0::/user/job\n", V2)
    machine.group("user/job", memory__max="max", memory__current=GB, memory__stat="inactive_file 0")
    assert available(machine.proc) == Budget(16 * GB, "MemAvailable")


def test_a_limit_counts_less_what_is_used_but_for_files(machine):
    machine.write("0::/user/job\n", V2)
    machine.group("user/job", memory__max=4 * GB, memory__current=3 * GB, memory__stat=f"anon 1\ninactive_file {GB}")
    found = available(machine.proc)
    assert found.size == 2 * GB
    assert found.source == f"cgroup limit of {machine.mount / 'user/job'}"


def test_the_tightest_group_above_counts(machine):
    machine.write("0::/user/job\n", V2)
    machine.group("user/job", memory__max=8 * GB, memory__current=0, memory__stat="inactive_file 0")
    machine.group("user", memory__max=3 * GB, memory__current=GB, memory__stat="inactive_file 0")
    assert available(machine.proc).size == 2 * GB


def test_version_one_groups_count_too(machine):
    machine.write("5:cpu:/elsewhere\n4:memory:/docker/abc\n", V1)
    machine.group(
        "docker/abc", memory__limit_in_bytes=2 * GB, memory__usage_in_bytes=GB, memory__stat="total_inactive_file 0"
    )
    machine.group(
        "", memory__limit_in_bytes=V1_NONE, memory__usage_in_bytes=9 * GB, memory__stat="total_inactive_file 0"
    )
    assert available(machine.proc).size == GB


def test_a_container_that_sees_only_its_own_part(machine):
    """/proc/self/cgroup names the path on the host, the mount shows it as its root."""
    machine.write("4:memory:/docker/abc\n", V1.replace("0:30 / ", "0:30 /docker/abc "))
    machine.group("", memory__limit_in_bytes=2 * GB, memory__usage_in_bytes=0, memory__stat="total_inactive_file 0")
    assert available(machine.proc).size == 2 * GB


def test_a_group_inside_a_container(machine):
    machine.write("4:memory:/docker/abc/inner\n", V1.replace("0:30 / ", "0:30 /docker/abc "))
    machine.group("inner", memory__limit_in_bytes=GB, memory__usage_in_bytes=0, memory__stat="total_inactive_file 0")
    assert available(machine.proc).size == GB


def test_a_path_above_the_namespace_is_its_root(machine):
    machine.write("0::/../sibling\n", V2)
    machine.group("", memory__max=GB, memory__current=0, memory__stat="inactive_file 0")
    assert available(machine.proc).size == GB


def test_a_full_group_leaves_nothing_and_nonsense_no_limit(machine):
    machine.write("0::/job\n", V2)
    machine.group("job", memory__max=GB, memory__current=2 * GB, memory__stat="inactive_file 0")
    assert available(machine.proc).size == 0
    machine.group("job", memory__max="nonsense")
    assert available(machine.proc).source == "MemAvailable"


def test_a_machine_without_proc_has_no_known_limit(tmp_path):
    assert available(tmp_path).source == "no limit known"


def test_this_machine_has_memory():
    assert 0 < available().size < 1 << 50
