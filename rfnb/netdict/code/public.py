"""Public names for nets as code and the difference of two nets, which no net needs to be built or to run."""

from rfnb.netdict.code.diff import diff as diff
from rfnb.netdict.code.to_code import to_code as to_code
