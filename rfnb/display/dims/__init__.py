"""Views of dims: `dim_view` shows a single Dim, `table_view` the dims of many objects, and probable mistakes."""
