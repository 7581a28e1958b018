"""Public names of net dicts."""

from rfnb.network.config.read import Config as Config, read_config as read_config
