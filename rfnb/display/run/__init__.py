"""Views of runs of loops.

Read `view` first (the static views of a run and of a step), then `step` (one step by replay, and its ops) and `states`
(states over steps, and which steps are shown). `list_view`, `gradients_view` and `page` show the list of runs,
gradients through time, and a run as a page.
"""
