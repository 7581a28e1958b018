"""What a module is.

Read `module` first: `Module` holds parameters and other modules as attributes, and has a call; `assigned` and `options`
have the errors for attributes and options that cannot be. `functional` makes a function a module; `container` has lists
of modules and parameters; `hooks` runs functions after a call; `parametrize` computes a parameter from another, such as
weight dropout; `build` makes modules from dicts and from the choices of a user; `config` types the functions of a
training config; `not_specified` is the default of arguments for which None is a value; `collect` keeps chosen outputs.
"""
