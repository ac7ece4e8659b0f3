"""Workflows, issue forms and the citation agree with pyproject.toml and .ci/run."""

import pathlib
import re
import tomllib

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
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
    prefix = "Programming Language :: Python :: "
    versions = [c.removeprefix(prefix) for c in PROJECT["classifiers"] if c.startswith(prefix)]
    assert WORKFLOWS["test"]["jobs"]["test"]["strategy"]["matrix"]["python"] == versions


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_only_read_the_repository(name):
    """A job may have further permissions."""
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}


def test_the_citation_has_the_addresses_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    urls = PROJECT["urls"]
    assert (citation["repository-code"], citation["url"]) == (urls["Repository"], urls["Homepage"])


def test_the_contact_links_are_addresses_of_the_project():
    config = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text())
    ours = (PROJECT["urls"]["Documentation"], PROJECT["urls"]["Repository"])
    assert all(link["url"].startswith(ours) for link in config["contact_links"])


def test_the_security_page_names_tests_that_exist():
    paths = re.findall(r"`(tests/[^`]+)`", (ROOT / "SECURITY.md").read_text())
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []
