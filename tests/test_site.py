"""Pages of the site are short. `make docs` finds broken links; `pytest docs` runs the code."""

import inspect
import json
import pathlib
import re
import types

import keras
import nbformat
import pytest
from sphinx.cmd import build

import keras_norm
from keras_norm import export

DOCS = pathlib.Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted(DOCS.glob("tutorials/*.ipynb"))
PAGES = sorted(
    page
    for folder in ("", "about", "design", "guides", "tutorials")
    for page in (DOCS / folder).glob("*.md")
)


def name(page: pathlib.Path) -> str:
    return page.relative_to(DOCS).as_posix()


def text_of(page: pathlib.Path) -> str:
    """Return the text of a page or of a notebook, without comments that readers do not see."""
    if page.suffix == ".ipynb":
        return "\n".join(cell.source for cell in nbformat.read(page, as_version=4).cells)
    return re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name)
def test_a_page_has_at_most_1200_words(page: pathlib.Path) -> None:
    assert len(text_of(page).split()) <= 1200


def test_the_first_page_has_at_most_300_words() -> None:
    assert len(text_of(DOCS / "index.md").split()) <= 300


@pytest.mark.parametrize("page", [*PAGES, *DOCS.glob("experiments/*.md")], ids=name)
def test_tables_have_at_most_six_columns(page: pathlib.Path) -> None:
    rows = [line for line in text_of(page).splitlines() if line.startswith("|")]
    assert all(row.replace(r"\|", "").count("|") <= 7 for row in rows)


def test_the_index_of_the_guides_describes_every_guide_under_its_title() -> None:
    index = text_of(DOCS / "guides/index.md")
    described = re.findall(r"^\[(.+)\]\((\w+)\.md\)\n: \S", index, re.MULTILINE)
    guides = set((DOCS / "guides").glob("*.md")) - {DOCS / "guides/index.md"}
    titles = {
        (text_of(guide).partition("\n")[0].removeprefix("# "), guide.stem) for guide in guides
    }
    assert set(described) == titles
    toctrees = "\n".join(re.findall(r":hidden:\n\n(.*?)```", index, re.DOTALL))
    assert toctrees.split() == [page for _, page in described]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_notebook_is_stored_without_outputs(notebook: pathlib.Path) -> None:
    cells = nbformat.read(notebook, as_version=4).cells
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_notebook_has_a_link_that_opens_it_in_colab(notebook: pathlib.Path) -> None:
    address = f"/keras-norm/keras-norm/blob/main/docs/{name(notebook)})"
    assert address in nbformat.read(notebook, as_version=4).cells[0].source


@pytest.mark.parametrize(
    "module", [keras_norm, keras_norm.compat, export], ids=lambda m: m.__name__
)
def test_every_public_name_has_an_api_page(module: types.ModuleType) -> None:
    pages = "\n".join(page.read_text("utf-8") for page in DOCS.glob("api/*.md"))
    listed = set(re.findall(r"^   (\w+)$", pages, re.MULTILINE))
    assert set(module.__all__) - {"__version__", "compat", "export"} <= listed


@pytest.mark.parametrize("name", keras_norm.rnn.__all__)
def test_a_docstring_describes_every_argument_that_the_keras_layer_does_not_have(name: str) -> None:
    cls = getattr(keras_norm, name)
    base = getattr(keras.layers, re.sub("(Layer|Batch)?Norm", "", name))
    described = re.findall(r"^ +(\w+): ", cls.__doc__.partition("Args:")[2], re.MULTILINE)
    own = inspect.signature(cls).parameters.keys() - inspect.signature(base).parameters.keys()
    of_keras = {"activity_regularizer", "autocast", "dtype", "name", "trainable"}
    assert own - of_keras - {"zero_output_for_mask"} <= {*described}
    first, _, equation, *_ = cls.__doc__.split("\n\n")
    assert ("_norm(" in equation) == ("normalization inside" in first)


def test_the_search_of_a_site_in_a_folder_has_the_texts_of_all_pages(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    pages = {"index": "# Guides\n\nMenu.\n", "masks": "# Masks\n\n## Padding\n\nPad *here*.\n"}
    for page, text in pages.items():
        (tmp_path / f"{page}.md").write_text(text)
    settings = "extensions=myst_parser,page_texts", "html_theme=pydata_sphinx_theme"
    options = [word for setting in settings for word in ("-D", setting)]
    assert build.main(["-C", "-q", *options, str(tmp_path), str(tmp_path / "site")]) == 0
    script = (tmp_path / "site/_static/page_texts.js").read_text("utf-8")
    texts = json.loads(script.removeprefix("window.pageTexts = ").rstrip(";\n"))
    assert set(texts) == {"index.html", "masks.html"}
    assert '<section id="padding">' in texts["masks.html"]  # the target of a result
    assert "Pad here." in texts["masks.html"]
    assert "search_from_folder.js" in (tmp_path / "site/search.html").read_text("utf-8")
