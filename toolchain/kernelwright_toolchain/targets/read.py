# SPDX-License-Identifier: MIT
"""Reads targets.toml strictly: every key is expected, every error names its row."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from kernelwright_toolchain.errors import TableError, ToolMissing
from kernelwright_toolchain.project import TABLE, project
from kernelwright_toolchain.targets.check import check
from kernelwright_toolchain.targets.model import (
    COMPILERS,
    PROVIDERS,
    Code,
    Driver,
    Gcc,
    GccRange,
    Library,
    Span,
    System,
    Table,
    Target,
    Toolkit,
    Tools,
    Version,
)
from kernelwright_toolchain.targets.row import Row

SCHEMA = 1

# What a feature may be called: device code sees it as KW_HAS_<FEATURE>.
FEATURE = r"[a-z][a-z0-9]*(_[a-z0-9]+)*"
PIN = r"[a-z0-9]+(-[a-z0-9]+)*==[0-9]{1,9}(\.[0-9]{1,9})*"
LOCK = r"locks/[a-z0-9_-]+\.txt"
LOCK_OR_ARCHIVES = r"locks/[a-z0-9_-]+\.(txt|json)"  # of PyPI's files, or of NVIDIA's archives
DOTTED = r"[0-9]{1,9}(\.[0-9]{1,9})+"

T = TypeVar("T")


def _span(row: Row) -> Span:
    sub = row.sub("toolkits")
    span = Span(sub.release("first"), sub.release("last") if sub.has("last") else None)
    sub.done()
    if span.last and span.last < span.first:
        raise row.fail(f"toolkits.last {span.last} is before toolkits.first {span.first}")
    return span


def _cubin(row: Row, name: str) -> Code:
    if not re.fullmatch(r"sm_[0-9]{2,4}[af]?", name):
        raise row.fail("a cubin row is called sm_NN, sm_NNa or sm_NNf")
    runs_on = tuple(row.parse_release("runs_on", text) for text in row.words("runs_on"))
    if not runs_on:
        raise row.fail("runs_on is empty")
    always = row.take("always", bool) if row.has("always") else False
    code = Code(name, "cubin", _span(row), runs_on, row.words("features", FEATURE), row.words("boards"), always)
    if _number(code) != code.number.rstrip("af"):
        raise row.fail(f"runs_on begins with {code.native}, which is not this row's own capability")
    if any(cc.major != code.native.major for cc in runs_on):
        raise row.fail("runs_on leaves the major family; a cubin does not run there")
    if any(cc < code.native for cc in runs_on):
        raise row.fail(f"runs_on goes below {code.native}; a cubin does not run there")
    if name.endswith("a") and len(runs_on) > 1:
        raise row.fail("runs_on: an architecture-specific cubin runs on its own capability only")
    return code


def _ptx(row: Row, name: str) -> Code:
    if not re.fullmatch(r"compute_[0-9]{2,4}", name):
        raise row.fail("a PTX row is called compute_NN")
    code = Code(name, "ptx", _span(row), (row.release("virtual"),), row.words("features", FEATURE), ())
    if _number(code) != code.number:
        raise row.fail(f"virtual = {code.native} is not the capability of its name")
    return code


def _number(code: Code) -> str:
    return "".join(str(part) for part in code.native.parts)


def _toolkit(row: Row, name: str, machines: frozenset[str]) -> Toolkit:
    if not re.fullmatch(r"cu[0-9]{2,4}", name):
        raise row.fail("a toolkit row is called cuNNN")
    driver, gcc, hosts = row.sub("driver"), row.sub("gcc"), row.sub("hosts")
    toolkit = Toolkit(
        name=name,
        release=row.release("release"),
        driver=Driver(driver.release("cuda"), driver.text("linux", DOTTED)),
        ptx=row.release("ptx"),
        gcc=GccRange(gcc.take("min", int), gcc.take("max", int)),
        components=row.table("components", ("nvcc", "nvrtc", "cudart", "cccl"), DOTTED),
        pypi=row.table("pypi", ("meta", "nvrtc", "cudart", "cccl")),
        conda=row.text("conda"),
        nix=row.text("nix"),
        redist=row.text("redist", DOTTED),
        hosts=MappingProxyType({provider: hosts.words(provider) for provider in PROVIDERS}),
        locks=row.per_machine("locks", machines, LOCK_OR_ARCHIVES),
        nvcc=_nvcc(row, machines),
    )
    for sub in (driver, gcc, hosts):
        sub.done()
    if "".join(str(part) for part in toolkit.release.parts) != name[2:]:
        raise row.fail(f"release = {toolkit.release} is not the one of its name")
    return toolkit


def _nvcc(row: Row, machines: frozenset[str]) -> Tools | None:
    if not row.has("nvcc"):
        return None
    sub = row.sub("nvcc")
    tools = Tools(sub.words("requirements", PIN), sub.per_machine("locks", machines, LOCK))
    sub.done()
    return tools


def _system(row: Row) -> System | None:
    if not row.has("system"):
        return None
    sub = row.sub("system")
    system = System(sub.release("glibc"), sub.release("cuda"), sub.text("userland", "tegra|sbsa"))
    sub.done()
    return system


def _target(row: Row, name: str) -> Target:
    target = Target(
        name=name,
        machine=row.text("machine", r"[a-z0-9_]+"),
        triple=row.text("triple", r"[a-z0-9_]+-linux-gnu"),
        zig=row.text("zig", r"[a-z0-9_]+-linux-gnu"),
        glibc=row.release("glibc"),
        platform_tag=row.text("platform_tag"),
        toolkit=row.text("toolkit"),
        cubins=row.words("cubins"),
        ptx=row.words("ptx"),
        host=row.table("host", PROVIDERS, "|".join(COMPILERS)),
        redist=row.text("redist", r"linux-[a-z0-9_]+"),
        release=row.take("release", bool),
        system=_system(row),
        about=row.text("about"),
    )
    for key, value in (("triple", target.triple), ("zig", target.zig)):
        if value.partition("-")[0] != target.machine:
            raise row.fail(f"{key} = {value!r} is not of machine {target.machine!r}")
    if target.platform_tag != target.glibc_tag:
        raise row.fail(f"platform_tag {target.platform_tag!r} does not say glibc {target.glibc} on {target.machine}")
    return target


def _tools(row: Row, machines: frozenset[str]) -> Tools:
    tools = Tools(row.words("requirements", PIN), row.per_machine("locks", machines, LOCK))
    names = [pin.partition("==")[0] for pin in tools.requirements]
    if len(set(names)) != len(names):
        raise row.fail(f"requirements = {list(tools.requirements)!r} pins something twice")
    if missing := machines - set(tools.locks):
        raise row.fail(f"locks has none for {', '.join(sorted(missing))}, which a target names")
    return tools


def _library(row: Row, name: str) -> Library:
    library = Library(name, row.words("links"), row.text("conda"), row.text("nix"))
    if not library.links:
        raise row.fail("links is empty")
    return library


def _gcc(row: Row, _: str) -> Gcc:
    gcc = Gcc(row.text("version", DOTTED), row.take("major", int), str(row.release("sysroot")))
    if row.parse("version", gcc.version).major != gcc.major:
        raise row.fail(f"major = {gcc.major} is not that of version {gcc.version}")
    return gcc


def _since(raw: Row) -> Mapping[str, Version]:
    """The features that have a row; a project's own table may have none."""
    return _rows(raw, "feature", lambda row, _: row.release("first")) if raw.has("feature") else MappingProxyType({})


