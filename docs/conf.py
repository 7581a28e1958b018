"""The site's settings for Sphinx: `make site`. Its pages are made by .ci/build_site.py."""

project = "rfnb"
html_title = "rfnb"
html_theme = "furo"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
suppress_warnings = ["myst.header"]  # pages that begin below a first heading
html_theme_options = {"top_of_page_buttons": []}
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
