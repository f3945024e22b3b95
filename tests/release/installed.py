# SPDX-License-Identifier: MIT
"""What people do with a release in a bare system: install, check, upgrade, keep two versions, uninstall."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from tests.release.roots import Root

_STEPS = """
set -e
cd /tmp
export HOME=/tmp/home PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONFIG_FILE=/dev/null
mkdir "$HOME"
index="--quiet --index-url $INDEX"
"""


@dataclass(frozen=True)
class Trial:
    """One Python of one system, with the index' address. Each script runs in a /tmp of its own."""

    root: Root
    version: str
    python: str
    index: str

    def script(self, text: str) -> str:
        return self.root.said("sh", "-c", _STEPS + text, INDEX=self.index, PYTHON=self.python)

    def package(self, first: str, second: str) -> None:
        """kernelwright without torch: install, self-check, upgrade, self-check, uninstall; nothing stays."""
        out = self.script(f"""
"$PYTHON" -m venv one
find one home | sort > before
one/bin/pip install $index kernelwright=={first}
one/bin/kernelwright --version
one/bin/kernelwright doctor --self
one/bin/pip install $index --upgrade kernelwright
one/bin/kernelwright --version
one/bin/kernelwright doctor --self
one/bin/pip check
one/bin/pip uninstall --quiet --yes kernelwright
find one home -name __pycache__ -prune -o -print | sort > after
grep -v __pycache__ before | diff - after && echo nothing stays
""")
        lines = out.splitlines()
        said = dict.fromkeys(line for line in lines if line.startswith("kernelwright "))
        assert list(said) == [f"kernelwright {first}", f"kernelwright {second}"], out
        assert lines[-1] == "nothing stays", out

    def two_versions(self, first: str, second: str) -> None:
        """In two environments, in two processes at the same time."""
        out = self.script(f"""
for version in {first} {second}; do
  "$PYTHON" -m venv $version
  $version/bin/pip install $index kernelwright==$version
done
for version in {first} {second}; do
  $version/bin/kernelwright doctor --self > said-$version 2>&1 && $version/bin/kernelwright --version >> said-$version &
done
wait
tail -n 1 said-{first} said-{second}
""")
        assert f"kernelwright {first}\n" in out
        assert f"kernelwright {second}\n" in out

    def toolchain(self, version: str, wheel: str) -> None:
        """kernelwright-toolchain: its verbs are there, it reads a wheel, begins a project; nothing of it stays."""
        out = self.script(f"""
"$PYTHON" -m venv one
find one home | sort > before
one/bin/pip install $index kernelwright-toolchain=={version}
one/bin/pip check
one/bin/pip download $index --no-deps --only-binary=:all: {shlex.quote(wheel)}
one/bin/kwt xray kernelwright-*.whl
(mkdir project && cd project && ../one/bin/kwt new hello > /dev/null && find hello -name '*.cu' | wc -l)
one/bin/pip freeze | grep -v ^kernelwright | xargs -r one/bin/pip uninstall --quiet --yes kernelwright-toolchain
one/bin/pip uninstall --quiet --yes kernelwright-toolchain 2> /dev/null
find one home -name __pycache__ -prune -o -print | sort > after
grep -v __pycache__ before | diff - after && echo nothing stays
""")
        assert out.splitlines()[-1] == "nothing stays", out
        assert "\n1\n" in out, out

    def with_torch(self, version: str) -> None:
        """The extra: torch comes with it, and the operators are torch's."""
        program = (
            "import torch, kernelwright; x = torch.randn(8, 256); w = torch.rand(256); y = kernelwright.rms_norm(x, w); "
            "torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (256,), w)); print('right with', torch.__version__)"
        )
        out = self.script(f"""
"$PYTHON" -m venv one
one/bin/pip install $index 'kernelwright[torch]=={version}'
one/bin/python -c {shlex.quote(program)}
""")
        assert "right with " in out

    def withdrawn(self, good: str) -> str:
        """The version that an index gives to who asks for none: not the yanked one."""
        out = self.script("""
"$PYTHON" -m venv one
one/bin/pip install $index kernelwright
one/bin/kernelwright --version
""")
        assert f"kernelwright {good}\n" in out, out
        return out
