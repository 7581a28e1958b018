"""The kernel side of the panel and the stepper.

Read `commands` first (messages in, answers out), then `paused` (conditions and edits), `comm` (the
connection to JupyterLab), and `stepper` (the widget in a cell's output).
"""
