"""The context of a forward call: whether it trains, which step it is, and the losses and outputs that it marks.

`run_ctx` holds the class `RunCtx` and the functions that begin a step; `loss` says how a marked loss enters the total;
`behavior_version` answers models that ask for a version.
"""
