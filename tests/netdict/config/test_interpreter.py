"""Programs give the same values as Python gives."""

import copy
import warnings
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import ConfigError
from rfnb.netdict.config.read import read_config
from tests.examples import examples

FILE = Path(__file__).with_name("programs.txt")
PROGRAMS = dict(part.split("\n", 1) for part in FILE.read_text(encoding="utf-8").split("# --- ")[1:])


def read(tmp_path, program):
    file = tmp_path / "net.config"
    file.write_text(program)
    return rf.read_config(file).values


def plain(values):
    kept = (int, float, str, list, tuple, dict, set, bool, type(None))
    return {name: value for name, value in values.items() if isinstance(value, kept) and not name.startswith("__")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_python_gives(name, tmp_path):
    expected = {}
    exec(PROGRAMS[name], expected)
    functions = {name for name, value in expected.items() if callable(value)}
    given = {key: value for key, value in plain(read(tmp_path, PROGRAMS[name])).items() if key not in functions}
    own = {key: value for key, value in plain(expected).items() if key not in functions}
    if name == "closures":
        del own["fs"], given["fs"]
    if name == "generators":
        own.pop("f", None)
    assert given == own


numbers = st.integers(-9, 9).map(str)
texts = st.sampled_from(["'a'", "'bc'", "''"])
leaves = numbers | texts | st.sampled_from(["[]", "[1, 2]", "(3,)", "{'k': 1}", "None", "True", "n", "l", "d"])
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+ - * // % < == in and or".split()), inner).map(lambda t: f"({' '.join(t)})"),
        st.tuples(inner, inner).map(lambda t: f"{t[0]}[{t[1]}]"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"[*[{t[0]}], {t[1]}]"),
        inner.map(lambda x: f"len({x})"),
        inner.map(lambda x: f"[x for x in {x}]"),
        inner.map(lambda x: f"(lambda q: (q, n))({x})"),
        inner.map(lambda x: f"f'{{{x}!r:>4}}'".replace("'", '"', 1)[:-1] + '"'),
        inner.map(lambda x: f"(-{x})"),
    ),
    max_leaves=8,
)


@examples(150)
@given(expressions)
def test_an_expression_gives_what_python_gives(tmp_path_factory, expression):
    start = "n = 4\nl = [1, 5]\nd = {'k': 2}\n"
    names = {}
    exec(start, names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the compiler: "'int' object is not subscriptable"
            code = compile(f"({expression})", "e", "eval")
        expected = eval(code, names)
    except Exception as error:
        expected = type(error)
    file = tmp_path_factory.mktemp("c") / "net.config"
    file.write_text(f"{start}x = ({expression})")
    try:
        given = read_config(file)["x"]
    except ConfigError as error:
        assert isinstance(expected, type) and (expected.__name__ in str(error) or expected is SyntaxError)
    else:
        assert given == expected and type(given) is type(copy.copy(given))


def test_functions_run_in_the_config_and_say_where_they_fail(tmp_path):
    file = tmp_path / "net.config"
    file.write_text(
        "def get_network(epoch, **_):\n    d = {'output': {'class': 'copy'}}\n    return d if epoch > 2 else d[3]\n"
    )
    config = rf.read_config(file)
    assert config.network(epoch=3) == {"output": {"class": "copy"}}
    with pytest.raises(ConfigError, match=r"net.config:3: the config fails"):
        config.network(epoch=1)
