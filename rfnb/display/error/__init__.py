"""Cards for errors.

Read `view` first, then `card` (how IPython shows it) and `failed_call` (the call with its arguments).
"""
