"""What NumPy's and SciPy's builds need to be told to use a library, and what goes wrong else."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._library import Library


def options(
    consumer: str, interface: str, suffix: str, *, native: bool, complex_return: str | None = None
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
    """
    found = []
    if not native:
        found += ["-Dblas=openblas", "-Dlapack=openblas"]
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
    suffix = "64_" if interface == "ilp64" else ""
    chosen = options(
        consumer, interface, suffix, native=False, complex_return=library.complex_return
    )
    why = {
        "-Dblas=openblas": "looks for openblas only, not for MKL or others first",
        "-Dlapack=openblas": "takes LAPACK from the same library",
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
    lines += [f"  {option:28} {why[option]}" for option in chosen]
    return "\n".join(lines) + "\n"
