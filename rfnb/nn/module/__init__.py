"""What a module is.

Read `module` first: `Module` holds parameters and other modules as attributes, and has a call. `container` has lists of
modules and parameters, functions as modules, and chosen outputs; `hooks` runs functions after a call; `parametrize`
computes a parameter from another, such as weight dropout; `build` makes modules from dicts and from the choices of a
user.
"""
