"""Public names of this folder in `rf`, imported on first use."""

from rfnb.loop import check as check
from rfnb.loop.body.body import pause as pause
from rfnb.loop.body.print_value import watch as watch
from rfnb.loop.functional import (
    TensorArray as TensorArray,
    scan as scan,
    while_loop as while_loop,
)
from rfnb.loop.loop import Loop as Loop
from rfnb.loop.pure import pure as pure
from rfnb.loop.replay.gradients import Gradients as Gradients
from rfnb.loop.replay.profile import profile as profile
