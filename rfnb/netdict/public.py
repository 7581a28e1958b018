"""Public names of net dicts."""

from rfnb.netdict.axes import FeatureDim as FeatureDim, SpatialDim as SpatialDim
from rfnb.netdict.code.compare import compare_nets as _compare_nets
from rfnb.netdict.code.diff import diff as diff
from rfnb.netdict.code.to_code import to_code as to_code
from rfnb.netdict.config.read import Config as Config, read_config as read_config
from rfnb.netdict.extern_data import ExternData as ExternData
from rfnb.netdict.holder import LossHolder as LossHolder
from rfnb.netdict.network import Network as Network
from rfnb.netdict.own_layers import layer as layer
from rfnb.netdict.versions import set_behavior_version as set_behavior_version
from rfnb.netdict.weights import preload as preload, restore as _restore  # registers itself for `rf.load`
from rfnb.trace.compare.compare import OTHERS as _OTHERS

_OTHERS[Network] = _compare_nets
