"""Run files: JSON and tensors in one safetensors file, which is read as untrusted data. The order to read it in:

save    `write`, which collects what a run contains; load: `rf.load_run`, which checks and reads it.
series  A state or value over the steps, with its statistics; stored: `StoredReplay`, from which a loaded run reads.
store   `Writer` and `Reader` of a file, also of searches and probes; dims: tables of dims, sizes and lengths.
fields  Typed access to the JSON.
"""
