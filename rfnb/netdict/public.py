"""Public names of net dicts."""

from pkgutil import resolve_name as _resolve_name

from rfnb.netdict.axes import FeatureDim as FeatureDim, SpatialDim as SpatialDim
from rfnb.netdict.config.read import Config as Config, read_config as read_config
from rfnb.netdict.extern_data import ExternData as ExternData
from rfnb.netdict.loss_holder import LossHolder as LossHolder
from rfnb.netdict.network import Network as Network
from rfnb.netdict.user_layers import layer as layer
from rfnb.netdict.versions import set_behavior_version as set_behavior_version
from rfnb.netdict.weights import preload as preload, restore as _restore  # registers itself for `rf.load`
from rfnb.trace.compare.compare import OTHERS as _OTHERS

_OTHERS[Network] = lambda a, b, batch=None: _resolve_name("rfnb.netdict.code.compare:compare_nets")(a, b, batch)
