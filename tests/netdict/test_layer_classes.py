"""The table of classes is that of the files; a net imports only the files of its layers."""

import importlib
import subprocess

from rfnb.netdict.layer import CLASSES, LAYERS


def test_each_class_is_in_the_file_that_the_table_says():
    for file, names in CLASSES.items():
        importlib.import_module(f"rfnb.netdict.layers.{file}")
        own = {name for name, cls in LAYERS.items() if cls.__module__ == f"rfnb.netdict.layers.{file}"}
        assert own == set(names.split()), file


def test_only_a_net_imports_the_annex_and_only_what_it_needs(python):
    code = """
import sys, rfnb as rf
rf.show([rf.Linear(rf.Dim(2), rf.Dim(3))]), rf.load
assert not [name for name in sys.modules if name.startswith("rfnb.netdict")]
net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
net.construct_from_dict({"output": {"class": "copy", "from": "data"}})
assert "rfnb.netdict.layers.basic" in sys.modules and "rfnb.netdict.layers.rec" not in sys.modules
assert not [name for name in sys.modules if name.startswith("rfnb.netdict.code.")]
"""
    subprocess.run([python, "-c", code], check=True)
