"""Public names of net dicts."""

from rfnb.netdict.axes import FeatureDim as FeatureDim, SpatialDim as SpatialDim
from rfnb.netdict.config.compute import pure as pure
from rfnb.netdict.config.read import Config as Config, read_config as read_config
from rfnb.netdict.extern_data import ExternData as ExternData
from rfnb.netdict.holder import LossHolder as LossHolder
from rfnb.netdict.network import Network as Network
from rfnb.netdict.versions import set_behavior_version as set_behavior_version
from rfnb.netdict.weights import preload as preload, restore as _restore  # registers itself for `rf.load`
