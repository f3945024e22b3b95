# SPDX-License-Identifier: MIT
"""From a request to its images: rules, cache, then compilers side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kernelwright_toolchain import keeper
from kernelwright_toolchain.device import child
from kernelwright_toolchain.device.cache import Cache, key_of
from kernelwright_toolchain.device.compiler import INCLUDE, Job
from kernelwright_toolchain.device.environment import cache_dir, job_limit
from kernelwright_toolchain.device.equal import with_equals
from kernelwright_toolchain.device.image import Image, finish
from kernelwright_toolchain.device.memory import available
from kernelwright_toolchain.device.progress import Progress
from kernelwright_toolchain.device.schedule import SHARE, Task, describe, run_all
from kernelwright_toolchain.device.sources import read_sources
from kernelwright_toolchain.files import write_atomically
from kernelwright_toolchain.project import project

if TYPE_CHECKING:
    from pathlib import Path

    from kernelwright_toolchain.device.compiler import DeviceCompiler
    from kernelwright_toolchain.request import Request

Watch = Callable[[str, tuple[Image, ...]], None]


@dataclass(frozen=True)
class Built:
    """Images sorted by op, then in the table's order of codes, also those that are left out of a wheel; `note` says how
    many ran at once and why.
    """

    images: tuple[Image, ...]
    seconds: float
    note: str


def _jobs(request: Request, root: Path) -> list[Job]:
    return [Job(root, op, code, request.debug) for op in request.images for code in request.codes]


class _Builder:
    def __init__(
        self, request: Request, compiler: DeviceCompiler, cache: Cache, progress: Progress, jobs: list[Job]
    ) -> None:
        self.request, self.compiler, self.cache, self.progress, self.jobs = request, compiler, cache, progress, jobs
        self.family_done: Watch | None = None
        self.images: dict[int, Image] = {}
        self.sources = {job.op: read_sources(job.root, job.source) for job in jobs}  # refuses before anything compiles
        self.keys = [key_of(job, compiler, self.sources[job.op]) for job in jobs]

    def from_cache(self, index: int) -> bool:
        job = self.jobs[index]
        known = self.cache.load(self.keys[index], job)
        if known is None:
            return False
        self.images[index] = replace(finish(job, known), cached=True)
        self.progress.finished(self.images[index])
        self._tell(job)
        return True

    def compile(self, index: int) -> Image:
        job = self.jobs[index]
        self.progress.started(f"{job.op} for {job.code.name}")
        with child.workspace() as scratch:
            compiled = self.compiler.compile(self._isolated(job, scratch))
        image = finish(job, compiled)
        self.cache.store(self.keys[index], job, compiled)
        self.cache.learn(job, self.compiler, compiled)
        return image

    def _isolated(self, job: Job, scratch: Path) -> Job:
        """The job in a tree of just the files its key covers, as they were when it was made.

        Line tables name the directory, and whoever profiles wants the real one; so a debug build stays in place.
        """
        if job.debug:
            return job
        for file in self.sources[job.op]:
            write_atomically(scratch / file.path, file.data)
        (scratch / INCLUDE).mkdir(parents=True, exist_ok=True)
        return replace(job, root=scratch)

    def finished(self, index: int, image: Image) -> None:
        self.images[index] = image
        self.progress.finished(image, f"{image.op} for {image.code}")
        self._tell(self.jobs[index])

    def _tell(self, job: Job) -> None:
        """Whoever watches, of the job's family, once all its images are there."""
        if self.family_done is None:
            return
        family = job.family
        of = [index for index, other in enumerate(self.jobs) if other.family == family]
        if all(index in self.images for index in of):
            self.family_done(family, with_equals(self.request, (self.images[index] for index in of)))


def cached_images(
    request: Request, compiler: DeviceCompiler, *, root: Path | None = None, cache_at: Path | None = None
) -> tuple[tuple[Image, ...], tuple[Job, ...]]:
    """Images of the request that earlier builds left in the cache, and the jobs of the others. Nothing is compiled."""
    cache = Cache(cache_dir(cache_at))
    jobs = _jobs(request, root or project().root)
    sources = {job.op: read_sources(job.root, job.source) for job in jobs}
    known = {job: cache.load(key_of(job, compiler, sources[job.op]), job) for job in jobs}
    found = (replace(finish(job, image), cached=True) for job, image in known.items() if image is not None)
    return tuple(found), tuple(job for job, image in known.items() if image is None)


def build_images(
    request: Request,
    compiler: DeviceCompiler,
    *,
    root: Path | None = None,
    cache_at: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    afresh: bool = False,
    family_done: Watch | None = None,
) -> Built:
    """Every image of the request, compiled or out of the cache; `afresh`: compiled, in place of what the cache has.

    `family_done` is called with each family's images as soon as it has all of them, and what it raises ends the build.
    """
    root = root or project().root
    started = time.monotonic()
    limit = job_limit(jobs)
    todo = _jobs(request, root)
    cache = Cache(cache_dir(cache_at))
    shown = progress or Progress(len(todo))
    builder = _Builder(request, compiler, cache, shown, todo)
    builder.family_done = family_done
    missing = [index for index in range(len(todo)) if afresh or not builder.from_cache(index)]
    note = "every image was in the cache"
    if missing:
        tasks = [Task(partial(builder.compile, index), cache.peak(todo[index], compiler)) for index in missing]
        budget = available()
        note = describe(limit, budget, tasks)
        shown.say(note)
        try:
            with keeper.kept(os.getpid(), int(budget.size * SHARE)):  # what a new source takes nobody knows
                run_all(
                    tasks,
                    limit.count,
                    budget.size,
                    lambda place, image: builder.finished(missing[place], image),
                    stop=child.end_all,
                )
        finally:
            shown.close()
    for said in cache.notes:
        shown.say(said)
    images = with_equals(request, (builder.images[index] for index in range(len(todo))))
    return Built(images, time.monotonic() - started, note)
