"""What a command that may load the chosen library learns by calling it."""

from __future__ import annotations

import os
import sys

from blaswheel import _verify
from blaswheel._commands._options import say
from blaswheel._errors import BlaswheelError
from blaswheel._probe import ProbeMissingError
from blaswheel._static import NotLinkedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from blaswheel._library import Library
    from blaswheel._select import Choice

_FORMAT = {"win32": "pe", "darwin": "macho"}.get(sys.platform, "elf")
#: What systems call machines, and what wheel tags call them.
_MACHINES = {"arm64": "aarch64", "AMD64": "x86_64", "amd64": "x86_64", "i386": "i686"}


def foreign(library: Library) -> str | None:
    """Return why a library can't be loaded on this machine, or None."""
    binary = library.binary
    if binary.system != _FORMAT:
        return f"is a library of another system ({binary.system})"
    here = os.uname().machine if hasattr(os, "uname") else os.environ["PROCESSOR_ARCHITECTURE"]
    here = _MACHINES.get(here, here)
    if _MACHINES.get(binary.machine, binary.machine) != here:
        return f"is for {binary.machine}, this machine is {here}"
    return None


def by_calls(choices: Iterable[Choice], wanted: str | None) -> list[Choice]:
    """Call each library that was chosen; where a call contradicts the evidence, it wins.

    Parameters
    ----------
    choices : iterable of Choice
    wanted : {'lp64', 'ilp64'}, optional
        The interface that was asked for.

    Raises
    ------
    BlaswheelError
        If a library does not pass, or calls show it to have another interface than was asked for.
    """
    return [_by_calls(choice, wanted) for choice in choices]


def _by_calls(choice: Choice, wanted: str | None) -> Choice:
    library = choice.library
    reason = foreign(library)
    if reason is not None:
        say(f"not verified: {library.title} {reason}")
        return choice
    try:
        verdict = _verify.verify(library)
    except (ProbeMissingError, NotLinkedError) as error:
        # What needs no call works without the program: a package may have left it out. Nor does it
        # need a compiler.
        say(f"not verified: {error.message}")
        return choice
    if not verdict.ok:
        for line in verdict.errors.splitlines():
            sys.stderr.write(f"  | {line}\n")
        raise BlaswheelError(
            f"{library.title} {verdict.failure}",
            f"{verdict.hint}; --no-verify does without calling it",
        )
    for line in (*_verify.disagreements(library, verdict), *verdict.warnings):
        say(line)
    called = _verify.apply(library, verdict)
    if choice.interface not in called.interfaces():
        if wanted is not None:
            shown = called.interface.upper()
            raise BlaswheelError(
                f"calls show {library.title} to be {shown}, not {wanted.upper()}",
                f"ask for --interface {called.interface}, or for another library",
            )
        # What was said of the choice was said of the other interface.
        return choice.replace(library=called, interface=called.interface, notes=())
    return choice.replace(library=called)
