"""Probes: a function that runs again and again during a training. The order to read it in:

probe  `rf.probe`, `rf.load_probe` and the `Probe`: when it runs, its shots on disk, how two are compared.
shot   One shot, and its file: results as JSON and tensors, attention, measures.
"""
