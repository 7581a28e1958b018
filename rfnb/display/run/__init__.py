"""Views of runs of loops.

Read `view` first (the static view of a run), then `step` (one step by replay), `step_selection` (which steps are
shown), `states` and `state_history` (states over steps), `sequences`, `body` (source lines with values) and `ops`.
`list_view`, `gradients_view` and `page` show the list of runs, gradients through time, and a run as a page.
"""
