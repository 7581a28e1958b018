"""A config cannot harm: it takes no more than its share, and reaches nothing of Python."""

import time

import pytest

import rfnb as rf
from rfnb.errors import ConfigError

TOO_MUCH = {
    "endless loop": "while True: pass",
    "endless loop that catches all": "while True:\n    try:\n        x = [0] * 10**12\n    except:\n        pass",
    "entries": "x = [0] * 10**12",
    "many long lists": "x = [[0] * 10**6 for i in range(10**6)]",
    "doubled lists": "x = [1]\nfor i in range(99): x = x + x",
    "doubled texts": "x = 'a'\nfor i in range(99): x += x",
    "joined": "x = ','.join(['a' * 10**6] * 10**5)",
    "replaced": "x = ('a' * 10**6).replace('a', 'b' * 10**6)",
    "range as a list": "x = list(range(10**12))",
    "range as a set": "x = {*range(10**9)}",
    "summed": "x = sum(range(10**11))",
    "mapped": "x = list(map(str, range(10**12)))",
    "comprehension": "x = [i for i in range(10**9)]",
    "power": "x = 10 ** 10 ** 10",
    "shift": "x = 1 << 10**9",
    "factors": "x = 3\nfor i in range(99): x = x * x",
    "wide format": "x = '{:>{w}}'.format(1, w=10**9)",
    "wide f-string": "x = f'{1:1000000000}'",
    "wide percent": "x = '%1000000000d' % 1",
    "percent with names": "x = '%(a)s' * 10**5 % {'a': 'b' * 10**6}",
    "percent of one text": "x = '%s%s%s' * 10 % (('a' * 999_999,) * 30)",
    "a list of long texts": "x = repr(['a' * 10**6] * 10**4)",
    "precision with a star": "x = '%.*f' % (10**9, 1)",
    "unknown conditions": "import os\n"
    + "if os.path.exists('a'): pass\n" * 500
    + "for i in range(10**5): x = i\nraise Exception()",
    "percent with a star": "x = '%*d' % (10**9, 1)",
    "padded": "x = 'a'.ljust(10**12)",
    "recursion": "def f(): return f()\nf()",
    "deep brackets": "x = " + "[" * 5000 + "]" * 5000,
    "deep sum": "x = " + "1 + " * 100_000 + "1",
    "deep list": "x = []\nfor i in range(10**5): x = [x]\ny = '%s' % x",
    "numpy": "import numpy\nx = numpy.zeros([10**6, 10**6])",
    "copies": "import copy\nx = [[]]\nfor i in range(99): x = [x, x]\ny = copy.deepcopy(x)\nz = str(y)",
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_takes_too_much_is_refused(name, tmp_path):
    file = tmp_path / "net.config"
    file.write_text(TOO_MUCH[name])
    begun = time.process_time()
    with pytest.raises(ConfigError, match=r"net\.config:"):
        rf.read_config(file)
    assert time.process_time() - begun < 6  # 2 s, and a slow machine


REACHES_OUT = [
    "().__class__",
    "().__class__.__base__.__subclasses__()",
    "'{0.__class__}'.format(1)",
    "'{0.a.b}'.format(lambda: 0)",
    "f'{().__class__}'",
    "getattr(1, '__class__')",
    "(lambda: 0).__globals__",
    "(lambda: 0).__code__",
    "str.__mro__",
    "[].append.__self__",
    "len.__self__",
    "config.__init__",
    "config.values",
    "__builtins__",
    "eval('().__class__')",
    "exec('import builtins')",
    "compile('1', '', 'eval')",
    "(i for i in [1]).gi_frame",
    "type(1).mro()",
    "{}.__reduce__()",
    "setattr(str, 'upper', 1)",
]


@pytest.mark.parametrize("expression", REACHES_OUT)
def test_nothing_of_python_can_be_reached(expression, tmp_path):
    file = tmp_path / "net.config"
    file.write_text(f"x = {expression}")
    with pytest.raises(ConfigError, match=r"net\.config:1: "):
        rf.read_config(file)


def test_what_is_imported_does_nothing(tmp_path):
    file, made = tmp_path / "net.config", tmp_path / "made"
    file.write_text(
        "import os, subprocess, pickle\nfrom shutil import rmtree\n"
        f"os.system('touch {made}')\nsubprocess.check_call(['touch', '{made}'])\nopen('{made}', 'w').write('x')\n"
        f"__import__('os').system('touch {made}')\nwith open('{made}', 'w') as f:\n    f.write('x')\n"
        "x = pickle.loads(b'')\ny = os.path.exists('/'), os.listdir('/'), dict(os.environ), os.getenv('HOME')\n"
        "z = type(lambda: 0)(1, 2), subprocess.PIPE + 3, len(subprocess.PIPE), not subprocess.PIPE\n"
    )
    config = rf.read_config(file)
    assert not made.exists() and config["y"][3] is None
    assert list(map(repr, config["y"][:3])) == ["<os.path.exists()>", "<os.listdir()>", "<dict(os.environ)>"]
    assert repr(config["x"]) == "<pickle.loads()>"
