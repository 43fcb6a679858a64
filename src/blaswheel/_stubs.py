"""The machine code of an alias: per format and processor, one tail call, as a declaration.

This is the only place that knows about processors. `_objects` writes the object files from it.

An alias leaves the arguments, the stack and the return address alone, so that it serves every
signature. What it may change are the registers that the ABI gives to whatever lies between a
caller and a callee, such as the linkage table.
"""

from __future__ import annotations

from blaswheel._errors import BlaswheelError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

#: What a relocation refers to: the native name, or ``_GLOBAL_OFFSET_TABLE_``.
NATIVE, GOT = 0, 1


class Stub(Record):
    """The code of an alias, whatever the format of the object."""

    code: bytes
    #: alignment of the code in bytes, a power of two
    alignment: int
    #: (offset in ``code``, type, addend, what it refers to)
    relocations: tuple[tuple[int, int, int, int], ...]
    #: whether names of C functions begin with an underscore
    underscore: bool = False


class ElfStub(Stub):
    """What an alias is in an ELF object: System V ABI, chapter 4, and its processor supplements."""

    #: ``e_machine`` and ``e_flags`` of the ELF header
    elf_machine: int
    elf_flags: int = 0
    #: word size, 32 or 64
    bits: Literal[32, 64] = 64
    byte_order: Literal["little", "big"] = "little"
    #: whether relocations hold their addend (RELA) or ``code`` does (REL)
    explicit_addends: bool = True
    #: bits of the symbol's ``st_other`` besides its visibility
    other: int = 0
    #: the symbol that tells code from data, where the ABI demands it
    mapping: str = ""
    #: ``GNU_PROPERTY_*_FEATURE_1_AND``: (type, bits) that the code complies with. An object
    #: without them takes the mark off everything it is linked into.
    features: tuple[int, int] | None = None


class MachoStub(Stub):
    """What an alias is in a Mach-O object, for macOS: Apple's ``mach-o/loader.h``, ``reloc.h``."""

    cpu: int
    subtype: int
    #: oldest system it is for, as LC_BUILD_VERSION has it: an older one than the output's is
    #: taken without a warning
    minimum_os: int


class CoffStub(Stub):
    """What an alias is in a COFF object, for Windows: Microsoft's "PE Format"."""

    coff_machine: int
    #: value of ``@feat.00``; its lowest bit says that no handler of exceptions is unregistered,
    #: without which ``/safeseh`` refuses the object
    features: int | None = None


# GNU_PROPERTY_X86_FEATURE_1_AND: IBT and SHSTK; GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI and PAC.
_X86_FEATURES = (0xC0000002, 0x3)
_AARCH64_FEATURES = (0xC0000000, 0x3)

