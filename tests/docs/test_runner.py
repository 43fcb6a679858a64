"""What runs the pages' blocks notices what is wrong with a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import Reader, blocks

FENCE = "```"


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text.replace("'''", FENCE), encoding="utf-8")
    return path


@pytest.mark.tool("bash")
@pytest.mark.parametrize(
    "text",
    [
        "<!-- run: new -->\n'''sh\nexit 3\n'''\n",
        "<!-- run: new -->\n'''sh\nfalse\necho later\n'''\n",
        "<!-- run: new -->\n'''sh\nfalse | true\n'''\n",
        "<!-- run: new; fails -->\n'''sh\ntrue\n'''\n",
        "<!-- run: new -->\n'''sh\necho one\n'''\n\nprints\n\n'''text\ntwo\n'''\n",
        "<!-- run: new -->\n'''sh\necho one >&2\n'''\n\n'''text\n'''\n",
        "<!-- run: new -->\n'''sh\nprintf 'one\\ntwo\\n'\n'''\n\n'''text\n...two ...\n'''\n",
        "<!-- run: new -->\n'''sh\ncat file\n'''\n\n<!-- file: file -->\n'''text\n'''\n",
    ],
    ids=["status", "first", "pipe", "success", "output", "stderr", "line", "order"],
)
def test_what_is_wrong_fails(reader: Reader, tmp_path: Path, text: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:"):
        reader.follow(page(tmp_path, text))


@pytest.mark.tool("bash")
def test_what_is_right_passes(reader: Reader, tmp_path: Path) -> None:
    text = """
<!-- file: sub/a -->
'''ini
one
'''
<!-- file: sub/a; add -->
'''ini
$two
'''
<!-- run: new -->
'''sh
value=kept
cd sub
cat a
'''
'''text
one
$two
'''
<!-- run: new; fails -->
'''sh
echo $value
false
'''
'''text
k...t
...
'''
<!-- run: none -->
'''python
import blaswheel
print(blaswheel.find_all())
'''
'''text
[]
'''
"""
    reader.follow(page(tmp_path, text))


def test_markers(tmp_path: Path) -> None:
    text = (
        "'''sh\nls\n'''\n<!-- run: new -->\n\n'''sh\nls\n'''\n"
        "<!-- not run: macOS -->\n'''sh\nls\n'''\n"
        "'''text\nfree\n'''\n'''{toctree}\nnames\n'''\n"
    )
    found = blocks(page(tmp_path, text))
    assert [block.accounted for block in found] == [False, False, True]
    assert [block.line for block in found] == [1, 6, 10]
