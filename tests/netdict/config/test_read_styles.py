"""Configs in the styles of those that are published: all are read, and their networks run."""

from pathlib import Path

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import ConfigError

FILE = Path(__file__).with_name("styles.txt")
STYLES = dict(part.split("\n", 1) for part in FILE.read_text(encoding="utf-8").split("# --- ")[1:])


@pytest.fixture
def write(tmp_path):
    """Writes a config, and gives its path."""

    def write(text):
        file = tmp_path / "net.config"
        file.write_text(text, encoding="utf-8")
        return file

    return write


@pytest.mark.parametrize("name", STYLES)
def test_a_config_in_a_published_style_gives_its_network(name, write):
    net = rf.Network.from_config(write(STYLES[name]), device="meta", strict=False)
    assert [found.what for found in net.report().of("stops")] == []


def test_what_only_the_machine_of_a_config_knows_is_noted(write):
    text = "import os\ndef get_network(epoch):\n    assert os.path.isfile('a')\n    return dict(output=layer)\n"
    text += "if os.path.exists('b'): pass\nassert os.path.exists('c') and 1\n"
    text += "if os.path.exists('d'): e = 1\nelse: raise Exception()\n"
    text += "layer = {'class': 'copy', 'from': 'data'}\nnum_inputs = 3"
    net = rf.Network.from_config(write(text))
    ignored = {found.lines[0]: found.what for found in net.report().of("ignored")}
    condition, assertion = (
        "a condition about the machine of the config is taken for",
        "an assertion about the machine of the config",
    )
    assert ignored == {
        3: f"{assertion} is skipped: os.path.isfile('a')",
        5: f"{condition} false: os.path.exists('b')",
        6: f"{assertion} is skipped: os.path.exists('c') and 1",
        7: f"{condition} true: os.path.exists('d')",
    }
    assert bool(net.report())


@pytest.mark.parametrize(
    "text, words",
    {
        "x = {}\nassert x, 'no'": "AssertionError",
        "import os\nif os.path.exists('a'):\n    pass\nelse:\n    raise Exception('no a')\ny = {}['b']": "KeyError",
        "import os\nassert os.path.exists('a') and False": "AssertionError",
        "import os\nif os.path.exists('a'): raise ValueError('one')\nraise ValueError('two')": "two",
    }.items(),
)
def test_a_config_that_fails_on_every_machine_says_why(text, words, write):
    with pytest.raises(rf.errors.ConfigError, match=rf"(?s)net\.config:.*{words}"):
        rf.read_config(write(text))


def test_an_unknown_value_stays_unknown(write):
    text = """
import os, socket, numpy
h = socket.gethostname()
texts = ["a" + h, "%s" % h, "%i" % len(h), "{:3d}".format(h), f"{h}", h + "a", "a".join([h]), h[0]]
truths = [not h, h == "a", h != "a", "a" in h, h in ["a"], h < 3, h and 1, 0 or h, h or False, all([h, 1]), any([h, 0])]
decided = [h and 0, h or 1, 1 or h, all([h, 0]), any([h, 1]), h is None, h is not None, h == h, True if h else False]
numbers = [int(h), len(h), max(h, 3), sum(h), sorted(h), {"a": 1}[h], [1][h], list(h), isinstance(h, str), -h, h * 2]
os.environ["A"] = "b"
"""
    config = rf.read_config(write(text))
    assert config["decided"] == [0, 1, 1, False, True, False, True, True, False]
    for value in config["texts"][:1] + config["texts"][2:4] + config["truths"] + config["numbers"]:
        assert repr(value).startswith("<"), value
    assert config["texts"][1] == config["texts"][4] == "<socket.gethostname()>"


def test_arrays_of_numpy_are_computed_by_entries(write):
    config = rf.read_config(
        write("import numpy as np\na = np.linspace(0, 1, 3) * 2 - 1\nb = (2 ** a[::-1], -a, a + a)\nc = a.shape")
    )
    assert config["a"] == [-1, 0, 1] and config["b"] == ([2, 1, 0.5], [1, 0, -1], [-2, 0, 2]) and config["c"] == (3,)


