"""The set in the cache that ``env`` and ``exec`` put before a consumer."""

from __future__ import annotations

from blaswheel import _select, _set, _verify
from blaswheel._commands import _advice, _options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from blaswheel._environment import Environment
    from blaswheel._set import Written


def prepare(options: Namespace, mode: str) -> tuple[Written, Environment]:
    """Write the set that the options ask for into the cache; tell what the choice left open.

    Nothing is loaded: what an earlier ``pc`` or ``verify`` showed by calls is used.

    Parameters
    ----------
    mode : str
        The command's default runtime mode.
    """
    asked = _options.asked(options)
    # No run path relative to a module leads to an isolated copy in the cache.
    request = _options.request(options, "link" if options.isolate else mode)
    known = tuple(_verify.as_known(one) for one in asked.environment.libraries)
    environment = asked.environment.replace(libraries=known)
    choices = _set.choices_for(
        environment.libraries, asked.wish, environment.problems, request, options.consumer
    )
    _select.check_suffix(choices[0], asked.wish, request.suffix)
    written = _set.write_cached(choices, request, options.consumer, _options.sysroot())
    _advice.choice(choices)
    if not request.native:
        _advice.shadow(written.folder, native=False)
    return written, environment
