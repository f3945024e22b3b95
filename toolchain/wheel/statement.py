# SPDX-License-Identifier: MIT
"""in-toto statements: one in the wheel about its members, one beside it about the wheel itself. Neither is signed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from toolchain.wheel.recipe import Recipe

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:kernelwright:recipe:1"
NAME = "statement.json"
ABOUT_WHEEL = ".intoto.json"  # after the wheel's name


def statement(subjects: Mapping[str, str], recipe: Recipe) -> bytes:
    """name -> sha256 of what was made, and how to make it again."""
    return (
        json.dumps(
            {
                "_type": TYPE,
                "subject": [{"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)],
                "predicateType": PREDICATE,
                "predicate": recipe,
            },
            indent=1,
            sort_keys=True,
        )
        + "\n"
    ).encode()


def of_members(members: Mapping[str, bytes], recipe: Recipe) -> bytes:
    return statement({name: hashlib.sha256(data).hexdigest() for name, data in members.items()}, recipe)
