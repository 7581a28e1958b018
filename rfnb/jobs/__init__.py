"""Training in several processes, seen from a notebook: `rf.launch` starts them, `rf.attach` follows other jobs.

Read `script` first (a function of a notebook as a file), then `worker` (what each process runs), `job` (what their
folder says, as a page), `launch` and `attach`.
"""
