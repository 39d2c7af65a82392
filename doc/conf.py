"""Settings of Sphinx."""

import os
import runpy
import warnings
from pathlib import Path

# Examples train small networks: several threads are slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
import skcalib

project = "skcalib"
author = "The skcalib developers"
copyright = "2026, The skcalib developers"
version = release = skcalib.__version__

extensions = [
    "matplotlib.sphinxext.plot_directive",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",  # formulas are shown without a network connection
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",  # the grid of the front page
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
# Tables that another page includes are no pages of their own.
exclude_patterns = ["_build", "auto_examples/*.ipynb"]
exclude_patterns += ["suite_*.rst", "times_*.rst"]
html_theme = "pydata_sphinx_theme"
html_title = "skcalib"
html_theme_options = {
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo-dark.svg",
        "text": f"skcalib {version}",
    },
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    # The gallery and the reference have no second sidebar: figures and formulas need the width.
    "secondary_sidebar_items": {page: ["page-toc"] for page in ["*", "guide/*", "recipes/*"]},
}
# Pages without subpages need no primary sidebar.
alone = "index start benchmarks reproduction comparison testing architecture adding contributing"
html_sidebars = {page: [] for page in [*alone.split(), "suite", "project", "changes", "references"]}
html_static_path = ["_static"]
html_css_files = ["skcalib.css"]
html_extra_path = ["llms.txt"]  # at the top of the built documentation
toc_object_entries_show_parents = "hide"
html_show_sourcelink = False
bibtex_bibfiles = ["references.bib"]

# Copy code without prompts and outputs, so that it runs.
copybutton_prompt_text, copybutton_prompt_is_regexp = r">>> |\.\.\. ", True

plot_formats = [("png", 100)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = False
plot_rcparams = {"savefig.bbox": "tight"}  # no label is cut off

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings describe the types
templates_path = ["_templates"]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "show_memory": False,
    "download_all_examples": False,
    "plot_gallery": True,
    "reset_modules": (),
    "image_scrapers": ("matplotlib",),
    "show_signature": False,
    "write_computation_times": False,
}
warnings.filterwarnings("error", category=DeprecationWarning, module="skcalib")


def setup(app):
    """Write the tables of packages and of tensors anew in each build."""
    app.connect("builder-inited", describe_package)


def describe_package(app):
    """Write the tables that ``architecture.rst`` and ``guide/dask.rst`` include."""
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    for script in ("package_table.py", "tensor_table.py"):
        runpy.run_path(str(Path(app.srcdir) / script))["write"](folder)
