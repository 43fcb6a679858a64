"""``python -m tests.fuzz NAME [--seconds N]``: fuzz one reader, starting from its corpus.

It ends at the first finding, whose input it leaves in the current folder as ``crash-...``. Mend the
reader, and move the file to ``tests/fuzz/corpus/NAME``: the tests read all of it. It needs atheris
(``pip install atheris``).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

import atheris

from tests.fuzz import CORPUS

#: Of one input: seconds, and megabytes of the whole process.
MAX_SECONDS, MAX_MEMORY = 10, 2048


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=sorted(folder.name for folder in CORPUS.iterdir()))
    parser.add_argument("--seconds", type=int, default=60, metavar="N")
    parser.add_argument("--max-length", type=int, default=16384, metavar="BYTES")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="0: another each time")
    options = parser.parse_args()
    with atheris.instrument_imports(include=["blaswheel", "zipfile", "tomllib"]):
        from tests.fuzz.targets import PLACE, TARGETS

    # New inputs go to the first folder; those in the checkout stay what they are.
    os.environ["TMPDIR"] = tempfile.tempdir = str(PLACE)
    found = tempfile.mkdtemp(dir=PLACE)
    command = [
        sys.argv[0],
        f"-max_total_time={options.seconds}",
        f"-seed={options.seed}",
        f"-timeout={MAX_SECONDS}",
        f"-rss_limit_mb={MAX_MEMORY}",
        f"-max_len={options.max_length}",
        "-print_final_stats=1",
        found,
        str(CORPUS / options.name),
    ]
    atheris.Setup(command, TARGETS[options.name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
