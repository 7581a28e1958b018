"""HTML, SVG, PNG and text from which views are built. Nothing here knows tensors or views.

Read `html` first (elements, escaping), then `style` (colours), `numbers` (short forms), `grid` (tables), `widgets_html`
(shared elements), `svg` and `png` (drawings), `figures` (those of matplotlib).
"""
