"""Workflows, pages and the README agree with pyproject.toml and .ci/run."""

import json
import pathlib
import re
import runpy

import pytest
import yaml

from keras_norm import keras_internals
from tests import versions
from tests.versions import PYPROJECT, VERSIONS

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = PYPROJECT["project"]
PREFIX = "Programming Language :: Python :: "
PYTHONS = [c.removeprefix(PREFIX) for c in PROJECT["classifiers"] if c.startswith(PREFIX)]
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
}


def targets(text):
    """Collect the targets of all calls of make in a text."""
    calls = re.findall(r"\bmake (?:--\S+ )*([\w -]+)$", text, re.M)
    return {target for call in calls for target in call.split()}


def test_every_target_of_ci_runs_in_a_workflow():
    called = {
        target
        for workflow in WORKFLOWS.values()
        for job in workflow["jobs"].values()
        for step in job.get("steps", ())
        for target in targets(step.get("run", ""))
    }
    assert targets((ROOT / ".ci" / "run").read_text()) <= called


def test_the_tests_run_on_every_supported_version_of_python():
    assert WORKFLOWS["test"]["jobs"]["test"]["strategy"]["matrix"]["python"] == PYTHONS
    assert [row["python"] for row in VERSIONS.values()] == PYTHONS


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_only_read_the_repository(name):
    """A job may have further permissions."""
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}


def test_the_security_page_names_tests_that_exist():
    paths = re.findall(r"`(tests/[^`]+)`", (ROOT / "SECURITY.md").read_text())
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


# Versions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", versions.PACKAGES)
def test_the_lowest_row_has_the_lower_bounds_and_nothing_has_an_upper_bound(package):
    (requirement,) = [r for r in PROJECT["dependencies"] if re.match(rf"{package}\W", r)]
    assert requirement == f"{package}>={VERSIONS['lowest'][package]}"
    found = [tuple(map(int, row[package].split("."))) for row in VERSIONS.values()]
    assert found == sorted(found)


def test_the_package_warns_of_versions_after_the_newest_row():
    row = VERSIONS["newest"]
    newest = {name: tuple(map(int, row[name].split(".")[:2])) for name in versions.PACKAGES}
    assert newest == keras_internals.TESTED


def test_the_page_of_versions_has_the_rows():
    text = (ROOT / "docs" / "about" / "versions.md").read_text()
    cells = re.findall(r"^\| (\S+) \| (\S+) \| (\S+) \| (\S+) \|", text, re.M)
    rows = [(n, r["python"], r["tensorflow"], r["keras"]) for n, r in VERSIONS.items()]
    assert [row for row in cells if row[0] in VERSIONS] == rows


def test_the_workflow_has_the_rows():
    matrix = json.loads(versions.main("matrix"))["include"]
    assert matrix == [{"name": n, "python": row["python"]} for n, row in VERSIONS.items()]
    workflow = (ROOT / ".github" / "workflows" / "versions.yml").read_text()
    assert "$(python tests/versions.py matrix)" in workflow
    assert "make test-versions VERSIONS=${{ matrix.name }}" in workflow


def test_pip_installs_the_versions_of_a_row():
    row = VERSIONS["lowest"]
    pins = f"tensorflow=={row['tensorflow']} keras=={row['keras']}"
    assert versions.main("lowest", "pip") == f".[{row['extra']}] {pins}"
    assert versions.main("lowest", "python") == f"python{row['python']}"


# The README that package indexes show -----------------------------------------------------------

REPOSITORY = "https://example.org/owner/name"
LINKS = {
    "[a](docs/a.md#b)": "[a](URL/blob/main/docs/a.md#b)",
    '![a](docs/a.png "title")': '![a](URL/raw/main/docs/a.png "title")',
    '<img src="docs/a.svg">': '<img src="URL/raw/main/docs/a.svg">',
    '<source srcset="a.png">': '<source srcset="URL/raw/main/a.png">',
    '<a href="docs/a.md">': '<a href="URL/blob/main/docs/a.md">',
}
UNCHANGED = ["[a](https://a.org/b.md)", "[a](#b)", "```python\nlayers[0](x)\n```", "f(a) [b]"]


@pytest.mark.parametrize(
    ("text", "expected"), [*LINKS.items(), *((text, text) for text in UNCHANGED)]
)
def test_relative_links_and_pictures_become_absolute(text, expected):
    setup = runpy.run_path(str(ROOT / "setup.py"))
    assert setup["with_absolute_links"](text, REPOSITORY) == expected.replace("URL", REPOSITORY)


def test_every_relative_link_of_the_readme_names_a_file_of_the_repository():
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s#]+)", text)
    relative = [target for target in targets if "://" not in target]
    assert [target for target in relative if not (ROOT / target).exists()] == []