_ELF: dict[str, ElfStub] = {
    # AMD64 supplement 1.0, section 4.4 (relocations) and 3.1 (property note).
    "x86_64": ElfStub(
        elf_machine=62,
        code=bytes.fromhex(
            "f30f1efa"  # endbr64: an alias whose address was taken is the target of a jump
            "ff2500000000"  # jmp *native@GOTPCREL(%rip)
        ),
        alignment=16,
        # R_X86_64_GOTPCRELX: the linker may make it a direct jump where the GOT isn't needed.
        relocations=((6, 41, -4, NATIVE),),
        features=_X86_FEATURES,
    ),
    # Intel386 supplement 1.1. A linkage table needs the GOT's address in ebx there, which belongs
    # to the caller and may hold anything; a jump through the GOT can do with ecx. The address
    # comes from a call that returns, so that a shadow stack stays in step.
    "i686": ElfStub(
        elf_machine=3,
        bits=32,
        code=bytes.fromhex(
            "f30f1efb"  # endbr32
            "e80c000000"  # call 1f
            "81c102000000"  # add $_GLOBAL_OFFSET_TABLE_, %ecx
            "ffa100000000"  # jmp *native@GOT(%ecx)
            "8b0c24"  # 1: mov (%esp), %ecx
            "c3"  # ret
        ),
        alignment=16,
        # R_386_GOTPC, counted from the end of the call, and R_386_GOT32X
        relocations=((11, 10, 2, GOT), (17, 43, 0, NATIVE)),
        explicit_addends=False,
        features=_X86_FEATURES,
    ),
    # ELF for the Arm 64-bit Architecture (aaelf64). Linkers extend the branch's reach of 128 MB.
    "aarch64": ElfStub(
        elf_machine=183,
        code=bytes.fromhex(
            "5f2403d5"  # bti c
            "00000014"  # b native
        ),
        alignment=4,
        relocations=((4, 282, 0, NATIVE),),  # R_AARCH64_JUMP26
        mapping="$x",
        features=_AARCH64_FEATURES,
    ),
    # ELF for the Arm Architecture (aaelf32), of EABI version 5; callers in Thumb state come
    # through what the linker puts between.
    "armv7l": ElfStub(
        elf_machine=40,
        elf_flags=0x05000000,
        bits=32,
        code=bytes.fromhex("feffffea"),  # b native
        alignment=4,
        relocations=((0, 29, -8, NATIVE),),  # R_ARM_JUMP24
        explicit_addends=False,
        mapping="$a",
    ),
    # 64-bit ELF V2 ABI. A branch can't restore the caller's TOC pointer after the call: that the
    # local entry is 1 (three bits of st_other) says that the function neither has nor keeps one,
    # so that the linker saves it around the call; NOTOC says the same of the branch.
    "ppc64le": ElfStub(
        elf_machine=21,
        elf_flags=2,
        code=bytes.fromhex("00000048"),  # b native@notoc
        alignment=4,
        relocations=((0, 116, 0, NATIVE),),  # R_PPC64_REL24_NOTOC
        other=1 << 5,
    ),
    # zSeries supplement 1.6.
    "s390x": ElfStub(
        elf_machine=22,
        byte_order="big",
        code=bytes.fromhex("c0f400000000"),  # jg native@PLT
        alignment=2,
        relocations=((2, 20, 2, NATIVE),),  # R_390_PLT32DBL
    ),
    # RISC-V ELF psABI; the flags say that doubles are passed in registers (lp64d).
    "riscv64": ElfStub(
        elf_machine=243,
        elf_flags=0x4,
        code=bytes.fromhex(
            "17030000"  # auipc t1, native@plt
            "67000300"  # jr t1
        ),
        alignment=4,
        relocations=((0, 19, 0, NATIVE),),  # R_RISCV_CALL_PLT, of both instructions
    ),
    # LoongArch ELF psABI; the flags say lp64d, and relocations of the second kind.
    "loongarch64": ElfStub(
        elf_machine=258,
        elf_flags=0x43,
        code=bytes.fromhex("00000050"),  # b native
        alignment=4,
        relocations=((0, 66, 0, NATIVE),),  # R_LARCH_B26
    ),
}

_MACHO: dict[str, MachoStub] = {
    "x86_64": MachoStub(
        underscore=True,
        cpu=0x01000007,
        subtype=3,
        minimum_os=0x000A0900,
        code=bytes.fromhex("e900000000"),  # jmp native
        alignment=16,
        relocations=((1, 2, 0, NATIVE),),  # X86_64_RELOC_BRANCH
    ),
    "aarch64": MachoStub(
        underscore=True,
        cpu=0x0100000C,
        subtype=0,
        minimum_os=0x000B0000,
        code=bytes.fromhex("00000014"),  # b native
        alignment=4,
        relocations=((0, 2, 0, NATIVE),),  # ARM64_RELOC_BRANCH26
    ),
}

