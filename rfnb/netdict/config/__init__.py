"""Config files are Python programs. They are read by an interpreter of their syntax tree, and not run.

values.py, limits.py     what a config may hold beside Python's own data; how many steps and seconds it may take
modules.py               what its imports give, as if the machine were empty; what it may call
tf_names.py, tf_functions.py  tensors with numbered axes; functions of TensorFlow on them
expressions.py           computes the value of an expression
interpreter.py, read.py  runs statements; `rf.read_config`
compute.py               what a layer `eval` holds, and functions that are given for those of the config
"""
