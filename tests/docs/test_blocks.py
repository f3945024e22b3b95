# SPDX-License-Identifier: MIT
"""Every code block of README.md and docs/ is run, or says in its first line, which no reader sees, why it is not.

```` ```python ````                 runs alone; torch and kernelwright are imported, as pages that begin in the middle expect
```` ```python with NAME ````       runs after the function of that name here has made what the page talks about
```` ```sh run (TEST) ````          a test of tests/docs/test_examples.py takes it from the page
```` ```sh skip (WHY) ````          is not run; what its lines name is still looked up
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tree import ROOT

PAGES = ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")))
RUN_HERE = ("python", "toml")
_INFO = re.compile(r"^(\w+)(?: (with|run|skip) ?(.*))?$")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    how: str
    what: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> list[Block]:
    """Those that name a language; what a program prints has none."""
    found: list[Block] = []
    lines, begin, info = [], 0, None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif info is None:
            info, begin, lines = line[3:].strip(), number, []
        else:
            if info:
                language, how, what = _INFO.fullmatch(info).groups() if _INFO.fullmatch(info) else ("?", "?", info)
                found.append(Block(page, begin, language, how or "", what or "", "\n".join(lines)))
            info = None
    return found


ALL = [block for page in PAGES for block in blocks_of(page, (ROOT / page).read_text(encoding="utf-8"))]


def wrong(block: Block, tests: str) -> str | None:
    """What is wrong with the way in which a block says how it is run."""
    if block.how == "skip":
        return None if re.fullmatch(r"\(.{12,}\)", block.what) else "skips without a reason"
    if block.how == "run":
        name = block.what.strip("()")
        return None if re.search(rf"^def {re.escape(name)}\(", tests, re.MULTILINE) else f"no test is called {name}"
    if block.how == "with":
        return None if block.what in SETUPS and block.language == "python" else f"nothing here makes {block.what!r}"
    return None if block.language in RUN_HERE and not block.how else f"nothing runs {block.language!r} {block.how}"


def test_every_block_is_run_or_says_why_not():
    tests = (ROOT / "tests/docs/test_examples.py").read_text(encoding="utf-8")
    assert len(ALL) > 50
    assert [f"{block}: {why}" for block in ALL if (why := wrong(block, tests))] == []


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ("sh", "nothing runs"),
        ("sh skip", "without a reason"),
        ("sh skip (later)", "without a reason"),
        ("python with nobody", "nothing here makes"),
        ("cpp run (test_gone)", "no test is called"),
        ("python once", "nothing runs"),
    ],
)
def test_a_block_that_nobody_runs_is_seen(info, why):
    (block,) = blocks_of("page.md", f"```{info}\nx\n```")
    assert why in wrong(block, "def test_there():\n")


# --- what pages talk about before they show a block ---------------------------------


def _rows() -> dict[str, Any]:
    import torch

    x, weight, bias = torch.randn(4, 64), torch.randn(64, 64), torch.randn(64)
    gate, up = torch.randn(2, 128, 64)
    return {"x": x, "weight": weight, "bias": bias, "gate": gate, "up": up}


def _gpu() -> dict[str, Any]:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    return {"x": torch.randn(64, 4096, device="cuda"), "weight": torch.ones(4096, device="cuda")}


def _model() -> dict[str, Any]:
    import torch

    return {"model": torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))}


def _bitsandbytes() -> dict[str, Any]:
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    return {}


def _llama() -> dict[str, Any]:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    return {"model": transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, vocab_size=500)).eval()}


def _checkpoint(place: Path) -> dict[str, Any]:
    _llama()["model"].save_pretrained(place / "model")
    return {"path": str(place / "model")}


def _checkpoint_and_peft(place: Path) -> dict[str, Any]:
    for library in ("peft", "accelerate"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    return _checkpoint(place)


IN_A_FOLDER = (_checkpoint, _checkpoint_and_peft)
SETUPS: dict[str, Callable[..., dict[str, Any]]] = {
    "rows": _rows, "a GPU": _gpu, "a model": _model, "bitsandbytes": _bitsandbytes, "a Llama": _llama,
    "a checkpoint": _checkpoint, "a checkpoint and peft": _checkpoint_and_peft,
}  # fmt: skip


@pytest.fixture
def put_back():
    """Whatever a block switched on is off again."""
    yield
    import sys

    for name in ("transformers", "bitsandbytes", "torch"):
        module = sys.modules.get(f"kernelwright.integrations.{name}")
        if module is not None and module.enabled():
            module.disable()


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")  # whatever other libraries warn of is theirs
@pytest.mark.parametrize("block", [b for b in ALL if b.language == "python" and b.how in ("", "with")], ids=str)
def test_python(block, tmp_path, put_back, monkeypatch):
    pytest.importorskip("kernelwright", reason="the kernelwright wheel is not installed here")
    import torch

    import kernelwright

    monkeypatch.chdir(tmp_path)  # where a block saves
    torch.manual_seed(0)
    names: dict[str, Any] = {"torch": torch, "kernelwright": kernelwright, "__name__": "__main__"}
    if block.how == "with":
        setup = SETUPS[block.what]
        names |= setup(tmp_path) if setup in IN_A_FOLDER else setup()
    before = dict(names)
    exec(compile(block.code, str(block), "exec"), names)  # noqa: S102
    made = {key: value for key, value in names.items() if key not in before or before[key] is not value}
    for key, value in made.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            assert value.double().isfinite().all(), key


@pytest.mark.parametrize("block", [b for b in ALL if b.language == "toml"], ids=str)
def test_toml(block):
    from kernelwright_toolchain.targets.read import toml

    assert toml(block.code, str(block))


# --- commands: verbs and files exist, whether or not anybody runs the block -----------


def verbs(folder: str) -> set[str]:
    return {path.stem for path in (ROOT / "toolchain/kernelwright_toolchain" / folder).glob("[a-z]*.py")}


def own_verbs() -> set[str]:
    """What `python -m kernelwright` takes."""
    tree = ast.parse((ROOT / "src/kernelwright/__main__.py").read_text(encoding="utf-8"))
    table = next(n for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign) and "_VERBS" in ast.unparse(n)[:8])
    return {key.value for key in table.value.keys if isinstance(key, ast.Constant)}


def unknown(code: str) -> list[str]:
    """Verbs that no program here takes, and files of the tree that are not there."""
    sessions = set(
        re.findall(r"^def (\w+)\(session: nox", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE)
    )
    known = {
        r"\./kw (\w[\w-]*)": sessions - {"toolchain"},
        r"nox -s (\w[\w-]*)": sessions - {"toolchain"},
        r"python3? -m toolchain (\w[\w-]*)": verbs("commands"),
        r"(?:python -m kernelwright|(?<![\w/.-])kernelwright) ([a-z][\w-]*)": own_verbs(),
        r"(?<![\w/.])kwt (\w[\w-]*)": verbs("verbs"),
    }
    code = re.sub(r"#.*", "", code)
    found = [
        match[0] for pattern, there in known.items() for match in re.finditer(pattern, code) if match[1] not in there
    ]
    files = re.findall(r"(?<![\w./-])((?:tests|benchmarks|examples|toolchain|locks)/[\w./-]+\.\w+)", code)
    return found + [file for file in files if not (ROOT / file).exists()]


@pytest.mark.parametrize("block", [b for b in ALL if b.language == "sh"], ids=str)
def test_commands_name_what_there_is(block):
    assert unknown(block.code) == []


def test_a_command_that_is_gone_is_seen():
    code = (
        "./kw biuld\npython -m kernelwright explian x\nkwt nwe a\npython benchmarks/runs.py\npython -m toolchain nots\n"
    )
    assert len(unknown(code)) == 5