# Functions whose complex result the native one writes to where a hidden first argument points, and
# the caller wants in registers, as gfortran's callers do: a frame with room for the result, the
# arguments (up to five, all addresses) moved along by one, the call. Per processor the code up to
# the result, with its relocation; what loads a result of double and of single precision; the end.
_COMPLEX: dict[str, tuple[bytes, tuple[int, int, int, int], dict[str, bytes], bytes]] = {
    "x86_64": (
        bytes.fromhex(
            "f30f1efa"  # endbr64
            "4883ec18"  # sub $24, %rsp
            "4d89c1 4989c8 4889d1 4889f2 4889fe"  # mov %r8, %r9 ... mov %rdi, %rsi
            "4889e7"  # mov %rsp, %rdi
            "ff1500000000"  # call *native@GOTPCREL(%rip)
        ),
        (28, 41, -4, NATIVE),
        {
            "double": bytes.fromhex("f20f100424 f20f104c2408"),  # movsd to %xmm0 and %xmm1
            "single": bytes.fromhex("f20f100424"),  # both halves in %xmm0
        },
        bytes.fromhex("4883c418 c3"),  # add $24, %rsp; ret
    ),
    "aarch64": (
        bytes.fromhex(
            "3f2303d5"  # paciasp, which is a landing pad too
            "fd7bbea9 fd030091"  # stp x29, x30, [sp, #-32]!; mov x29, sp
            "e50304aa e40303aa e30302aa e20301aa e10300aa"  # mov x5, x4 ... mov x1, x0
            "e0430091"  # add x0, sp, #16
            "00000094"  # bl native
        ),
        (36, 283, 0, NATIVE),  # R_AARCH64_CALL26
        {
            "double": bytes.fromhex("e007416d"),  # ldp d0, d1, [sp, #16]
            "single": bytes.fromhex("e007422d"),  # ldp s0, s1, [sp, #16]
        },
        bytes.fromhex("fd7bc2a8 bf2303d5 c0035fd6"),  # ldp x29, x30, [sp], #32; autiasp; ret
    ),
}

# A jump to the native name itself, not through ``__imp_``: it also serves where that name is in
# a static library.
_COFF: dict[str, CoffStub] = {
    "x86_64": CoffStub(
        coff_machine=0x8664,
        code=bytes.fromhex("e900000000"),  # jmp native
        alignment=16,
        relocations=((1, 4, 0, NATIVE),),  # IMAGE_REL_AMD64_REL32
    ),
    "i686": CoffStub(
        coff_machine=0x014C,
        code=bytes.fromhex("e900000000"),  # jmp native
        alignment=16,
        relocations=((1, 20, 0, NATIVE),),  # IMAGE_REL_I386_REL32
        underscore=True,
        features=1,
    ),
    "aarch64": CoffStub(
        coff_machine=0xAA64,
        code=bytes.fromhex("00000014"),  # b native
        alignment=4,
        relocations=((0, 3, 0, NATIVE),),  # IMAGE_REL_ARM64_BRANCH26
    ),
}

#: Per format of the object files, as `Binary.format` names it: what there is.
STUBS: dict[str, dict[str, ElfStub] | dict[str, MachoStub] | dict[str, CoffStub]] = {
    "elf": _ELF,
    "macho": _MACHO,
    "pe": _COFF,
}
_SYSTEMS = {"elf": "", "macho": " on macOS", "pe": " on Windows"}


def stub(machine: str, kind: str = "elf") -> ElfStub | MachoStub | CoffStub:
    """Return the alias code of ``machine``, as `Binary.machine` names it.

    Parameters
    ----------
    machine : str
    kind : {'elf', 'macho', 'pe'}
        Format of the objects.

    Raises
    ------
    BlaswheelError
        If there is none.
    """
    there = STUBS[kind]
    try:
        return there[machine]
    except KeyError:
        raise BlaswheelError(
            f"no alias archive can be written for {machine}{_SYSTEMS[kind]} "
            f"(only for {', '.join(there)})",
            "use the library's own names: --native",
        ) from None


def complex_stub(machine: str, kind: str, precision: str) -> ElfStub:
    """Return the code that turns a complex result in memory into one in registers.

    Parameters
    ----------
    machine : str
        As `Binary.machine` names it.
    kind : {'elf', 'macho', 'pe'}
        Format of the objects.
    precision : {'single', 'double'}

    Raises
    ------
    BlaswheelError
        If there is none.
    """
    if kind != "elf" or machine not in _COMPLEX:
        raise BlaswheelError(
            f"--complex-return value is not to be had for {machine}{_SYSTEMS[kind]} "
            f"(only for {', '.join(_COMPLEX)})",
            "leave it out, and tell the consumer how the library returns them",
        )
    begin, relocation, loads, end = _COMPLEX[machine]
    plain = _ELF[machine]
    return plain.replace(code=begin + loads[precision] + end, relocations=(relocation,))
