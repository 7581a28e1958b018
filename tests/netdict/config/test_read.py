"""`rf.read_config` on files as they are published."""

import pytest

import rfnb as rf
from rfnb.errors import ConfigError


def config(tmp_path, text, name="returnn.config", **options):
    file = tmp_path / name
    file.write_text(text)
    return rf.read_config(file, **options)


OLD = """#!crnn/rnn.py
# kate: syntax python;
import os, numpy
from subprocess import check_output
from Pretrain import WrapEpochValue
from TFUtil import *
import tensorflow as tf

if int(os.environ.get("DEBUG", "0")):
    print "a word of Python 2", 3

num_inputs = 40
num_outputs = {"classes": [100, 1], "align": (12, 2)}
window = 3
my_dir = os.path.dirname(os.path.abspath(__file__))
beam = config.int("beam_size", 12)
debug = config.bool("debug_mode", False)
learning_rates = list(numpy.linspace(0.1, 1, num=3))
host = check_output(["hostname"]).strip()

def blstm(i, n=512):
    src = ["lstm%i_fw" % (i - 1), "lstm%i_bw" % (i - 1)] if i else ["data"]
    return {
        "lstm%i_fw" % i: {"class": "rec", "unit": "nativelstm2", "n_out": n, "direction": 1, "from": src},
        "lstm%i_bw" % i: {"class": "rec", "unit": "nativelstm2", "n_out": n, "direction": -1, "from": src}}

network = {"#comment": "not a layer"}
for layer in range(6):
    network.update(blstm(layer))
network["output"] = {
    "class": "softmax", "from": ["lstm5_fw", "lstm5_bw"], "loss": "ce", "beam_size": beam,
    "dropout": WrapEpochValue(lambda epoch: 0.1 if epoch > 5 else 0.0), "op": tf.nn.relu}

def transform(source, **kwargs):
    return tf.reduce_sum(source(0), axis=1)
"""


def test_an_old_config(tmp_path):
    read = config(tmp_path, OLD, options={"beam_size": 4})
    network = read.network()
    assert len(network) == 13 and list(network)[-1] == "output" and "#comment" not in network
    assert network["lstm3_bw"]["from"] == ["lstm2_fw", "lstm2_bw"]
    assert (network["output"]["beam_size"], network["output"]["dropout"]) == (4, 0.1)
    assert read.network(epoch=1)["output"]["dropout"] == 0.0
    assert (repr(network["output"]["op"]), repr(read["host"])) == (
        "<tensorflow.nn.relu>",
        "<subprocess.check_output().strip()>",
    )
    assert read["learning_rates"] == pytest.approx([0.1, 0.55, 1.0])
    assert read["transform"].parameters == ["source"]
    assert read.extern_data() == {
        "data": {"dim": 120, "available_for_inference": True},
        "classes": {"dim": 100, "sparse": True, "available_for_inference": False},
        "align": {"dim": 12, "available_for_inference": False},
    }
    assert "network of 14 layers" in repr(read)


def test_a_layer_knows_its_line(tmp_path):
    network = config(tmp_path, OLD).network()
    lines = OLD.splitlines()
    assert '"lstm%i_fw" % i: {' in lines[network["lstm0_fw"].line - 1]
    assert 'network["output"] = {' in lines[network["output"].line - 1]
    copied = config(
        tmp_path, "import copy\nn = {'a': {'class': 'copy'}}\nnetwork = copy.deepcopy(n)\nb = dict(n)"
    ).network()
    assert copied["a"].line == 2


def test_json(tmp_path):
    text = '// a comment\n{\n# another\n"num_inputs": 3, "network": {"output": {"class": "softmax"}}}'
    assert config(tmp_path, text[len("// a comment\n") :]).network() == {"output": {"class": "softmax"}}
    with pytest.raises(ConfigError, match=r"net.json:2: this is not JSON"):
        config(tmp_path, '{"a": 1,\n}', "net.json")


@pytest.mark.parametrize("text", ["network = {}", '{"network": {}}'])
def test_a_byte_order_mark_is_skipped(text, tmp_path):
    (tmp_path / "returnn.config").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert rf.read_config(tmp_path / "returnn.config").network() == {}


def test_what_cannot_be_read_says_why(tmp_path):
    with pytest.raises(ConfigError, match="cannot be opened"):
        rf.read_config(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"returnn.config:2: this is not Python"):
        config(tmp_path, "x = 1\nx = = 2")
    with pytest.raises(ConfigError, match=r"(?s)returnn.config:3: the config fails.*KeyError: 'b'"):
        config(tmp_path, "x = {}\ndef f():\n    return x['b']\nf()")
    with pytest.raises(ConfigError, match="has no network"):
        config(tmp_path, "x = 1").network()
    with pytest.raises(ConfigError, match="netwrk") as error:
        config(tmp_path, "network = {}")["netwrk"]
    assert "network" in str(error.value.hint)


def test_a_file_of_ones_own_can_be_run(tmp_path):
    text = "import fractions\nnetwork = {'output': {'n_out': int(fractions.Fraction(6, 2)), 'k': config.int('k', 1)}}"
    assert config(tmp_path, text, execute=True, options={"k": 5}).network() == {"output": {"n_out": 3, "k": 5}}
    assert repr(config(tmp_path, text)["network"]["output"]["n_out"]) == "<int(fractions.Fraction())>"
