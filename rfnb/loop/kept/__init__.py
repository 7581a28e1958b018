"""Keeps a traced step, so that a later call of the same loop need not run its body again.

keep.py makes a `KeptStep` of a `TracedStep`: its ops and raw calls, without tensors. kept_steps.py decides which kept
step is right for a call, and makes a `TracedStep` of it for the tensors of another batch.
"""
