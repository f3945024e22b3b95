# SPDX-License-Identifier: MIT
"""What is wrong with a wheel whatever machine it comes to: found by looking into it."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-110",
        title="the wheel's tag promises an older C library than its files need",
        area=Area.LIBRARIES,
        why="pip installs a wheel wherever its tag fits; there its libraries then fail to load.",
        fix="python -m pip install --force-reinstall --no-cache-dir --no-binary <package> <package>",
        then="That builds it for this system; or take another release. Its makers: auditwheel repair sets the tag "
        "that is true.",
    ),
    Cause(
        code="KW-111",
        title="the wheel tells about the machine that built it",
        area=Area.LIBRARIES,
        why="Names of temporary files hold the process id of the build, paths its user and directories: such a file differs "
        "at every build, so nobody can show that it comes from its sources.",
        fix="kwt init && kwt build",
        then="That is for its makers; who uses it has nothing to do. kwt is kernelwright-toolchain: nvcc runs where paths, "
        "process ids and dates are fixed. Without it -ffile-prefix-map cures host code and strip takes process ids out of "
        "linked libraries; paths in nvcc's internal names and in -lineinfo stay, whatever options are given.",
    ),
    Cause(
        code="KW-112",
        title="a file is damaged, or made to mislead",
        area=Area.LIBRARIES,
        why="What it says of its own contents cannot be so: it was cut short, or somebody wrote it to harm what reads it.",
        fix="python -m pip download --no-cache-dir --no-deps <package>",
        then="And compare its hash with the index's; do not install it otherwise.",
        signs=(sign(r"\.so[.\d]*['\"]?: (file too short|invalid elf header)", 2),),
        yields_to=("KW-035", "KW-036"),
    ),
    Cause(
        code="KW-120",
        title="nothing in it is a library or GPU code",
        area=Area.LIBRARIES,
        why="It is another kind of file, or a directory or archive of others: whether something runs cannot be told by it.",
        fix="python -m pip download --no-deps --only-binary :all: <package>",
        then="Give xray the wheel that this fetches, a .so, .cubin or .ptx file, or the directory into which the package was installed.",
    ),
)
