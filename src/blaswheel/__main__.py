"""``python -m blaswheel`` is ``blaswheel``."""

from __future__ import annotations

import sys

from blaswheel._cli import main

if __name__ == "__main__":
    sys.exit(main())
