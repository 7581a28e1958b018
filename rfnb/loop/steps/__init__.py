"""The steps of a loop: what is hoisted out of them, and how they are run.

Read `execute` (runs a program step by step, keeps the states), `placement` (which ops may leave the steps) and `hoist`
(computes these before and after the steps).
"""
