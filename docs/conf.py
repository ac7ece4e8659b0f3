"""Settings of the site. `make docs` builds it into build/docs."""

import importlib.metadata
import pathlib
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # for the extensions in this folder

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

project = "keras_norm"
author = "The keras_norm developers"
copyright = f"2026, {author}"
version = release = importlib.metadata.version("keras-norm")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "page_texts",
]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]

# Markdown. The notebooks run at each change, and keep their outputs in build/notebooks.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_in_temp = True  # the notebooks write files
nb_merge_streams = True
nb_output_stderr = "remove"  # TensorFlow's C++ code writes to it at any log level

# Python. Text in single backticks is code, and a link if it names a class or function of the API.
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Call arguments", "params_style"), "Weights"]
add_module_names = False

extlinks = {
    "keras": ("https://keras.io/api/%s", "%s"),
    "tensorflow": ("https://www.tensorflow.org/%s", "%s"),
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "keras_norm"
html_static_path = ["_static"]
html_css_files = ["keras_norm.css"]
html_show_sourcelink = False
html_theme_options = {
    "github_url": PROJECT["urls"]["Repository"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