def test_data_that_only_the_machine_knows_stops_what_needs_it_alone(write):
    text = "n = len(open('vocab').read())\nextern_data = {'data': {'dim': 3}, 'labels': {'dim': n, 'sparse': True}}\n"
    text += "network = {'output': {'class': 'copy', 'from': 'data'}, 'b': {'class': 'copy', 'from': 'data:labels'}}"
    with pytest.raises(rf.errors.NetworkError, match=r"extern_data 'labels': dim has a value of another type"):
        rf.Network.from_config(write(text))
    net = rf.Network.from_config(write(text), strict=False)
    assert list(net.layers) == ["output"]
    [found] = net.report().of("stops")
    assert found.layers == ("data:labels",) and found.what.startswith("extern_data 'labels': dim has a value")


@pytest.mark.parametrize("functions", [3, "x", {"a": 3}, np.zeros(2)])
def test_functions_that_are_none_are_refused(functions, write):
    with pytest.raises(rf.errors.RfError, match=r"functions.* is not a (dict|function)"):
        rf.Network.from_config(write("num_inputs = 3\nnetwork = {'output': {'class': 'copy'}}"), functions=functions)


def test_files_beside_the_config_are_read_too(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("size = 4\nfrom .sizes import more")
    (tmp_path / "pack" / "sizes.py").write_text("more = 5")
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "net.config").write_text(
        "import helpers, pack, elsewhere\nfrom helpers import add\nnetwork = {}\ncount = 7\n"
        "add(network, n_out=pack.size + pack.more)\nn, x = helpers.count, elsewhere.x"
    )
    config = rf.read_config(tmp_path / "net.config")
    layer = config.network()["layer0"]
    assert (layer["n_out"], config["n"], config["count"]) == (9, 1, 7)
    assert (layer.file, layer.line) == (str(tmp_path / "helpers.py"), 4)
    (tmp_path / "helpers.py").write_text("import pack\nx = pack.nothing + {}['a']")
    with pytest.raises(ConfigError, match=r"net\.config:2: helpers\.py:2: "):
        rf.read_config(tmp_path / "net.config")


HELPERS = """count = 0
def add(net, **options):
    global count
    net["layer%i" % count] = {"class": "linear", **options}
    count += 1
"""


def test_texts_are_interpreted_and_helper_classes_hold_dicts(tmp_path):
    (tmp_path / "net.config").write_text(
        "from dataclasses import dataclass, field\nfrom collections import namedtuple, defaultdict\n"
        "a = eval('2 * %i' % 3)\nexec('b = a + 1')\n"
        "@dataclass\nclass Sizes:\n    low: int\n    high: int = 5\n    more: list = field(default_factory=list)\n"
        "class Net(dict):\n    def add(self, name):\n        self[name] = {'n_out': len(self)}\n"
        "class Box:\n    def __init__(self): self.net = Net(x={})\n"
        "    def __getitem__(self, key): return self.net[key]\n"
        "    def __contains__(self, key): return key in self.net\n"
        "    def __len__(self): return 9\n    def __iter__(self): return iter(self.net)\n"
        "    def __add__(self, other): return other * 2\n"
        "box = Box()\nbox.net.add('y')\nc = [box['y'], 'x' in box, len(box), list(k for k in box), box + 4]\n"
        "d = Sizes(2)\nd.more.append(1)\ne = [d.low, d.high, d.more, Sizes(3, high=1).more]\n"
        "f = namedtuple('Pair', 'left right')(1, right=2).right\ng = defaultdict(list)\ng['z'].append(f)"
    )
    config = rf.read_config(tmp_path / "net.config")
    assert (config["a"], config["b"], config["c"]) == (6, 7, [{"n_out": 1}, True, 9, ["x", "y"], 8])
    assert (config["e"], config["f"], config["g"]) == ([2, 5, [1], []], 2, {"z": [2]})
