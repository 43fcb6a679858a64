"""The machine code of an alias: per processor, one tail call through the GOT, as a declaration.

This is the only place that knows about processors. `_alias` writes the object files from it.
"""

from __future__ import annotations

from blaswheel._errors import BlaswheelError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


class Stub(Record):
    """What an alias is on one processor.

    ``code`` is the shortest tail call that the ABI allows: it leaves the arguments, the stack and
    the return address alone, so that it serves every signature.
    """

    #: ``e_machine`` and ``e_flags`` of the ELF header
    elf_machine: int
    elf_flags: int = 0
    #: word size, 32 or 64
    bits: Literal[32, 64] = 64
    byte_order: Literal["little", "big"] = "little"
    code: bytes
    #: alignment of the code in bytes, a power of two
    alignment: int
    #: (offset in ``code``, type, addend), all against the native name
    relocations: tuple[tuple[int, int, int], ...]
    #: ``GNU_PROPERTY_*_FEATURE_1_AND``: (type, bits) that the code complies with. An object
    #: without them takes the mark off everything it is linked into.
    features: tuple[int, int] | None = None


_STUBS: dict[str, Stub] = {
    # System V ABI, AMD64 supplement 1.0, section 4.4 (relocations) and 3.1 (property note).
    "x86_64": Stub(
        elf_machine=62,
        code=bytes.fromhex(
            "f30f1efa"  # endbr64: an alias whose address was taken is the target of a jump
            "ff2500000000"  # jmp *native@GOTPCREL(%rip)
        ),
        alignment=16,
        # R_X86_64_GOTPCRELX: the linker may make it a direct jump where the GOT isn't needed.
        relocations=((6, 41, -4),),
        # GNU_PROPERTY_X86_FEATURE_1_AND: IBT, SHSTK
        features=(0xC0000002, 0x3),
    ),
}


def stub(machine: str) -> Stub:
    """Return the alias code of ``machine``, as `Binary.machine` names it.

    Raises
    ------
    BlaswheelError
        If there is none.
    """
    try:
        return _STUBS[machine]
    except KeyError:
        raise BlaswheelError(
            f"no alias archive can be written for {machine} (only for {', '.join(_STUBS)})",
            "use the library's own names: --native",
        ) from None
