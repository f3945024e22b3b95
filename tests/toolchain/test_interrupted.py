# SPDX-License-Identifier: MIT
"""What a person sees and keeps who ends a build at any moment: no traceback, and nothing in /tmp.

`faults.py` beside this file kills builds in more ways, and compares the bytes of the next one.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.toolchain import faults

TRIES = 10
CODES = {signal.SIGINT: {130}, signal.SIGTERM: {143, -15}}  # of nox, which does not listen to the second, or of kw


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    made = faults.Tree(tmp_path_factory.mktemp("interrupted") / "tree")
    if not list((made.root / ".kw").glob("nox-*")) or not (made.root / ".kw" / "tools").is_dir():
        pytest.skip("no nox or no tools in .kw/: `./kw provision` brings them")
    return made


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_a_build_that_is_ended_says_no_traceback_and_leaves_nothing_in_tmp(tree, tmp_path, monkeypatch, number):
    """As a terminal's Ctrl-C and a service manager do it, to the whole group."""
    monkeypatch.delenv("KERNELWRIGHT_CACHE", raising=False)  # each try compiles what it forgot
    chance, temporary = random.Random(number), tmp_path / "temporary"
    temporary.mkdir()
    assert tree.build() == 0, tree.said()
    tree.forget(chance)
    began = time.monotonic()
    assert tree.build() == 0, tree.said()
    lasts = time.monotonic() - began
    struck = 0
    while struck < TRIES:
        tree.forget(chance)
        child = tree.start(TMPDIR=str(temporary))
        time.sleep(chance.uniform(0.2, lasts))
        if child.poll() is not None:
            lasts *= 0.9
            continue
        os.killpg(child.pid, number)
        code = child.wait(120)
        faults.until_ended(tree)
        struck += 1
        said = tree.said()
        assert "Traceback" not in said, said
        assert code in CODES[number], said
        assert list(temporary.iterdir()) == []
