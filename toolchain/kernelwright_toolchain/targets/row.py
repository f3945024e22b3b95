# SPDX-License-Identifier: MIT
"""One table of targets.toml, read strictly: whatever is wrong with it is said with the row's name and the key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from kernelwright_toolchain.errors import TableError
from kernelwright_toolchain.targets.model import Version

T = TypeVar("T")


class Row:
    """Takes keys out by name and type; `done()` complains about the rest."""

    def __init__(self, name: str, values: Any) -> None:
        self.name = name
        if not isinstance(values, Mapping):
            raise self.fail(f"expected a table, found {values!r}")
        self._left = dict(values)

    def fail(self, text: str) -> TableError:
        return TableError(f"targets.toml [{self.name}]: {text}")

    def take(self, key: str, kind: type[T]) -> T:
        if key not in self._left:
            raise self.fail(f"key {key!r} is missing")
        value = self._left.pop(key)
        # Not isinstance: `true` is an int to Python and would pass for a number.
        if type(value) is not kind:
            raise self.fail(f"{key} = {value!r} should be of type {kind.__name__}")
        return value

    def has(self, key: str) -> bool:
        return key in self._left

    def done(self) -> None:
        if self._left:
            raise self.fail(f"unknown key {min(self._left)!r}")

    def text(self, key: str, pattern: str = r"\S(.*\S)?") -> str:
        """A string that is wholly `pattern`; by default anything but empty or padded."""
        return self._matched(key, self.take(key, str), pattern)

    def words(self, key: str, pattern: str = r"\S(.*\S)?") -> tuple[str, ...]:
        value: list[Any] = self.take(key, list)
        if not all(isinstance(item, str) for item in value):
            raise self.fail(f"{key} = {value!r} should hold strings only")
        if len(set(value)) != len(value):
            raise self.fail(f"{key} = {value!r} names something twice")
        return tuple(self._matched(key, item, pattern) for item in value)

    def version(self, key: str) -> Version:
        return self.parse(key, self.take(key, str))

    def release(self, key: str) -> Version:
        return self.parse_release(key, self.take(key, str))

    def parse(self, key: str, text: str) -> Version:
        # Nine digits at most: Python refuses to make an integer of thousands of them.
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*", text):
            raise self.fail(f"{key} = {text!r} is not a dotted version")
        return Version.parse(text)

    def parse_release(self, key: str, text: str) -> Version:
        version = self.parse(key, text)
        # A trailing .0 would compare as newer, and a bare major as older than any of its minors.
        if len(version.parts) != 2:
            raise self.fail(f"{key} = {text!r} should be major.minor")
        return version

    def sub(self, key: str) -> Row:
        return Row(f"{self.name}.{key}", self.take(key, dict))

    def table(self, key: str, keys: tuple[str, ...], pattern: str = r"\S(.*\S)?") -> Mapping[str, str]:
        """A sub-table of strings with exactly these keys."""
        sub = self.sub(key)
        made = MappingProxyType({name: sub.text(name, pattern) for name in keys})
        sub.done()
        return made

    def per_machine(self, key: str, machines: frozenset[str], pattern: str) -> Mapping[str, str]:
        """A sub-table of strings whose keys are machines that some target has."""
        sub = self.sub(key)
        made = MappingProxyType({name: sub.text(name, pattern) for name in sorted(machines) if sub.has(name)})
        sub.done()
        return made

    def _matched(self, key: str, value: str, pattern: str) -> str:
        if not re.fullmatch(pattern, value):
            raise self.fail(f"{key}: {value!r} is not of the form {pattern}")
        return value
