"""One module a view: `describe(object)` gives plain JSON, `to_text(json)` and `to_html(json)` see nothing else."""
