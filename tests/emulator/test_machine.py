# SPDX-License-Identifier: MIT
"""The emulator itself: kernels that are right give the right numbers, and each kind of fault is seen and named."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.emulator import build
from tests.emulator.machine import KERNELS, SOURCES, THREADS, kernels
from tests.tree import ROOT

pytestmark = pytest.mark.slow
CODE = "sm_90a"
PRODUCTS = {f"product_{kind}": 32 for kind in ("float16", "bfloat16")}
RIGHT = ("right_", "wgmma_")

# What the emulator says of each faulty kernel; "other numbers" where the fault shows in the result alone.
FAULTS = {
    "reads_past_the_end": ["ld.global.u32 reads 4 bytes, 4 past the end of in (256 bytes)"],
    "reads_before_the_beginning": ["ld.global.u32 reads 4 bytes, 4 before the beginning of in (256 bytes)"],
    "prefetches_past_the_end": ["cp.async.bulk.prefetch reads 272 bytes, 16 past the end of in (256 bytes)"],
    "plainly_reads_past_the_end": ["a plain load reads 4 bytes, 4 past the end of in (256 bytes)"],
    "reads_what_was_never_written": ["of out, where nothing was ever written"],
    "writes_its_input": ["a plain store writes to in, which is not to be written"],
    "loads_a_vector_off_16_bytes": ["ld.global.v4.u32: the address", "is no multiple of 16"],
    "lacks_a_barrier": ["a race: thread"],
    "overwrites_what_others_read": ["a race: thread"],
    "does_not_wait_for_an_arrival": ["a race: thread"],
    "arrives_before_it_writes": ["a race: thread"],
    "lacks_a_barrier_of_the_warp": ["a race: thread"],
    "reads_past_shared": ["a plain load: 4 bytes at byte", "are in no variable of the block"],
    "leaves_a_lane_out": ["wait for others that never come", "at shfl.sync.idx", "thread 7 of block 0 at bar.sync"],
    "a_lane_ends_early": ["which has ended", "ends while lanes"],
    "waits_at_different_barriers": ["wait for others that never come", "at bar.sync"],
    "does_not_wait_for_copies": ["a copy to these 4 bytes of shared memory was not waited for"],
    "waits_for_its_own_copies_alone": ["a copy to these 4 bytes of shared memory was not waited for", "a race: thread"],
    "begins_too_early": ["touches in before griddepcontrol.wait"],
    "never_waits_for_the_kernel_before": ["ends without griddepcontrol.wait"],
    "writes_to_a_block_before_it_begins": [
        "of the cluster may not have begun: no barrier said so",
        "never initialised",
    ],
    "writes_as_a_cluster_and_is_none": ["st.async: the launch has no clusters"],
    "copies_the_box_beside": ["other numbers"],
    "copies_the_box_below": ["other numbers"],
    "exchanges_column_and_row": ["other numbers"],
    "copies_a_box_past_the_end": ["other numbers"],
    "copies_a_box_off_16_bytes": ["cp.async.bulk.tensor: column 9 is not on 16 bytes"],
    "copies_a_box_off_128_bytes": ["cp.async.bulk.tensor to", "which is no multiple of 128"],
    "expects_more_of_a_box": ["wait for others that never come", "at mbarrier.try_wait"],
    "expects_less_of_a_box": ["16 bytes came to a barrier that was not told of them"],
    "does_not_wait_for_a_box": ["a copy to these 4 bytes", "a race: thread", "has ended", "other numbers"],
    "copies_a_box_over_what_others_read": ["a race: thread", "was not waited for"],
    "copies_a_box_of_nothing_described": ["the driver has described no matrix there"],
    "reads_a_swizzled_box_as_it_was": ["other numbers"],
    "stores_without_a_proxy_fence": ["had no fence.proxy.async after it"],
    "does_not_commit_a_store": ["ends while its stores still read shared memory"],
    "does_not_wait_for_a_store": ["ends while its stores still read shared memory"],
    "writes_what_a_store_reads": ["writes to shared memory that wgmma or a store still reads"],
    "stores_before_all_have_written": ["a race: thread", "had no fence.proxy.async after it"],
    "lacks_a_barrier_after_matrices": ["a race: thread"],
    "expects_its_own_copy_alone": ["bytes came to a barrier that was not told of them", "a copy to these", "has ended"],
    "copies_to_a_block_that_is_not_there": ["the cluster has 2 blocks, not those of 0x5"],
    "does_not_tell_the_other_block": ["wait for others that never come", "at mbarrier.try_wait"],
    "takes_registers_that_nobody_releases": ["wait for others that never come", "at setmaxnreg.inc"],
    "takes_fewer_registers_than_it_has": ["setmaxnreg.inc to 160 registers: the warp has 168"],
    "does_not_wait_for_products": ["touches a sum of wgmma.m64n16k16.bf16, which was not waited for"],
    "waits_for_one_group_too_few": ["touches a sum of wgmma.m64n16k16.bf16, which was not waited for"],
    "does_not_commit_a_product": ["touches a sum of wgmma.m64n16k16.bf16, which was not waited for"],
    "multiplies_without_a_proxy_fence": ["had no fence.proxy.async after it"],
    "has_its_proxy_fence_before_it_stores": ["had no fence.proxy.async after it"],
    "multiplies_before_all_have_stored": ["a race: thread", "had no fence.proxy.async after it"],
    "multiplies_without_a_wgmma_fence": ["no wgmma.fence came after its registers were last free to be written"],
    "writes_what_a_product_reads": ["writes to shared memory that wgmma or a store still reads"],
    "copies_over_what_a_product_reads": ["is written to shared memory that wgmma or a store still reads"],
    "a_warp_leaves_a_product_out": ["the warps of warpgroup 0 issued different products"],
    "ends_before_its_products": ["ends while its products are on their way"],
    "does_not_wait_for_other_blocks": ["has ended", "a copy to these 4 bytes", "other numbers"],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What machine.py printed."""
    try:
        build.compiler()
    except build.NoCompiler as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("emulator")
    driver = build.build_driver(folder)
    sources = {
        **{
            KERNELS / source: {name: THREADS.get(how, 64) for name, how in kernels(source).items()}
            for source in SOURCES
        },
        KERNELS / "matrices.cu": PRODUCTS,
    }
    image = build.build_image(CODE, sources, build.headers(), driver, folder)
    done = subprocess.run(
        [sys.executable, "-m", "tests.emulator.machine", driver, image],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_every_kernel_is_right_or_has_a_fault_named_here(found: dict[str, Any]):
    assert {name for name in found["said"] if not name.startswith(RIGHT)} == set(FAULTS)


def test_right_kernels_give_the_right_numbers(found: dict[str, Any]):
    """In whatever order things happen."""
    right = {name: said for name, said in found["said"].items() if name.startswith(RIGHT)}
    assert len(right) >= 5
    assert right == dict.fromkeys(right, [None] * 4)


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_fault_is_seen(found: dict[str, Any], kernel: str):
    """In one of the four orders at least, and everything that is said is about this fault."""
    said = [words for words in found["said"][kernel] if words is not None]
    assert said
    for words in said:
        assert any(part in words for part in FAULTS[kernel]), words
        assert words == "other numbers" or words.startswith(f"kernel {kernel}"), words


def test_products_of_matrices(found: dict[str, Any]):
    assert found["off"] == dict.fromkeys(PRODUCTS, 0.0)
