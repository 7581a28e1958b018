"""Public names of net dicts."""

from rfnb.network.axes import FeatureDim as FeatureDim, SpatialDim as SpatialDim
from rfnb.network.config.compute import pure as pure
from rfnb.network.config.read import Config as Config, read_config as read_config
from rfnb.network.extern_data import ExternData as ExternData
from rfnb.network.holder import LossHolder as LossHolder
from rfnb.network.network import Network as Network
from rfnb.network.versions import set_behavior_version as set_behavior_version
from rfnb.network.weights import preload as preload, restore as _restore  # registers itself for `rf.load`
