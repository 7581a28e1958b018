"""Views of nested structures: `nested` walks them, `leaf` describes one value, `view` writes text and HTML."""
