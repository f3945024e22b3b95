# SPDX-License-Identifier: MIT
"""The shape of a wheel's statement. A wheel from anywhere may say anything; this is looked at once, before it is read.

A form is a type (or several); a list with the form of its items; an object as name -> form, with `?` after a name that
may be missing; or an object of any names as {str: form}. Names that no form has may be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TEXTS = {str: str}
_COMPILER = {"compile?": [str], "link?": [str], "sets?": {str: [str]}}
STATEMENT = {
    "subject": [{"name": str, "digest": {"sha256": str}}],
    "predicate": {
        "build": {"target": str, "toolkit": str, "provider?": str, "debug": str, "archs?": str, "ops?": str},
        "source": {"sha256": str},
        "inputs": _TEXTS,
        "locks": _TEXTS,
        "device_compiler": _TEXTS,
        "host_compiler": _COMPILER,
    },
}
BESIDE = {
    "subject": [{"name": str, "digest": {"sha256": str}}],
    "predicate": {"made": {"commit": (str, type(None)), "dirty": (bool, type(None))}},
}
_WORDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


def _wrong(value: Any, kinds: tuple[type, ...], where: str) -> Iterator[str]:
    if not isinstance(value, kinds):
        yield f"{where} is {value!r:.60}, not {' or '.join(_WORDS[kind] for kind in kinds)}"


def faults(value: Any, form: Any, where: str) -> Iterator[str]:
    """What is wrong with a value, in words, the first first."""
    if isinstance(form, (type, tuple)):
        yield from _wrong(value, form if isinstance(form, tuple) else (form,), where)
    elif not isinstance(value, type(form)):
        yield from _wrong(value, (type(form),), where)
    elif isinstance(form, list):
        for number, item in enumerate(value):
            yield from faults(item, form[0], f"{where}[{number}]")
    elif str in form:
        for name, item in value.items():
            yield from faults(item, form[str], f"{where}.{name!s:.60}")
    else:
        for name, wanted in form.items():
            key = name.removesuffix("?")
            if key in value:
                yield from faults(value[key], wanted, f"{where}.{key}")
            elif key == name:
                yield f"{where} has no {key}"
