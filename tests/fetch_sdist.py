"""Download a source distribution as it is: ``python tests/fetch_sdist.py NAME==VERSION FOLDER``.

``pip download --no-binary`` also configures the project to learn its metadata, which for NumPy
takes minutes and a compiler. pip's own finder, with all of the user's configuration (index,
certificates, proxy), tells where the file is; nothing of it is run.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from urllib.request import url2pathname

from pip._internal.commands import create_command
from pip._internal.commands.download import DownloadCommand


def fetch(spec: str, folder: Path) -> Path:
    """Download the source distribution of ``spec`` to ``folder`` and return its path."""
    name, _, version = spec.partition("==")
    command = create_command("download", isolated=False)
    assert isinstance(command, DownloadCommand)
    with command.main_context():
        options, _ = command.parse_args(["--no-deps", "--no-binary", ":all:", spec])
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, ignore_requires_python=True)
        links = [
            candidate.link
            for candidate in finder.find_all_candidates(name)
            if str(candidate.version) == version and not candidate.link.is_wheel
        ]
        if not links:
            raise SystemExit(f"no source distribution of {spec}")
        link = links[0]
        if link.scheme == "file":
            content = Path(url2pathname(link.path)).read_bytes()
        else:
            response = session.get(
                link.url_without_fragment, headers={"Accept-Encoding": "identity"}
            )
            response.raise_for_status()
            content = response.content
    if link.hash_name and hashlib.new(link.hash_name, content).hexdigest() != link.hash:
        raise SystemExit(f"{link.filename} is not what the index says it is")
    path = folder / link.filename
    path.write_bytes(content)
    return path


if __name__ == "__main__":
    fetch(sys.argv[1], Path(sys.argv[2]))
