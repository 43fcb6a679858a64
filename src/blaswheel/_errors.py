"""What can go wrong, as the user should read it: one line on what, one on what to do."""

from __future__ import annotations

#: A name in a file may hold line breaks, or what moves the cursor of a terminal.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}


class BlaswheelError(Exception):
    """What was asked for can't be had.

    Parameters
    ----------
    message : str
        One line on what is wrong.
    hint : str
        One line on what to do about it.
    """

    #: Exit status of the command line for this error.
    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        message, hint = message.translate(_CONTROLS), hint.translate(_CONTROLS)
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(BlaswheelError):
    """Options that contradict each other or make no sense; exit status 2."""

    exit_status = 2


class FormatError(BlaswheelError):
    """A file is not what its kind of reader can read: truncated, malformed or hostile."""
