# SPDX-License-Identifier: MIT
"""Tells what a program printed from what a person wrote: a letter that quotes a message is no log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor.explain._lines import Line

# Programs say "you" and "please" too; "I" and questions that begin like these they do not.
_PERSON = re.compile(
    r"(^|[\s(,])(i|i'm|i've|i'll|me|my|mine|we're|we've|our)[\s,.!?)]"
    r"|(^|[.!?,:;] |\b(and|but|so|or|hello|hi|hey),? )"
    r"(what|why|how|can|could|would|does|should|who|when|where|which"
    r"|is (it(?! installed)|this|that|there|my|the)|are (there|these|the)|has any|any(one|body))\b[^?]{3,}\?"
    r"|^(hi|hello|hey|dear|good (morning|evening|day)|thanks|thank you|(best|kind|many)? ?regards|cheers|greetings)"
    r"\b[^:]{0,30}$|^(hi|hello|hey|dear)\b.{0,30},"
)
# What stands in a program's output alone.
_PRINTED = re.compile(
    r"^(traceback \(|file \"|>>> |\$ |[-=*#+]{4,}|\[ *\d+[/%]|-- |\w+: command not found|make(\[\d+\])?:|cmake |ninja: "
    r"|nvcc |g?cc |collecting |building )"
    r"|^['* ]{0,4}[\w.]*(error|exception|warning|fatal|failed|info|debug)\b ?(\[|:|\()"
    r"|^\S{0,3} ?container \S+ +\w+ing\b|^(failed|unable|impossible) to \w+ [^.?!:]{3,60}: \S"
    r"|^\[?(\([\w.-]+\) ?)?[\w.-]+@[\w.-]+[: ]\S{0,60}\]?[$#%>] |^(\([\w.-]+\) ?)+[$#%>] |^ps [a-z]:\\"
    r"|(^|[\s'\"(=])(/[\w.+@-]+){2,}|\b[a-z]:\\|\.(py|pyx|cu|cuh|cpp|cc|c|h|hpp|so|rs|js)(:\d+|\(\d+\)|\", line)"
    r"|\b0x[0-9a-f]{4,}|exit (code|status)|returned non-zero|\d\d:\d\d:\d\d"
)
_ADDRESS = re.compile(r"https?://\S+")
# In a person's sentence a message stands in quotation marks, or behind the word for what it is.
_QUOTED = re.compile(
    r"'[^']{8,}'|\"[^\"]{8,}\"|\*[^*]{8,}\*"
    r"|\b(\w*(error|warning|exception)s?|messages?|says?|said|got|gives|printed): ?\S.{8,}"
    # Without a colon: "I get the error no kernel image …"; what begins like a sentence of its own is none.
    r"|\b(i|we|me|it|just|always|still|then|now) (got|get|gets|getting|see|gives|says|shows|printed)"
    r"( the| an| this)?( following)?( errors?| messages?| warnings?)?:? "
    r"(?!(that|to|if|whether|how|what|no idea|a|the|my)\b)\S.{8,}"
    r"|\b(with|the|this|an) (error|message|warning|exception)s?( message)? "
    r"(?!(that|is|was|when|in|on|and|i|if)\b)\S.{8,}"
)


def by_person(bare: str) -> bool:
    """Whether one line is a person's sentence rather than a program's."""
    return bool(_PERSON.search(bare)) and not _PRINTED.search(_ADDRESS.sub("", bare))


def is_letter(lines: Iterable[Line]) -> bool:
    """Whether a person wrote all of it: someone speaks, and nothing looks printed."""
    spoken = False
    for line in lines:
        if _PRINTED.search(_ADDRESS.sub("", line.bare)):
            return False
        spoken = spoken or by_person(line.bare)
    return spoken


def quotes(bare: str, begin: str) -> bool:
    """Whether a sentence quotes the message in which a sign was found."""
    return any(begin in found[0] for found in _QUOTED.finditer(bare))
