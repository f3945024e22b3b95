# SPDX-License-Identifier: MIT
"""in-toto statements: one in the wheel about its members, one beside it about the wheel itself. Neither is signed.

The first says what decides the bytes, as a wheel is a function of that; the second what else is known of the build.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from kernelwright_toolchain.wheel.recipe import Recipe

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:kernelwright:recipe:2"
BESIDE = "urn:kernelwright:build:1"  # of the statement about the wheel: {"recipe": …, "made": …}
NAME = "statement.json"
ABOUT_WHEEL = ".intoto.json"  # after the wheel's name


def statement(subjects: Mapping[str, str], predicate: Recipe, kind: str = PREDICATE) -> bytes:
    """name -> sha256 of what was made, and how to make it again."""
    return (
        json.dumps(
            {
                "_type": TYPE,
                "subject": [{"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)],
                "predicateType": kind,
                "predicate": predicate,
            },
            indent=1,
            sort_keys=True,
        )
        + "\n"
    ).encode()


def of_members(members: Mapping[str, bytes], recipe: Recipe) -> bytes:
    return statement({name: hashlib.sha256(data).hexdigest() for name, data in members.items()}, recipe)
