"""The README that package indexes show has absolute addresses in its links and pictures."""

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
REPOSITORY = "https://example.org/owner/name"


@pytest.fixture(scope="module")
def setup():
    spec = importlib.util.spec_from_file_location("setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md)", f"[a]({REPOSITORY}/blob/main/docs/a.md)"),
        ("[a](docs/a.md#b)", f"[a]({REPOSITORY}/blob/main/docs/a.md#b)"),
        ("![a](docs/a.png)", f"![a]({REPOSITORY}/raw/main/docs/a.png)"),
        ('![a](docs/a.png "title")', f'![a]({REPOSITORY}/raw/main/docs/a.png "title")'),
        ('<img src="docs/a.svg">', f'<img src="{REPOSITORY}/raw/main/docs/a.svg">'),
        ('<source srcset="a.png">', f'<source srcset="{REPOSITORY}/raw/main/a.png">'),
        ('<a href="docs/a.md">', f'<a href="{REPOSITORY}/blob/main/docs/a.md">'),
    ],
)
def test_relative_links_and_pictures_become_absolute(setup, text, expected):
    assert setup.with_absolute_links(text, REPOSITORY) == expected


@pytest.mark.parametrize(
    "text", ["[a](https://a.org/b.md)", "[a](#b)", "```python\nlayers[0](x)\n```", "f(a) [b]"]
)
def test_other_text_is_unchanged(setup, text):
    assert setup.with_absolute_links(text, REPOSITORY) == text


def test_every_relative_link_of_the_readme_names_a_file_of_the_repository():
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s#]+)", text)
    relative = [target for target in targets if "://" not in target]
    assert [target for target in relative if not (ROOT / target).exists()] == []
