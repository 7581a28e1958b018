"""Public names of this folder in `rf`, imported on first use."""

from rfnb.loop import check as check
from rfnb.loop.body.array import TensorArray as TensorArray
from rfnb.loop.body.print_value import watch as watch
from rfnb.loop.breakpoint import pause as pause
from rfnb.loop.functional import (
    scan as scan,
    while_loop as while_loop,
)
from rfnb.loop.loop import Loop as Loop
from rfnb.loop.pure import pure as pure
from rfnb.loop.replay.gradients import Gradients as Gradients
from rfnb.loop.replay.profile import profile as profile
