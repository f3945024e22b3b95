# SPDX-License-Identifier: MIT
"""The wheel's CycloneDX bill of materials (PEP 770): what is in it, and what made it and stayed behind."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from kernelwright_toolchain.project import project
from kernelwright_toolchain.wheel.recipe import Recipe

SPEC = "1.6"
# Members that are code; the others are text that anybody can read.
_CODE = (".so", ".cubin", ".ptx")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; .+?)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


def _hashes(digests: list[str]) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest} for digest in digests]


def _purl(name: str, version: str) -> str:
    """The package's address by the purl specification, where the plus of a local version is written %2B."""
    return f"pkg:pypi/{re.sub('[_.-]+', '-', name).lower()}@{urllib.parse.quote(version, safe='')}"


def _files(members: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    for name in sorted(members):
        if name.endswith(_CODE):
            digest = hashlib.sha256(members[name]).hexdigest()
            yield {"type": "file", "bom-ref": name, "name": name, "scope": "required", "hashes": _hashes([digest])}


def _tools(recipe: Recipe) -> Iterator[dict[str, Any]]:
    """The locked packages, out of scope: they made the wheel and are not in it. Each has its files for all machines."""
    found: dict[tuple[str, str], set[str]] = {}
    for lock in sorted(recipe["locks"]):
        for name, version, hashes in _PIN.findall(project().data(lock).read_text(encoding="utf-8")):
            found.setdefault((name, version), set()).update(re.findall(r"sha256:([0-9a-f]{64})", hashes))
    for (name, version), digests in sorted(found.items()):
        purl = _purl(name, version)
        yield {
            "type": "application", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "scope": "excluded", "hashes": _hashes(sorted(digests)),
        }  # fmt: skip


def _system(recipe: Recipe) -> Iterator[dict[str, Any]]:
    """Compilers that no lock names, as far as they say what they are."""
    device, own = recipe["device_compiler"], recipe["host_compiler"]
    if "provider" in recipe["build"]:
        yield {
            "type": "application", "bom-ref": "device-compiler", "name": device["driver"], "version": device["version"],
            "scope": "excluded",
        }  # fmt: skip
        name, _, version = own.get("front", own["driver"]).partition(" ")
        yield {
            "type": "application", "bom-ref": "host-compiler", "name": name, "version": version, "scope": "excluded",
        }  # fmt: skip


def sbom(name: str, version: str, members: Mapping[str, bytes], recipe: Recipe) -> bytes:
    """No serial number and no time: two builds of the same wheel give the same document."""
    parts = [*_files(members), *_tools(recipe), *_system(recipe)]
    own = _purl(name, version)
    return (
        json.dumps(
            {
                "bomFormat": "CycloneDX",
                "specVersion": SPEC,
                "version": 1,
                "metadata": {
                    "component": {
                        "type": "library", "bom-ref": own, "name": name, "version": version, "purl": own,
                        "licenses": [{"license": {"id": "MIT"}}],
                    }
                },
                "components": parts,
                "dependencies": [{"ref": own, "dependsOn": [p["bom-ref"] for p in parts if p["scope"] == "required"]}],
            },
            indent=1,
            sort_keys=True,
        )
        + "\n"
    ).encode()  # fmt: skip
