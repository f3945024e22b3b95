# SPDX-License-Identifier: MIT
"""What a wheel says of itself, held to the formats' own rules: CycloneDX's schema, in-toto's specification."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import shutil
import subprocess
from urllib.parse import urlsplit

import pytest
import tiny

from kernelwright_toolchain import targets
from kernelwright_toolchain.building import publish
from kernelwright_toolchain.exact.wheel import commit_of
from kernelwright_toolchain.request import resolve
from kernelwright_toolchain.wheel import recipe, sbom, statement

TABLE = targets.load()
MEMBERS = {
    "kernelwright/__init__.py": b"",
    "kernelwright/kernels/sm_89/a.cubin": b"cubin",
    "kernelwright/lib/libkernelwright.so": b"library",
}
MADE = {"commit": "c" * 40, "dirty": True, "built_on": "x86_64", "provider": "pip", "compilers": {}}
COMPILERS = {
    "device_compiler": {"driver": "nvcc", "version": "12.2.140"},
    "host_compiler": {"driver": "gcc", "front": "GNU 12.4.0"},
}


def recipes() -> list[tuple[str, recipe.Recipe]]:
    """One for each toolkit that pip has, and for each other provider; with the locks of this tree."""
    found = []
    for kit in TABLE.toolkits.values():
        request = resolve(TABLE, target="linux-x86_64", toolkit=kit.name)
        build = {key: value for key, value in recipe.settings(request).items() if key != "provider"}
        found.append((kit.name, {**tiny.RECIPE, "build": build, "locks": recipe.locks(TABLE, request)}))
    for provider in ("system", "conda", "nix"):
        request = resolve(TABLE, target="linux-x86_64", provider=provider)
        made = {"build": recipe.settings(request), "locks": recipe.locks(TABLE, request), **COMPILERS}
        found.append((provider, {**tiny.RECIPE, **made}))
    return found


def problems(document: bytes) -> list[str]:
    """What CycloneDX's own schema, in its strict reading, says against it."""
    pytest.importorskip("jsonschema", reason="locks/tests.txt has it; this environment was made otherwise")
    lib = pytest.importorskip("cyclonedx.validation.json", reason="locks/tests.txt has cyclonedx-python-lib")
    from cyclonedx.schema import SchemaVersion

    version = SchemaVersion.from_version(sbom.SPEC)
    errors = lib.JsonStrictValidator(version).validate_str(document.decode(), all_errors=True)
    return [str(error.data.message) for error in errors or ()]


@pytest.mark.parametrize(("name", "made"), recipes(), ids=lambda value: value if isinstance(value, str) else "")
def test_the_bill_of_materials_is_one_by_cyclonedx_own_schema(name, made):
    document = sbom.sbom("kernelwright", "0.1.0", MEMBERS, made)
    assert problems(document) == []
    read = json.loads(document)
    refs = [part["bom-ref"] for part in [read["metadata"]["component"], *read["components"]]]
    assert len(set(refs)) == len(refs)  # what the schema cannot say: references are unique and lead somewhere
    assert {one for line in read["dependencies"] for one in (line["ref"], *line["dependsOn"])} <= set(refs)
    inside = {part["name"]: part["hashes"][0]["content"] for part in read["components"] if part["scope"] == "required"}
    assert inside == {n: hashlib.sha256(data).hexdigest() for n, data in MEMBERS.items() if not n.endswith(".py")}
    outside = [part["name"] for part in read["components"] if part["scope"] == "excluded"]
    if "provider" not in made["build"]:
        assert {"ziglang", TABLE.toolkits[name].pypi["nvrtc"]} <= set(outside)
    else:
        assert outside[-2:] == ["nvcc", "GNU"]


def test_packages_are_named_as_the_purl_specification_has_it():
    """The letters that stay as they are, by that specification; what reads a purl refuses or misreads others."""
    urls = pytest.importorskip("packageurl", reason="locks/tests.txt has it, with cyclonedx-python-lib")
    read = json.loads(sbom.sbom("kernelwright", "0.1.0+cu128.sm90a", MEMBERS, recipes()[0][1]))
    own = read["metadata"]["component"]
    assert own["purl"] == own["bom-ref"] == "pkg:pypi/kernelwright@0.1.0%2Bcu128.sm90a"
    for part in [own, *read["components"]]:
        if "purl" in part:
            url = urls.PackageURL.from_string(part["purl"])
            assert (url.to_string(), url.version) == (part["purl"], part["version"])


