"""Coverage-guided fuzzing of everything that reads files which others made."""

from __future__ import annotations

from pathlib import Path

#: Small files that fuzzing starts from, and those that once were findings: a folder per reader.
CORPUS = Path(__file__).with_name("corpus")
