# SPDX-License-Identifier: MIT
"""Odd calls by the thousand, in a process of its own: what crashes it is then a failure like any other.

    python -m tests.python.hostile.program COUNT SEED FILE

FILE always holds the call that is being made. Prints one JSON object at the end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import hypothesis
import torch
from hypothesis import strategies as st

from kernelwright import ops
from tests.python.hostile.calls import Call, entries
from tests.python.hostile.judge import judge
from tests.python.hostile.notebook import Notebook

MOST = 20


def calls() -> st.SearchStrategy[Call]:
    oddity = st.tuples(st.integers(0, 59), st.integers(0, 199))
    return st.builds(
        Call, st.sampled_from(entries()), st.integers(0, 199), st.lists(oddity, max_size=3), st.integers(0, 2**20)
    )


def main() -> None:
    faulthandler.enable()
    count, seed, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(2)
    ops.register()
    notebook, ended, failures = Notebook(path), Counter[str](), list[str]()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate,),  # three oddities are few as they are
    )
    @hypothesis.given(calls())
    def many(call: Call) -> None:
        try:
            notebook.note(repr(call))
            ended["right" if judge(call) else "refused"] += 1
        except Exception as error:  # some more of them say more than the first
            failures.append(f"{notebook.last}\n    {''.join(traceback.format_exception(error))}")
            if len(failures) == MOST:
                raise

    start = time.perf_counter()
    with contextlib.suppress(Exception):
        many()
    seconds = round(time.perf_counter() - start, 1)
    print(json.dumps({**ended, "seconds": seconds, "seed": seed, "failures": failures}))


if __name__ == "__main__":
    main()
