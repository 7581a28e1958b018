"""What is moved out of the steps of a loop.

Read `hoist` (which ops may leave the steps, and computes them before and after) and `explain` (where each op ran);
`growing_axes` is about values whose size differs by step.
"""
