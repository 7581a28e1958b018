"""`import rfnb.as_returnn` makes `import returnn.frontend as rf` mean rfnb, so that a model's file needs no change.

`modules` has the table of the modules and registers them; `config` stands for `returnn.config`.
"""

from rfnb.as_returnn.modules import install as _install

_install()
