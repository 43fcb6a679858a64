"""What NumPy's and SciPy's builds need to be told to use a library, and what goes wrong else."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._library import Library

#: How many folders below site-packages the modules lie that call BLAS. SciPy's go from
#: ``scipy/linalg`` to ``scipy/sparse/linalg/_eigen/arpack``.
DEPTHS = {"numpy": (2,), "scipy": (2, 3, 4, 5)}


def names(library: Library, interface: str) -> tuple[str, str, str]:
    """Return the ``.pc`` files of the plain set that have the BLAS and the LAPACK, and a suffix.

    The suffix is that of ILP64 names in them, without effect on LP64. MKL's are named by model:
    ``dependency('mkl')`` means different things to different versions of Meson.
    """
    layers = library.vendor.layers
    if layers is not None and library.threading is not None:
        name = layers.pc_name(interface, library.threading)
        return name, name, "_64"
    if library.implementation == "openblas":
        return "openblas", "openblas", "64_"
    end = "64" if interface == "ilp64" else ""
    return f"blas{end}", f"lapack{end}", "64_"


def complex_return(library: Library) -> str | None:
    """Return how complex functions return: as calls showed, else as all builds of it do."""
    return library.complex_return or library.vendor.complex_return


def options(
    consumer: str,
    interface: str,
    suffix: str,
    *,
    native: bool,
    complex_return: str | None = None,
    files: tuple[str, str] = ("openblas", "openblas"),
) -> list[str]:
    """Return the Meson options with which a consumer uses a library.

    Parameters
    ----------
    consumer : {'numpy', 'scipy'}
    interface : {'lp64', 'ilp64'}
    suffix : str
        Of the names in the ``.pc`` file.
    native : bool
        Whether the files are those of ``--native``, which these consumers find by themselves.
    complex_return : str, optional
        ``argument`` if complex functions return through a hidden argument.
    files : (str, str)
        The ``.pc`` files of BLAS and LAPACK.
    """
    found = []
    if not native:
        found += [f"-Dblas={files[0]}", f"-Dlapack={files[1]}"]
    if interface == "ilp64":
        # NumPy knows from native files' macros that integers are wide.
        if not (native and consumer == "numpy"):
            found.append("-Duse-ilp64=true")
        found.append(f"-Dblas-symbol-suffix={suffix}")
    if consumer == "numpy":
        found.append("-Dallow-noblas=false")
    if consumer == "scipy" and complex_return == "argument":
        found.append("-Duse-g77-abi=true")
    return found


def advice(library: Library, interface: str, consumer: str) -> str:
    """Return the options, and what would go wrong without them, for a person."""
    blas, lapack, marked = names(library, interface)
    suffix = marked if interface == "ilp64" else ""
    chosen = options(
        consumer,
        interface,
        suffix,
        native=False,
        complex_return=complex_return(library),
        files=(blas, lapack),
    )
    why = {
        f"-Dblas={blas}": "looks for openblas only, not for MKL or others first"
        if blas == "openblas"
        else "looks for this file only, not for others first",
        f"-Dlapack={lapack}": "takes LAPACK from the same library",
        "-Duse-ilp64=true": "else the 64-bit library is passed over or called with 32-bit integers",
        f"-Dblas-symbol-suffix={suffix}": "else SciPy prints the suffix that it detects, and "
        "ignores it"
        if consumer == "scipy"
        else "else NumPy takes the suffix that it detects",
        "-Dallow-noblas=false": "else NumPy builds without a BLAS when it finds none, and says "
        "nothing",
        "-Duse-g77-abi=true": "this library returns complex values through a hidden argument",
    }
    lines = [" ".join(chosen), ""]
    width = max([28, *map(len, chosen)])
    lines += [f"  {option:{width}} {why[option]}" for option in chosen]
    return "\n".join(lines) + "\n"
