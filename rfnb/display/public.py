"""Views: names of `rf`, imported when one is first asked for."""

from rfnb.display.kit import blocks as page
from rfnb.display.markup.html import el as el
from rfnb.display.register import register_view as register_view
from rfnb.display.show import (
    gradient_norms as gradient_norms,
    progress as progress,
    show as show,
    show_attention as show_attention,
    show_dims as show_dims,
    stepper as stepper,
)
from rfnb.display.training import integrations as integrations
