# SPDX-License-Identifier: MIT
"""What a person sees and keeps who ends a build at any moment: no traceback, and nothing among the temporary files.

`faults.py` beside this file kills builds in more ways, and compares the bytes of the next one.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.toolchain import faults

TRIES, LONGEST = 10, 25  # seconds; what a try has done, the next one need not do, and comes further
CODES = {signal.SIGINT: {130}, signal.SIGTERM: {143, -15}}  # of a verb, or of what had not come to it


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    made = faults.Tree(tmp_path_factory.mktemp("interrupted") / "tree")
    if not list((made.root / ".kw").glob("nox-*")) or not (made.root / ".kw" / "tools").is_dir():
        pytest.skip("no nox or no tools in .kw/: `./kw provision` brings them")
    return made


def ended(group: int, seconds: float = 60) -> None:
    """Waits for the last process of it: nox, where a signal ends it, is gone before its verb has cleaned up."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError(f"group {group} has not ended after {seconds} s")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_a_build_that_is_ended_says_no_traceback_and_leaves_nothing_temporary(tree, tmp_path, monkeypatch, number):
    """As a terminal's Ctrl-C and a service manager do it, to the whole group."""
    monkeypatch.delenv("KERNELWRIGHT_CACHE", raising=False)  # each try compiles what it forgot
    chance, temporary = random.Random(number), tmp_path / "temporary"
    temporary.mkdir()
    struck = 0
    while struck < TRIES:
        child = tree.start(TMPDIR=str(temporary))
        time.sleep(waited := chance.uniform(0.2, LONGEST))
        if child.poll() is not None:
            assert child.returncode == 0, tree.said()
            tree.forget(chance)
            continue
        os.killpg(child.pid, number)
        code = child.wait(120)
        ended(child.pid)
        struck += 1
        said = f"after {waited:.1f} s:\n{tree.said()}"
        print(f"{number.name} {said}")
        assert "Traceback" not in said, said
        assert code in CODES[number], said
        assert list(temporary.iterdir()) == [], said
