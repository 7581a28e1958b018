"""The models here import RETURNN's frontend, which is rfnb from here on."""

import rfnb.as_returnn  # noqa: F401  (registers modules)
