"""Search over frames, with a blank: CTC, transducers, and hypotheses that merge because their labels are the same.

`prefixes` tells which hypotheses have the same labels, `step` is one frame of a search, `in_loop` carries what it needs
from step to step, and `ctc` is the whole search for CTC.
"""
