"""The Meson subproject's files: as they are shipped, and as they are in a project.

Each file is written with a first line that has the digest of the rest, by which one that was edited
is known; line ends don't count, since version control may change them.
"""

from __future__ import annotations

import os

from blaswheel import _files
from blaswheel._errors import BlaswheelError

FILES = ("blaswheel.wrap", "blaswheel/meson.build", "blaswheel/meson.options")
_MARK = "# written by blaswheel "


def contents() -> dict[str, str]:
    """Return the files below ``subprojects/`` as this blaswheel writes them."""
    from blaswheel import __version__

    shipped = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_subproject")
    found = {}
    for name in FILES:
        with open(os.path.join(shipped, name), encoding="utf-8", newline=None) as file:
            text = file.read()
        mark = f"{_MARK}{__version__}, digest {_files.digest(text)}: blaswheel meson writes it anew"
        found[name] = f"{mark}\n{text}"
    return found


def state(path: str, wanted: str) -> str:
    """Return what is at ``path``: ``absent``, ``current``, ``old``, ``edited`` or ``foreign``."""
    if not os.path.lexists(path):
        return "absent"
    try:
        with open(path, encoding="utf-8", newline=None) as file:
            first, _, rest = file.read().partition("\n")
    except (OSError, UnicodeDecodeError):
        return "foreign"
    if not first.startswith(_MARK):
        return "foreign"
    if first.partition(", digest ")[2].partition(":")[0] != _files.digest(rest):
        return "edited"
    return "current" if rest == wanted.partition("\n")[2] else "old"


def states(project: str) -> dict[str, str]:
    """Return the state of each file of the subproject in a project, by its path in it.

    Raises
    ------
    BlaswheelError
        If the folder is no Meson project.
    """
    if not os.path.isfile(os.path.join(project, "meson.build")):
        raise BlaswheelError(
            f"{project} is no Meson project: it has no meson.build",
            "give the folder of the project's main meson.build",
        )
    return {
        f"subprojects/{name}": state(os.path.join(project, "subprojects", name), text)
        for name, text in contents().items()
    }


def write(project: str, *, force: bool) -> list[str]:
    """Write the files that are not current, and return their paths in the project.

    Raises
    ------
    BlaswheelError
        If one of them is foreign or edited; then none is written, unless ``force``.
    """
    found = states(project)
    for path, what in found.items():
        if what in ("edited", "foreign") and not force:
            why = "was edited" if what == "edited" else "was not written by blaswheel"
            raise BlaswheelError(
                f"{os.path.join(project, path)} {why}",
                "move it away, or say --force to have it replaced",
            )
    texts = contents()
    changed = [path for path, what in found.items() if what != "current"]
    for path in changed:
        content = texts[path.partition("/")[2]].encode("utf-8")
        _files.write_atomically(os.path.join(project, path), content)
    return changed
