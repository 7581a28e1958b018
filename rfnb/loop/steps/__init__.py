"""The steps of a loop: what is moved out of them, and how they are run.

Read `execute` (runs a program step by step, keeps the states) and `hoist` (which ops may leave the steps, and computes
them before and after).
"""
