"""Cards for errors.

Read `view` first, then `card` (how IPython shows it) and the parts of a card: `code` (the user's line), `failed_call`
→ `argument_source` → `operands` → `strips` (the call with its dims), `traceback`.
"""
