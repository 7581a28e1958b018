"""The contract of a backend: what each backend must provide, and what all share.

Read `backend` first: it lists the families. `math` shows how a plan on dims leads to a raw call; `mask` keeps
padding out of results and gradients; `tape` holds the raw calls of a loop's body.
"""
