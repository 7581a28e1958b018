"""HTML, SVG, PNG and text from which views are built. Nothing here knows tensors or views.

Read `html` first (elements, escaping), then `style` (colours), `numbers` (short forms), `elements` (tables, notes,
folds), `svg` (drawings, also of matplotlib) and `png`.
"""
