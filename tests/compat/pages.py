"""Read the code of the pages of migration."""

import pathlib
import re

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "guides"


def python_blocks(name):
    """Return the blocks of Python code of a page, without the indentation of a list."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", (DOCS / name).read_text(), re.M | re.S)
    return [re.sub(f"^{indent}", "", block, flags=re.M) for indent, block in blocks]
