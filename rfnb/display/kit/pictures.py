"""`view.widget()`: a view with its scripts in a cell's output, for front ends without the JupyterLab extension."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rfnb.display.kit.assets import asset
from rfnb.errors import ViewError


@lru_cache(maxsize=1)
def widget_class() -> type:
    """The widget class, made when first needed. Raises ViewError if anywidget or the built files are missing."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise ViewError("widget: anywidget is not installed", hint="pip install 'rfnb[lab]'") from None

    class Picture(anywidget.AnyWidget):
        """A widget with the HTML of a view and the data that scripts use to enhance it."""

        _esm = asset("views.js")
        _css = asset("views.css")
        html = traitlets.Unicode().tag(sync=True)
        scripts = traitlets.Dict().tag(sync=True)

        def __init__(self, html: str, scripts: dict[str, Any], static: dict[str, Any]):
            super().__init__(html=html, scripts=scripts)
            self.static = static

        def _repr_mimebundle_(self, **choice: Any) -> Any:
            result = super()._repr_mimebundle_(**choice)
            bundle, metadata = result if isinstance(result, tuple) else (result or {}, {})
            return {**bundle, **self.static}, metadata

    return Picture
