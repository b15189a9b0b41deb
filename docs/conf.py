"""The documentation site: the repository's Markdown pages and an API reference from docstrings.

The source folder is the repository, so that links between README, docs/ and benches/ are the same
on the site as in the repository, and all of them are checked: `make docs` fails on a broken one.
Nothing is fetched from the network.
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

import neardup

project = "neardup"
author = "The neardup developers"
copyright = author
release = version = neardup.__version__

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benches/README.md",
    "benches/results/*.md",
    "docs/**.md",
    "examples/README.md",
]
exclude_patterns = [".*", "**/.*"]
source_suffix = {".md": "markdown"}

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 90
autodoc_mock_imports = ["pyspark"]
default_role = "literal"  # docstrings write `name`, as Markdown does
python_use_unqualified_type_names = True
suppress_warnings = [
    "misc.highlighting_failure",  # examples of damaged JSON, and JSON of several lines
]

html_theme = "furo"
html_title = f"neardup {release}"
html_show_sphinx = False
html_copy_source = False


def write_first_page(app: Sphinx, failure: Exception | None) -> None:
    """The root of a site is index.html; its first page is one folder below."""
    if failure is None:
        page = f"{root_doc}.html"
        redirect = f'<meta http-equiv="refresh" content="0; url={page}"><a href="{page}">docs</a>\n'
        (Path(app.outdir) / "index.html").write_text(redirect, "utf-8")


def setup(app: Sphinx) -> None:
    app.connect("build-finished", write_first_page)
