"""Probes: a function that runs again and again during a training. The order to read it in:

probe            `rf.probe`, `rf.load_probe` and the `Probe`: when it runs, what it keeps, how two are compared.
progress_probes  The probes that follow `rf.progress`.
side_run         Runs a function so that the training does not notice.
folder           The shots of a probe as folders on disk, each complete or absent.
shot             One shot, and its file: results, attention, measures.
result           Results of functions as JSON and tensors.
"""
