"""The table of classes is that of the files; a net imports only the files of its layers."""

import importlib
import subprocess
import sys

import pytest

from rfnb.layers.register import CLASSES
from rfnb.network.layer import LAYERS


def test_each_class_is_in_the_file_that_the_table_says():
    for file, names in CLASSES.items():
        importlib.import_module(f"rfnb.layers.{file}")
        own = {name for name, cls in LAYERS.items() if cls.__module__ == f"rfnb.layers.{file}"}
        assert own == set(names.split()), file


@pytest.mark.slow
def test_a_net_imports_what_it_needs():
    code = """
import sys, rfnb as rf
net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
net.construct_from_dict({"output": {"class": "copy", "from": "data"}})
assert "rfnb.layers.basic" in sys.modules and "rfnb.layers.rec" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
