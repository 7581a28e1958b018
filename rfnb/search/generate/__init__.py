"""Searches of Hugging Face's `generate`, made again from its scores, without the model.

`scores` holds the best candidates of each step. `build` is `rf.search.from_generate`: `settings` come from the
configuration and the keywords of the call, `output` checks that they give what was returned, and `beams` makes the
beams of each step again. `again` runs the model after all, for forced scores and for branches, which join the tree.
"""
