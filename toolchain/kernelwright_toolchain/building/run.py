# SPDX-License-Identifier: MIT
"""One build from its options to its wheel."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelwright_toolchain import providers, source
from kernelwright_toolchain.building import budgets, clean, sass, stamp
from kernelwright_toolchain.building.options import Options
from kernelwright_toolchain.building.package import build_wheel
from kernelwright_toolchain.building.publish import publish
from kernelwright_toolchain.building.stamp import Row, Stamp
from kernelwright_toolchain.device import Built
from kernelwright_toolchain.device.build import Watch
from kernelwright_toolchain.device.environment import job_limit
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import download, host, pip
from kernelwright_toolchain.request import DEFAULT_PROVIDER, Request, label, settings, settled
from kernelwright_toolchain.targets import Table
from kernelwright_toolchain.wheel.gates import POLICY_LOCK
from kernelwright_toolchain.wheel.recipe import circumstances
from kernelwright_toolchain.wheel.statement import ABOUT_WHEEL


@dataclass(frozen=True)
class Outcome:
    """A finished build; `fresh` if anything had to be done for it."""

    wheel: Path
    stamp: Stamp
    fresh: bool
    request: Request


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _workspace(request: Request) -> Path:
    return project().state / "build" / f"{request.target.name}-{label(request) or 'default'}"


def _library(request: Request) -> Path:
    """Where CMake builds: one place for all that share a host compiler and its flags.

    What codes, operators or toolkit are asked for changes the library's table of images; only that is compiled again.
    """
    return (
        project().state
        / "build"
        / f"{request.target.name}-{request.provider}{'-debug' if request.debug else ''}"
        / "cmake"
    )


def _unchanged(workspace: Path, request: Request, table: Table) -> Outcome | None:
    """The earlier build, if its inputs are the same and its wheel is still the one it made."""
    known = stamp.load(workspace / "stamp.json")
    if known is None or known.inputs != stamp.inputs(request):
        return None
    wheel = project().dist / known.wheel
    if stamp.digest_of(wheel) != known.sha256:
        return None
    publish(wheel, partial(circumstances, table, request))  # what lies beside it may have been removed
    return Outcome(wheel, known, fresh=False, request=request)


def compiled(
    request: Request, table: Table, jobs: int | None, *, afresh: bool = False, family_done: Watch | None = None
) -> Built:
    """Every image, with progress, into the cache: CMake finds them there."""
    from kernelwright_toolchain.device.build import build_images

    compiler = providers.device_compiler(request.provider, request.toolkit, table)
    kit = request.toolkit
    _say(f"device compiler: {compiler}\ntoolkit: {kit.name} (CUDA {kit.release}), provider {request.provider}")
    return build_images(request, compiler, jobs=jobs, afresh=afresh, family_done=family_done)


def _rows(built: Built) -> tuple[Row, ...]:
    from kernelwright_toolchain.cubin import Cubin

    return tuple(
        Row(
            code=image.code,
            op=image.op,
            size=len(image.data),
            registers=image.registers,
            spilled=image.spilled if isinstance(image.facts, Cubin) else None,
            seconds=image.seconds,
            peak=image.peak,
            served_by=image.served_by,
        )
        for image in built.images
    )


def _build(options: Options, request: Request, table: Table, workspace: Path) -> Outcome:
    started = time.monotonic()
    before, sources = stamp.inputs(request), source.state(project().root).sha256
    if not host.only_python(request.provider):  # pip's tools, if perhaps another's device compiler
        by_nvrtc = request.toolkit if request.provider == DEFAULT_PROVIDER else None
        download.announce(table, by_nvrtc, (POLICY_LOCK,))
    tools = host.tools(table, request.provider)
    if tools.zig:  # pip's set; an environment of another lock may be without network
        pip.install(lock_of(POLICY_LOCK))
    watch = budgets.watch(request, table, tools)
    built = compiled(request, table, options.jobs, afresh=options.clean, family_done=watch)
    sass.check(request, built.images)
    _say("building the host library and the wheel")
    wheel, library = build_wheel(settings(request), tools, workspace, _library(request), project().dist, options.jobs)
    if source.state(project().root).sha256 != sources:
        wheel.unlink()
        raise GateError(
            f"files that go into a wheel changed in {project().root} while it was built, so {wheel.name} would say "
            "that it was made from others than it was, and is not kept; build again"
        )
    _say(f"checking {wheel.name} in a clean environment")
    check = clean.self_check(wheel, request, workspace)
    wheel.with_name(wheel.name + ABOUT_WHEEL).unlink(missing_ok=True)  # the same bytes may be of another commit now
    publish(wheel, partial(circumstances, table, request))
    took = time.monotonic() - started
    shares = budgets.told(wheel, _library(request), table, request)
    made = Stamp(
        before, wheel.name, stamp.digest_of(wheel), check, _rows(built), library, took, shares,
        held=not label(request) and not request.debug,
    )  # fmt: skip
    stamp.save(workspace / "stamp.json", made)
    return Outcome(wheel, made, fresh=True, request=request)


def build(options: Options, table: Table) -> Outcome:
    """Refuses, or gives the wheel these options mean: an earlier one if nothing has changed since."""
    request = settled(table, options.settings(), fetching=True)
    job_limit(options.jobs)  # refuses here, not after a download
    workspace = _workspace(request)
    with pip.locked(project().state / "build.lock", "another build holds this tree; waiting for it to finish"):
        if options.clean:
            for forgotten in (workspace, _library(request), project().state / "cache"):
                shutil.rmtree(forgotten, ignore_errors=True)
        workspace.mkdir(parents=True, exist_ok=True)
        return _unchanged(workspace, request, table) or _build(options, request, table, workspace)
