"""Set up the site that `make docs` builds, offline.

Its sources are Markdown, docstrings and notebooks.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]
# Notebooks run in processes of their own, in their own folder.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from vips_fast import __version__  # noqa: E402  # the path comes first

project = "vips_fast"
author = "the authors of vips_fast"
version = release = __version__
language = "en"

extensions = ["myst_nb", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "pages"]
exclude_patterns = ["_ext"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# A notebook that fails fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_kernel_rgx_aliases = {".*": "python3"}

# Types stand in the docstrings, with shapes; signatures say the defaults as they are written.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
# Lists of names, as they are written: their types are prose without links.
napoleon_use_param = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
# A name in single backticks is a link where the reference has it, and code elsewhere.
default_role = "py:obj"
maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "vips_fast"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "vips_fast"},
    "header_links_before_dropdown": 4,
    "navbar_end": ["version-switcher", "theme-switcher"],
    "footer_end": [],
    # Pages of wide tables take the place of the list of their headings.
    "secondary_sidebar_items": {"**": ["page-toc"], **dict.fromkeys(("privacy", "leakage"), [])},
    "show_prev_next": True,
    "show_version_warning_banner": True,
    # versions.json lies beside the folders of the versions (docs/releasing.md). DOCS_BASE is the path under which the
    # host serves them.
    "switcher": {"json_url": os.environ.get("DOCS_BASE", "") + "/versions.json", "version_match": version},
    "check_switcher": False,
}
