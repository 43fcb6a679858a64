"""Report which lines and branches tests run: ``python -m tests.coverage [TESTS ...]``.

Of blaswheel in this process and in all that it starts, environments of tests among them. It needs
the extra ``coverage``, and takes about twice as long as the tests alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.build_wheel import ROOT

TESTS = ("tests/unit", "tests/cli", "tests/wheels")


def main(tests: list[str]) -> int:
    """Run tests, print the report, and return the tests' exit status."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "COVERAGE_FILE": str(Path(folder, "data"))}

        def coverage(*words: str) -> int:
            command = [sys.executable, "-m", "coverage", *words]
            return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode

        status = coverage("run", "-m", "pytest", "-q", *(tests or TESTS))
        coverage("combine", "-q")
        coverage("report")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
