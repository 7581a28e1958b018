"""Search: beams of hypotheses over the steps of a loop, their scores, and the tree of all that was tried.

`choice` attaches a search to the body of a loop; a `trace` keeps what it chose; `tree` reads one sequence of it.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from rfnb.search.beam import BeamStep as BeamStep, beam_step as beam_step
    from rfnb.search.found import Found as Found
