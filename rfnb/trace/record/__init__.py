"""Records a loop body while it is traced. The order to read it in:

traced   `Traced`, the tensor of a body, whose numbers cannot be read; `Pending`, a result before the loop ends.
record   `Recorder`, the listener that adds each op to the graph of the body as an `OpCall`, and its raw calls to
         the tape. `LoopRecord`, which describes a loop for drawing; `rf.get_tensor_dependencies` and its relatives.
"""
