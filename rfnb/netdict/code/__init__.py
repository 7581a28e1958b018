"""A net as code: its ops are traced by layer, and written as modules of rf or torch. The difference of two nets.

trace                       which ops each layer calls, and what a step of each loop does
names, body, module         names and literals; the lines of a method of rf; the file
torch_body, torch_ops       the lines of a method of torch: values and loops, then each op
torch_module, torch_helpers the file of torch, and the functions that stand in it
to_code, torch_run          `rf.to_code`, and the check of its text in a process of its own
diff, compare               `rf.diff`, and `rf.compare` of two nets
"""
