"""Config files are Python programs. They are read by an interpreter of their syntax tree, and not run.

values.py       what a config may hold beside Python's own data: opaque values, functions, classes, dicts with lines
limits.py       how many steps, entries and seconds a config may take
modules.py      what its imports give; `os` and the like as if the machine were empty
builtins.py     the functions and methods that it may call
expressions.py  computes the value of an expression
interpreter.py  runs statements
read.py         `rf.read_config`
"""
