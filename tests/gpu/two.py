# SPDX-License-Identifier: MIT
"""All that only a machine with two GPUs can show, in one call; NCCL without NVLink multicast.

    python tests/gpu/two.py OUT [--wheel FILE] [--minutes N] [--only NAME …] [--device cpu] [--commit TEXT]

Each step is a process with a limit of its own. Steps that time nothing run at the same time, those that do alone and after
them. OUT/two.json is written after each: what became of it, and what it found. `--device cpu` tries the program where there
is no GPU: gloo, small sizes, without the steps that nothing but a GPU can take. The exit code is 1 unless all went well.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # for a start by path

from tests.gpu import everything  # from ROOT

PYTHON = sys.executable
# NVLink multicast: a program that uses it can put GPUs that others share out of service.
ENVIRONMENT = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "OMP_NUM_THREADS": "4",
}
WANTS_TWO = [
    "tests/python/test_cuda.py",
    "tests/ops/four_bit/test_four_bit_moves.py",
    "tests/ops/int8/test_int8_modules.py",
]


@dataclass(frozen=True)
class Step:
    """`together`: beside others. What it writes is OUT/<name>.json, what it prints OUT/<name>.txt."""

    name: str
    seconds: int
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    together: bool = True


def steps(out: Path, device: str) -> list[Step]:
    def module(name: str, seconds: int, label: str = "", **more: Any) -> Step:
        step = label or name
        command = [PYTHON, "-m", f"tests.gpu.pair.{name}", str(out / f"{step}.json"), "--device", device]
        return Step(step, seconds, [*command, *(["--quick"] if device == "cpu" else [])], **more)

    found = [
        module("qlora", 180, environment={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}),
        module("tensor_parallel", 150),
        module("one_process", 120),
        module("images", 170),
        module("cpp", 170),
    ]
    if device == "cuda":
        pytest = [
            PYTHON,
            "-m",
            "pytest",
            "-q",
            "-m",
            "gpu",
            "-rs",
            "-p",
            "no:cacheprovider",
            "-k",
            "device or data_parallel",
            *WANTS_TWO,
        ]
        found += [
            module("images", 170, "images-ptx", environment={"KERNELWRIGHT_ARCH": "compute_90"}),
            Step("tests", 170, pytest),
        ]
    return [*found, module("decode", 200, together=False)]


def machine(commit: str) -> dict[str, Any]:
    """What ran this: GPUs, driver, how they are linked, versions."""
    code = (
        "import json, torch, kernelwright; c = torch.cuda; print(json.dumps({'torch': torch.__version__, "
        "'kernelwright': kernelwright.__version__, 'devices': [c.get_device_name(k) for k in range(c.device_count())], "
        "'nccl': '.'.join(map(str, c.nccl.version())) if c.is_available() else None, "
        "'peer access': c.device_count() > 1 and c.can_device_access_peer(0, 1)}))"
    )
    found: dict[str, Any] = {"commit": commit, "command": " ".join(["python", *sys.argv]), "environment": ENVIRONMENT}
    found |= json.loads(
        subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    )
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        found["nvidia-smi"] = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split("\n")
        links = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, check=False).stdout
        found["links"] = [line for line in links.split("\n") if line.startswith("GPU")]
    return found


class Record:
    """OUT/two.json."""

    def __init__(self, out: Path, about: dict[str, Any]) -> None:
        self.out, self.found = out, {"machine": about, "steps": {}}
        self.well = True

    def note(self, step: Step, said: str, seconds: float) -> None:
        file = self.out / f"{step.name}.json"
        result = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        last = everything.last_line(self.out / f"{step.name}.txt")
        good = said == "ok" and (result is None or result.get("ok") is True)
        self.well &= good
        row = {"said": said, "ok": good, "seconds": round(seconds, 1), "command": " ".join(step.command[1:])}
        self.found["steps"][step.name] = row | ({"found": result} if result else {"last": last})
        (self.out / "two.json").write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        print(f"{step.name:18} {seconds:6.1f} s  {'ok' if good else f'NOT WELL ({said}): {last[:300]}'}", flush=True)


def run(chosen: list[Step], out: Path, end: float, record: Record) -> None:
    """All of them at once; each is noted as it ends."""
    started: dict[str, tuple[Step, subprocess.Popen[bytes], float]] = {}
    for step in chosen:
        environment = {**os.environ, **ENVIRONMENT, **step.environment}
        with (out / f"{step.name}.txt").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                step.command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        started[step.name] = step, process, time.monotonic()
    while started:
        for step, process, begin in list(started.values()):
            now = time.monotonic()
            if process.poll() is not None or now > min(begin + step.seconds, end):
                said = everything.ended_well(process, 0.0)
                del started[step.name]
                record.note(step, said, now - begin)
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--commit", default="")
    asked = parser.parse_args()
    out = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if asked.wheel:
        everything.install(asked.wheel.resolve(), out)
    record = Record(out, machine(asked.commit))
    chosen = [step for step in steps(out, asked.device) if not asked.only or step.name in asked.only]
    end = time.monotonic() + asked.minutes * 60
    run([step for step in chosen if step.together], out, end, record)
    for step in chosen:
        if not step.together:
            run([step], out, end, record)
    sys.exit(not record.well)


if __name__ == "__main__":
    main()
