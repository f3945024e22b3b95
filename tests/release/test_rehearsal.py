# SPDX-License-Identifier: MIT
"""A release is rehearsed whole, each week; and of the rehearsal itself, what needs neither compilers nor systems."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request

import pytest

from tests.release import cut, index, roots
from tests.release.rehearse import next_of, targets_of_python
from tests.tree import ROOT


@pytest.mark.slow
@pytest.mark.long
def test_a_release_from_the_tag_to_the_uninstalled_wheel(tmp_path):
    if lacking := roots.missing():
        pytest.skip(f"no {', '.join(lacking)}; on Debian: apt-get install git debootstrap")
    if os.geteuid():
        pytest.skip("a root's programs are run by chroot, which needs root's rights")
    command = [sys.executable, "-m", "tests.release.rehearse", str(tmp_path / "release")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "toolchain")])}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "SUCCESS"
    for name, version in roots.SYSTEMS.items():
        assert f"{name}, Python {version}: installed, upgraded, two versions, toolchain, nothing stays" in done.stdout


def test_the_index_gives_bytes_by_their_digest_and_a_withdrawn_file_stays(tmp_path):
    place, wheel = tmp_path / "index", tmp_path / "a_b-1.0-py3-none-any.whl"
    wheel.write_bytes(b"its bytes")
    index.add(place, wheel)
    index.yank(place, wheel.name, 'a "reason"')
    with index.served(place) as address:
        page = urllib.request.urlopen(f"{address}/a-b/").read().decode()  # noqa: S310 - of this machine
        assert urllib.request.urlopen(f"{address}/a-b/{wheel.name}").read() == b"its bytes"  # noqa: S310
    assert f'href="{wheel.name}#sha256=2ea9ca2c5409c7c3146c81e7b9c4311e2bde5a5c8bb16b6012bed440dc0de434"' in page
    assert 'data-yanked="a &quot;reason&quot;">' in page
    with pytest.raises(AssertionError, match="is offered already"):
        index.add(place, wheel)


def test_a_project_is_called_as_indexes_call_it():
    assert index.name_of("kernelwright_toolchain-0.1.0-py3-none-any.whl") == "kernelwright-toolchain"
    assert index.name_of("kernelwright-0.1.0.tar.gz") == "kernelwright"
    assert index.name_of("MarkupSafe-3.0.4-cp311.whl") == "markupsafe"


def test_a_version_is_cut_as_the_page_says(tmp_path):
    """In a clone of a few files: the heading, the tag, the next version."""
    for name in ("pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    clone = cut.Clone(tmp_path)
    version = clone.version
    cut.replaced(tmp_path / "CHANGELOG.md", f"## {version} (unreleased)", f"## {version} ({cut.DAY})")
    with pytest.raises(AssertionError, match="0 times"):
        cut.replaced(tmp_path / "CHANGELOG.md", f"## {version} (unreleased)", "")
    assert next_of("0.1.9") == "0.1.10"
    assert targets_of_python()[0] == "3.10"


def test_the_workflows_own_script_lays_out_what_is_published():
    script = cut.script_of("release.yml", "sboms/*.cdx.json")
    assert script.startswith("mv notes.md ..\n")
    assert "sha256sum -- * > ../SHA256SUMS\n" in script
    with pytest.raises(AssertionError, match="no such words"):
        cut.script_of("release.yml", "no such words")
