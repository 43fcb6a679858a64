"""Which builds of NumPy and SciPy are to be shown to work, as data.

Order is that of worth: a run that is stopped has done the first ones. ``test_matrix.py`` builds a
cell and looks at what comes of it; ``docs/results.md`` lists all of them, those that no run has
recorded as *not run*.
"""

from __future__ import annotations

from dataclasses import dataclass

OPENBLAS = "0.3.34.481.3"
LP64, ILP64 = f"scipy-openblas32=={OPENBLAS}", f"scipy-openblas64=={OPENBLAS}"
MKL = ("mkl==2026.2.0", "intel-openmp==2026.2.0")
MKL_TO_BUILD = ("mkl-devel==2026.2.0", "mkl-include==2026.2.0")
PIP, BUILD, MESON = "pip wheel", "python -m build", "meson setup"
TITLES = {"numpy": "NumPy", "scipy": "SciPy"}
#: Without the second to fifth version, for newer CPUs, of what has no BLAS in it: most of the
#: time that it takes to build NumPy.
QUICK = "-Dcpu-dispatch=none"
NATIVE = ("--native",)
WIDE = ("--interface", "ilp64")


@dataclass(frozen=True)
class Cell:
    """One build.

    Attributes
    ----------
    project, version : str
        ``numpy`` or ``scipy``, from its released source.
    interface : {'lp64', 'ilp64', 'both'}
    files : str
        The ``.pc`` file that the build is to take, as ``show_config`` must say afterwards.
    providers : tuple of str
        What is installed when it is built and when it runs.
    exec_options : tuple of str
        For ``blaswheel exec``, besides ``--for``.
    setup : tuple of str
        Options for Meson, besides those that ``--for`` passes by itself.
    front_end : {'pip wheel', 'python -m build', 'meson setup'}
    python : str
    to_build : tuple of str
        What is installed when it is built only.
    """

    project: str
    version: str
    interface: str
    files: str
    providers: tuple[str, ...]
    exec_options: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    front_end: str = PIP
    python: str = "3.11"
    to_build: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tells it from the others."""
        words = (self.project, self.version, self.interface, self.files, self.front_end)
        options = [each.lstrip("-").replace("=", "-") for each in self.setup]
        return "-".join([*words, *options, f"py{self.python}"]).replace(" ", "-")

    @property
    def command(self) -> list[str]:
        """The command that builds it, or sets it up, without where sources are and results go."""
        words = ["blaswheel", "exec", "--for", self.project, *self.exec_options, "--"]
        if self.front_end == MESON:
            return [*words, "meson", "setup", *self.setup, "build"]
        options = [f"-Csetup-args={each}" for each in self.setup]
        if self.front_end == BUILD:
            return [*words, "python", "-m", "build", "--wheel", *options]
        front = ["pip", "wheel", "--no-cache-dir", "--no-deps", "--no-binary", self.project]
        return [*words, *front, f"{self.project}=={self.version}", *options]

    @property
    def row(self) -> dict[str, str]:
        """What the table of results says of it, run or not."""
        told = [each for each in self.exec_options if each not in WIDE]
        return {
            "Project": f"{TITLES[self.project]} {self.version}",
            "Python": self.python,
            "Integers": self.interface,
            "Library": ", ".join(each.replace("==", " ") for each in self.providers),
            "Found as": f"`{self.files}.pc`",
            "Front end": f"`{self.front_end}`",
            "Options": " ".join(f"`{each}`" for each in (*told, *self.setup)),
        }


def _numpy(
    version: str,
    interface: str,
    files: str,
    *providers: str,
    setup: tuple[str, ...] = (),
    **more: str,
) -> Cell:
    options: tuple[str, ...] = NATIVE if files == "scipy-openblas" else ()
    if interface == "ilp64":
        options += WIDE
    return Cell(
        "numpy",
        version,
        interface,
        files,
        providers,
        options,
        (QUICK, *setup),
        front_end=more.get("front_end", PIP),
        python=more.get("python", "3.11"),
    )


CELLS = (
    Cell("scipy", "1.17.1", "lp64", "openblas", (LP64,)),
    _numpy("2.4.6", "ilp64", "scipy-openblas", ILP64),
    _numpy("2.4.6", "lp64", "openblas", LP64),
    _numpy("2.0.2", "ilp64", "openblas64", ILP64, front_end=BUILD),
    _numpy("1.26.4", "lp64", "openblas", LP64),
    Cell(
        "numpy",
        "2.4.6",
        "lp64",
        "mkl-dynamic-lp64-iomp",
        MKL,
        ("mkl",),
        (QUICK,),
        to_build=MKL_TO_BUILD,
    ),
    _numpy("2.4.6", "ilp64", "openblas64", ILP64, python="3.13", front_end=BUILD),
    _numpy("2.4.6", "ilp64", "openblas64", ILP64),
    _numpy("2.4.6", "lp64", "openblas", LP64, front_end=MESON),
    Cell(
        "scipy",
        "1.17.1",
        "both",
        "scipy-openblas",
        (LP64, ILP64),
        NATIVE,
        ("-Duse-ilp64=true", "-Dblas-symbol-suffix=64_"),
        python="3.12",
    ),
    # NumPy's Meson knows MKL, and takes the model without threads unless told otherwise.
    Cell(
        "numpy",
        "2.4.6",
        "lp64",
        "mkl-dynamic-lp64-seq",
        MKL,
        ("mkl",),
        ("-Dblas=mkl", "-Dlapack=mkl", QUICK),
        to_build=MKL_TO_BUILD,
    ),
    _numpy("2.4.6", "lp64", "scipy-openblas", LP64, python="3.12"),
    _numpy("2.0.2", "lp64", "openblas", LP64, python="3.10"),
    _numpy("2.0.2", "ilp64", "scipy-openblas", ILP64, python="3.12"),
    _numpy("1.26.4", "ilp64", "openblas64", ILP64, python="3.10", front_end=BUILD),
    _numpy("1.26.4", "ilp64", "scipy-openblas", ILP64, python="3.12"),
    _numpy("2.4.6", "ilp64", "openblas64", ILP64, front_end=MESON),
    Cell("scipy", "1.17.1", "lp64", "scipy-openblas", (LP64,), NATIVE, front_end=BUILD),
    Cell("scipy", "1.17.1", "lp64", "openblas", (LP64,), front_end=MESON, python="3.12"),
    Cell("scipy", "1.16.3", "lp64", "openblas", (LP64,), python="3.13"),
    Cell("scipy", "1.14.1", "lp64", "openblas", (LP64,), python="3.10"),
    Cell(
        "scipy",
        "1.17.1",
        "lp64",
        "mkl-dynamic-lp64-iomp",
        MKL,
        ("mkl",),
        to_build=MKL_TO_BUILD,
    ),
)

#: What is to be shown and no test builds yet, by name: rows as those of cells.
PLANNED = (
    (
        "numpy-2.4.6-lp64-blas-packed",
        {
            "Project": "NumPy 2.4.6",
            "Python": "3.11",
            "Integers": "lp64",
            "Library": "Debian's BLIS with the reference LAPACK, packed into a wheel",
            "Found as": "`blas.pc`",
            "Front end": f"`{PIP}`",
            "Options": f"`{QUICK}`",
        },
    ),
)