def _rows(raw: Row, section: str, make: Callable[[Row, str], T]) -> Mapping[str, T]:
    made = {}
    for name, values in raw.take(section, dict).items():
        row = Row(f"{section}.{name}", values)
        made[name] = make(row, name)
        row.done()
    if not made:
        raise raw.fail(f"there is no [{section}.…] row")
    return MappingProxyType(made)


def toml(text: str, name: str = "targets.toml") -> dict[str, Any]:
    """A decoded TOML file, or a TableError that names it."""
    try:
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
    except ModuleNotFoundError:
        raise ToolMissing(
            "this Python (older than 3.11) has no TOML reader: run through ./kw, or `pip install tomli`"
        ) from None
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"{name}: not valid TOML: {error}") from None
    return values


def build(values: Mapping[str, Any]) -> Table:
    """The table of these decoded values, or a TableError that names the row."""
    raw = Row("top level", values)
    schema = raw.take("schema", int)
    if schema != SCHEMA:
        raise raw.fail(f"schema {schema} is not {SCHEMA}, the one this reader knows")
    targets = _rows(raw, "target", _target)
    machines = frozenset(target.machine for target in targets.values())
    tools = Row("tools", raw.take("tools", dict))
    table = Table(
        toolkits=_rows(raw, "toolkit", lambda row, name: _toolkit(row, name, machines)),
        codes=MappingProxyType({**_rows(raw, "cubin", _cubin), **_rows(raw, "ptx", _ptx)}),
        targets=targets,
        libraries=_rows(raw, "library", _library),
        tools=_tools(tools, machines),
        gcc=_rows(raw, "gcc", _gcc),
        since=_since(raw),
    )
    for row in (tools, raw):
        row.done()
    check(table)
    return table


def parse(text: str) -> Table:
    """The table of this text, or a TableError that names the row."""
    return build(toml(text))


def load(path: Path | None = None) -> Table:
    """targets.toml of the project."""
    path = path or project().data(TABLE)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"targets.toml: cannot read {path}: {error}") from None
    return parse(text)
