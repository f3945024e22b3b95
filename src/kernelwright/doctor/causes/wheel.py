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
        fix="Take another release, or a system with the glibc named here; its makers: auditwheel repair sets the tag that is true.",
    ),
    Cause(
        code="KW-111",
        title="the wheel tells about the machine that built it",
        area=Area.LIBRARIES,
        why="Names of temporary files hold the process id of the build, paths its user and directories: such a file differs "
        "at every build, so nobody can show that it comes from its sources.",
        fix="Nothing has to be done to use it; its makers: nvcc -objtemp, -ffile-prefix-map, strip.",
    ),
    Cause(
        code="KW-112",
        title="a file is damaged, or made to mislead",
        area=Area.LIBRARIES,
        why="What it says of its own contents cannot be so: it was cut short, or somebody wrote it to harm what reads it.",
        fix="Download it again and compare its hash with the index's; do not install it otherwise.",
        signs=(sign(r"\.so[.\d]*['\"]?: (file too short|invalid elf header)", 2),),
        yields_to=("KW-035", "KW-036"),
    ),
    Cause(
        code="KW-114",
        title="nothing in it is a library or GPU code",
        area=Area.LIBRARIES,
        why="It is another kind of file, or a directory or archive of others: whether something runs cannot be told by it.",
        fix="ls -lR <it> shows what is there: give xray the wheel, the .so, the cubin, or the directory into which the package was installed.",
    ),
)
