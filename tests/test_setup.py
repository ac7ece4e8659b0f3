"""The README that package indexes show has absolute addresses in its links and pictures."""

import pathlib
import re
import runpy

import pytest

ROOT = pathlib.Path(__file__).parents[1]
REPOSITORY = "https://example.org/owner/name"


LINKS = {
    "[a](docs/a.md)": "[a](URL/blob/main/docs/a.md)",
    "[a](docs/a.md#b)": "[a](URL/blob/main/docs/a.md#b)",
    "![a](docs/a.png)": "![a](URL/raw/main/docs/a.png)",
    '![a](docs/a.png "title")': '![a](URL/raw/main/docs/a.png "title")',
    '<img src="docs/a.svg">': '<img src="URL/raw/main/docs/a.svg">',
    '<source srcset="a.png">': '<source srcset="URL/raw/main/a.png">',
    '<a href="docs/a.md">': '<a href="URL/blob/main/docs/a.md">',
    **{
        other: other
        for other in (
            "[a](https://a.org/b.md)",
            "[a](#b)",
            "```python\nlayers[0](x)\n```",
            "f(a) [b]",
        )
    },
}


@pytest.mark.parametrize(("text", "expected"), LINKS.items())
def test_relative_links_and_pictures_become_absolute(text, expected):
    setup = runpy.run_path(str(ROOT / "setup.py"))
    assert setup["with_absolute_links"](text, REPOSITORY) == expected.replace("URL", REPOSITORY)


def test_every_relative_link_of_the_readme_names_a_file_of_the_repository():
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s#]+)", text)
    relative = [target for target in targets if "://" not in target]
    assert [target for target in relative if not (ROOT / target).exists()] == []
