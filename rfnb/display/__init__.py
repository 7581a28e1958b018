"""Views: objects as JSON, text and HTML; and the kernel side of the panel and the stepper.

Read `show` (what users call), then `kit/view` (which view shows which class). Each subject has a folder
with its view and the schema of its JSON; `tensor` and `run` are the largest. `markup` and `kit` are below all views,
`panel` is above them.
"""
