"""What is moved out of the steps of a loop, and what all steps together are made of.

Read `hoist` (which ops may leave the steps, and computes them before and after) and `explain` (where each op ran);
`growing_axes` is about values whose size differs by step, `beams` about those of a search.
"""
