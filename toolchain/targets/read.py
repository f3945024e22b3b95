# SPDX-License-Identifier: MIT
"""Reads targets.toml strictly: every key is expected, every error names its row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from toolchain.errors import TableError, ToolMissing
from toolchain.targets.model import Code, Driver, Gcc, GccRange, Span, Table, Target, Toolkit, Tools, Version

SCHEMA = 1
ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "targets.toml"

T = TypeVar("T")


class Row:
    """One table of the file; takes keys out by name and type, and complains about the rest."""

    def __init__(self, name: str, values: Any) -> None:
        self.name = name
        if not isinstance(values, Mapping):
            raise TableError(f"targets.toml [{name}]: expected a table, found {values!r}")
        self._left = dict(values)

    def fail(self, text: str) -> TableError:
        return TableError(f"targets.toml [{self.name}]: {text}")

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        if key not in self._left:
            if default is not None:
                return default
            raise self.fail(f"key {key!r} is missing")
        value = self._left.pop(key)
        if type(value) is not kind:
            raise self.fail(f"{key} = {value!r} should be of type {kind.__name__}")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        value: list[Any] = self.take(key, list)
        if not all(isinstance(item, str) for item in value):
            raise self.fail(f"{key} = {value!r} should hold strings only")
        if len(set(value)) != len(value):
            raise self.fail(f"{key} = {value!r} names something twice")
        return tuple(value)

    def version(self, key: str) -> Version:
        return self.parse(key, self.take(key, str))

    def parse(self, key: str, text: str) -> Version:
        if not re.fullmatch(r"\d+(\.\d+)*", text):
            raise self.fail(f"{key} = {text!r} is not a dotted version")
        return Version.parse(text)

    def sub(self, key: str) -> Row:
        return Row(f"{self.name}.{key}", self.take(key, dict))

    def strings(self, key: str) -> Mapping[str, str]:
        value: dict[str, Any] = self.take(key, dict)
        for name, item in value.items():
            if not isinstance(item, str):
                raise self.fail(f"{key}.{name} = {item!r} should be a string")
        return MappingProxyType(value)

    def done(self) -> None:
        if self._left:
            raise self.fail(f"unknown key {sorted(self._left)[0]!r}")


def _span(row: Row) -> Span:
    sub = row.sub("toolkits")
    last = sub.take("last", str, "")
    span = Span(sub.version("first"), sub.parse("last", last) if last else None)
    sub.done()
    if span.last and span.last < span.first:
        raise row.fail(f"toolkits.last {span.last} is before toolkits.first {span.first}")
    return span


def _cubin(row: Row, name: str) -> Code:
    if not re.fullmatch(r"sm_\d+[a-z]?", name):
        raise row.fail("a cubin row is called sm_NN or sm_NNa")
    runs_on = tuple(row.parse("runs_on", text) for text in row.words("runs_on"))
    if not runs_on:
        raise row.fail("runs_on is empty")
    if any(cc.major != runs_on[0].major for cc in runs_on):
        raise row.fail("runs_on leaves the major family; a cubin does not run there")
    return Code(name, "cubin", _span(row), runs_on, row.words("features"), row.words("boards"))


def _ptx(row: Row, name: str) -> Code:
    if not re.fullmatch(r"compute_\d+", name):
        raise row.fail("a PTX row is called compute_NN")
    return Code(name, "ptx", _span(row), (row.version("virtual"),), row.words("features"), ())


def _toolkit(row: Row, name: str) -> Toolkit:
    driver, gcc = row.sub("driver"), row.sub("gcc")
    hosts_row = row.sub("hosts")
    toolkit = Toolkit(
        name=name,
        release=row.version("release"),
        driver=Driver(driver.version("cuda"), driver.take("linux", str)),
        gcc=GccRange(gcc.take("min", int), gcc.take("max", int)),
        components=row.strings("components"),
        pypi=row.strings("pypi"),
        conda=row.take("conda", str),
        nix=row.take("nix", str),
        redist=row.take("redist", str),
        hosts=MappingProxyType({p: hosts_row.words(p) for p in ("pip", "conda", "nix", "system")}),
        locks=row.strings("locks"),
    )
    for sub in (driver, gcc, hosts_row):
        sub.done()
    if toolkit.gcc.min > toolkit.gcc.max:
        raise row.fail(f"gcc range {toolkit.gcc.min}..{toolkit.gcc.max} is empty")
    for part in ("nvcc", "nvrtc"):
        if part not in toolkit.components:
            raise row.fail(f"components.{part} is missing")
        if row.parse(part, toolkit.components[part]).release != toolkit.release:
            raise row.fail(f"components.{part} = {toolkit.components[part]} is not of release {toolkit.release}")
    if set(toolkit.locks) != set(toolkit.hosts["pip"]):
        raise row.fail(f"locks are for {sorted(toolkit.locks)}, but hosts.pip says {sorted(toolkit.hosts['pip'])}")
    return toolkit


def _target(row: Row, name: str) -> Target:
    return Target(
        name=name,
        machine=row.take("machine", str),
        triple=row.take("triple", str),
        zig=row.take("zig", str),
        glibc=row.version("glibc"),
        platform_tag=row.take("platform_tag", str),
        toolkit=row.take("toolkit", str),
        cubins=row.words("cubins"),
        ptx=row.words("ptx"),
        host=row.strings("host"),
        redist=row.take("redist", str),
        release=row.take("release", bool),
        about=row.take("about", str),
    )


def _rows(raw: Row, section: str, make: Callable[[Row, str], T]) -> Mapping[str, T]:
    made = {}
    for name, values in raw.take(section, dict).items():
        row = Row(f"{section}.{name}", values)
        made[name] = make(row, name)
        row.done()
    return MappingProxyType(made)


def _check_target(table: Table, target: Target) -> None:
    row = Row(f"target.{target.name}", {})
    if target.toolkit not in table.toolkits:
        raise row.fail(f"toolkit {target.toolkit!r} has no row; there are {', '.join(table.toolkits)}")
    for kind, names in (("cubin", target.cubins), ("ptx", target.ptx)):
        for name in names:
            if name not in table.codes or table.codes[name].kind != kind:
                raise row.fail(f"{kind} {name!r} has no row [{kind}.{name}]")
    floor = f"{target.glibc.parts[0]}_{target.glibc.parts[1]}"
    if target.platform_tag != f"manylinux_{floor}_{target.machine}":
        raise row.fail(f"platform_tag {target.platform_tag!r} does not say glibc {target.glibc} on {target.machine}")
    if not table.default_codes(target, table.toolkits[target.toolkit]):
        raise row.fail(f"toolkit {target.toolkit} knows none of its cubins")


def _toml(text: str) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            raise ToolMissing(
                "this Python (older than 3.11) has no TOML reader: run through ./kw, or `pip install tomli`"
            ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"targets.toml: not valid TOML: {error}") from None


def parse(text: str) -> Table:
    """The table of this text, or a TableError that names the row."""
    raw = Row("top level", _toml(text))
    schema = raw.take("schema", int)
    if schema != SCHEMA:
        raise raw.fail(f"schema {schema} is not {SCHEMA}, the one this reader knows")
    tools, gcc = raw.sub("tools"), raw.sub("gcc")
    table = Table(
        toolkits=_rows(raw, "toolkit", _toolkit),
        codes=MappingProxyType({**_rows(raw, "cubin", _cubin), **_rows(raw, "ptx", _ptx)}),
        targets=_rows(raw, "target", _target),
        tools=Tools(tools.words("requirements"), tools.strings("locks")),
        gcc=Gcc(gcc.take("version", str), gcc.take("major", int), gcc.take("sysroot", str)),
    )
    for row in (tools, gcc, raw):
        row.done()
    for target in table.targets.values():
        _check_target(table, target)
    return table


def load(path: Path = PATH) -> Table:
    """targets.toml of this tree."""
    return parse(path.read_text(encoding="utf-8"))