def test_the_schema_sees_what_is_wrong():
    document = json.loads(sbom.sbom("kernelwright", "0.1.0", MEMBERS, recipes()[0][1]))
    for spoil, said in (
        (lambda d: d["components"][0].update(type="wheel"), "'wheel' is not one of"),
        (lambda d: d["components"][0]["hashes"][0].update(content="xyz"), "'xyz' does not match"),
        (lambda d: d["metadata"]["component"]["licenses"][0]["license"].update(id="MTI"), "MTI"),
        (lambda d: d.update(builder="me"), "'builder' was unexpected"),
        (lambda d: d.pop("bomFormat"), "'bomFormat' is a required property"),
    ):
        wrong = copy.deepcopy(document)
        spoil(wrong)
        assert said in " ".join(problems(json.dumps(wrong).encode()))


def in_toto(document: bytes) -> dict[str, object]:
    """The statement, if it is one by the specification of in-toto's attestation framework, v1; field by field."""
    read = json.loads(document)
    assert set(read) == {"_type", "subject", "predicateType", "predicate"}
    assert read["_type"] == "https://in-toto.io/Statement/v1"  # always this text
    assert read["subject"]  # "Subject artifacts are matched purely by digest": each has one
    for subject in read["subject"]:
        assert set(subject) == {"name", "digest"}
        assert subject["name"]
        for algorithm, value in subject["digest"].items():  # DigestSet: lower-case hex
            assert (algorithm, bool(re.fullmatch("[0-9a-f]{64}", value))) == ("sha256", True)
    names = [subject["name"] for subject in read["subject"]]
    assert len(set(names)) == len(names)  # "MUST be unique within subject"
    assert urlsplit(read["predicateType"]).scheme  # TypeURI: a URI with a scheme, opaque
    assert re.search(r"[:/]v?\d+$", read["predicateType"])  # that ends in a version
    assert isinstance(read["predicate"], dict)
    return read


def test_the_statement_is_one_by_in_totos_specification():
    read = in_toto(statement.of_members(MEMBERS, tiny.RECIPE))
    assert read["subject"] == [
        {"name": name, "digest": {"sha256": hashlib.sha256(data).hexdigest()}} for name, data in sorted(MEMBERS.items())
    ]
    assert read["predicate"] == tiny.RECIPE


def test_what_lies_beside_the_wheels_is_about_all_of_them(tmp_path):
    wheels = [tiny.write(tmp_path / f"{name}.whl", tiny.sealed({"a": name.encode()})) for name in ("one", "two")]
    (tmp_path / "gone.whl.intoto.json").write_text("{}", encoding="utf-8")
    (tmp_path / ".one.whl.part").write_text("half", encoding="utf-8")
    for wheel in wheels:
        publish.publish(wheel, lambda: MADE)
    about = sorted(path.name for path in tmp_path.iterdir())
    assert about == ["SHA256SUMS", "one.whl", "one.whl.intoto.json", "two.whl", "two.whl.intoto.json"]
    for wheel in wheels:
        read = in_toto((tmp_path / f"{wheel.name}.intoto.json").read_bytes())
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        assert read["subject"] == [{"name": wheel.name, "digest": {"sha256": digest}}]
        assert read["predicate"] == {"recipe": tiny.RECIPE, "made": MADE}
        publish.publish(wheel, dict)  # again, of the same bytes: what is known of their build stays
        assert in_toto((tmp_path / f"{wheel.name}.intoto.json").read_bytes()) == read
        assert commit_of(wheel, digest) == f"{'c' * 40} with changes that no commit has"
        assert commit_of(wheel, "0" * 64) == ""
    if shutil.which("sha256sum"):
        said = subprocess.run(
            ["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert said.stdout.count(": OK") == 4


def test_a_wheel_that_changed_or_was_never_listed_is_not_vouched_for_by_the_next_build(tmp_path):
    """One that was damaged in dist/, and one that its self-check refused: `install --from dist` takes what is listed."""
    one, two, strange = (tiny.write(tmp_path / f"{n}.whl", tiny.sealed({"a": n.encode()})) for n in ("1", "2", "3"))
    publish.publish(one, dict)
    one.write_bytes(one.read_bytes() + b"!")
    publish.publish(two, dict)
    listed = [line.split()[1] for line in (tmp_path / publish.SUMS).read_text(encoding="utf-8").splitlines()]
    assert listed == ["2.whl", "2.whl.intoto.json"]
    assert not (tmp_path / "1.whl.intoto.json").exists()  # it was about other bytes
    publish.publish(strange, dict)
    (tmp_path / "2.whl").unlink()
    publish.publish(strange, dict)
    listed = [line.split()[1] for line in (tmp_path / publish.SUMS).read_text(encoding="utf-8").splitlines()]
    assert listed == ["3.whl", "3.whl.intoto.json"]
    assert one.is_file()  # nobody's file is removed
