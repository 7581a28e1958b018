"""Why a search found what it found, from its trace alone.

life     What should have been found, followed through the beam: its rank at each step, where and why it fell out.
where    The life of a reference, and whether search or model is to blame; why: that of any hypothesis.
keep     A pruned candidate that is kept after all: a fork of the recorded run.
rerank   The same candidates under other scales; compare: the first step at which two searches differ.
"""
