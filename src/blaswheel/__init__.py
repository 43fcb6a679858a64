"""Use the BLAS inside an installed wheel from any build.

`find` and `find_all` look into the environment without loading or importing anything; the
`Library` they return gives compile and link arguments and the text of a ``.pc`` file. `preload`
loads one into this process, `loaded` tells of all that are in it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._api import (
        Library,
        find,
        find_all,
        loaded,
        preload,
        write_distributor_init,
    )
    from blaswheel._errors import BlaswheelError

__version__ = "0.1.0"
__all__ = [
    "BlaswheelError",
    "Library",
    "__version__",
    "find",
    "find_all",
    "loaded",
    "preload",
    "write_distributor_init",
]


if not TYPE_CHECKING:
    # Loaded when first used: the command line imports this package and needs none of it.
    def __getattr__(name: str) -> object:
        if name == "BlaswheelError":
            from blaswheel._errors import BlaswheelError

            return BlaswheelError
        if name in __all__:
            from blaswheel import _api

            return getattr(_api, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
