"""Functions of torch and numpy in expressions give what they give alone, and change nothing."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.expression import torch_ops
from rfnb.core.expression.expression import Expression, Names, functions_of_ops
from rfnb.errors import ExpressionError, RfError
from tests.examples import examples

ARGUMENTS = """
    (0) (1,2) (x) (p) (x,y) (x,0) (p,0) (x,1) (i,j) (i) (b) (b,c) (v) (v,v) (x,x) (x,b,2.0) (b,x,y) (x,y,z) (x,0,1)
    (x,2) (q) (q,q) (q,v) (s,s) ([x,y]) ('ij,kj->ik',x,y) ([q,q]) (x,k) (x,0,k) (x,1,i1) (x,i1,1) (x,(5,4)) (x,0.25)
    (x,0.25,1) (x,0,(2,2)) (x,0,1,2) (x,i) (v,x) (x,dim=0) (x,v) (x,-1.0,1.0) (x,torch.float64) (one) (x,20) (x,(5,))
    (x,t) (p,p) (1.5) (w3,w3) (b,b) (x,0.1,2.0) (x,x,q) (x,axis=1) (2.0,1.0) (x,[20]) (x,x,x) (x,b) (x,0,1,1)
    (x,(1,0)) (q,q,1)
"""
CANDIDATES = ["{}" + text for text in ARGUMENTS.split()]
"""Calls, of which each function can compute some."""


def operands():
    torch.manual_seed(3)
    x, y, z = torch.randn(3, 4, 5)
    return {
        "x": x, "y": y, "z": z, "p": x.abs() * 0.4 + 0.1, "i": torch.randint(0, 4, (4, 5)),
        "j": torch.randint(1, 4, (4, 5)), "b": x > 0, "c": y > 0, "v": torch.randn(5), "q": torch.randn(5, 5),
        "s": torch.randn(2, 3, 3), "k": torch.tensor([1, 0]), "i1": torch.randint(0, 4, (4, 5)),
        "one": torch.ones(1, 1), "t": torch.tensor([0, 1, 2, 3]), "w3": torch.randn(2, 3),
    }  # fmt: skip


def same(found, expected):
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, rf.Tensor):
        found = found.raw_tensor
    if isinstance(expected, torch.Tensor):
        return found.dtype == expected.dtype and torch.equal(torch.nan_to_num(found), torch.nan_to_num(expected))
    if isinstance(expected, np.ndarray | np.generic):
        return np.array_equal(np.asarray(found), expected, equal_nan=np.asarray(expected).dtype.kind == "f")
    return type(found) is type(expected) and (found == expected or found != found)


def methods(name):
    """`x.sum(0)` for `sum(x,0)`, and so on."""
    calls = [text[3:-1].partition(",") for text in CANDIDATES if text[3].isidentifier()]
    return [f"{owner}.{name}({others})" for owner, _, others in calls]


FUNCTIONS = sorted(name for name in torch_ops.functions() if name.split(".")[0] in ("torch", "F"))
ARRAY_FUNCTIONS = sorted(set(torch_ops.functions()) - set(FUNCTIONS))


MODULES = {"torch": torch, "F": F, "np": np, "math": math}
REFUSED = ("without names", "read-only", "`to` can only change", "a ndarray")
CANNOT = (
    ArithmeticError,
    AssertionError,
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    NotImplementedError,
    SyntaxError,
)


def copies(values):
    return {name: value.clone() if isinstance(value, torch.Tensor) else value.copy() for name, value in values.items()}


def check(texts, values):
    """Each text that Python can compute has the same value as an expression, and no operand changes."""
    before, names, count = copies(values), Names(values, functions_of_ops()), 0
    for text in texts:
        try:
            expected = eval(text, {**MODULES, **copies(values)})  # of the table above alone
        except CANNOT:
            continue
        try:
            found = Expression(text).value(names)
        except ExpressionError as error:  # an argument that would be written to; another device; an array of objects
            assert any(words in str(error) for words in REFUSED), text
            continue
        assert same(found, expected), text
        count += 1
    assert count, texts[0]
    for name, value in values.items():
        assert same(value, before[name])
        assert isinstance(value, np.ndarray) or value._version == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_torch_give_what_torch_gives(name):
    check([text.format(name) for text in CANDIDATES], operands())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(torch_ops.methods()))
def test_methods_of_tensors_give_what_they_give_alone(name):
    if name == "numpy":
        assert np.array_equal(Expression("x.numpy()").value(Names(operands(), {})), operands()["x"].numpy())
        return
    check(methods(name), operands())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ARRAY_FUNCTIONS)
def test_functions_of_numpy_and_math_give_what_they_give_alone(name):
    arrays = {key: value.numpy() for key, value in operands().items()}
    check([text.format(name) for text in CANDIDATES], arrays)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(torch_ops.ARRAY_METHODS))
def test_methods_of_arrays_give_what_they_give_alone(name):
    arrays = {key: value.numpy() for key, value in operands().items()}
    check(methods(name), arrays)


HOSTILE = """
    x.__class__ x.__class__.__mro__ x.__dict__ x.__reduce__() x.__setitem__(0,1) x.__array__() x.__torch_function__
    x.__init__() x.data x.data.fill_(0) x.grad_fn x.grad x._grad x._base x._version x.storage() x.untyped_storage()
    x.data_ptr() x.numpy().tofile('f') x.numpy().fill(0) x.numpy().setflags(1) x.numpy().data x.numpy().base
    x.numpy().ctypes x.numpy().dump('f') x.numpy().sort() x.numpy().resize(0) x.numpy().put(0,1)
    x.numpy().partition(1) arr.tofile('f') arr.dump('f') arr.dumps() arr.fill(0) arr.sort() arr.resize(3) arr.put(0,1)
    arr.itemset(0,1) arr.setflags(write=True) arr.setfield(0,'f') arr.byteswap(True) arr.partition(1) arr.data
    arr.base arr.ctypes arr.flags arr.view('object') arr.astype('object') arr.tobytes() arr.__array_interface__
    arr.choose(arr) arr.sum(0,None,row) arr.sum(out=row) arr.clip(0,1,arr) arr.cumsum(0,None,arr) arr.round(1,arr)
    arr.mean(0,None,row) np.add(arr,1,arr) np.abs(arr,arr) np.abs(arr,out=arr) np.exp(arr,arr) np.sum(arr,0,None,row)
    np.clip(arr,0,1,arr) np.clip(arr,0,1,out=arr) np.cumsum(arr,0,None,arr) np.round(arr,0,arr)
    np.median(arr,None,None,True) np.copyto(arr,0) np.put(arr,0,1) np.place(arr,arr>0,1) np.putmask(arr,arr>0,1)
    np.fill_diagonal(arr,0) np.save('f',arr) np.load('f') np.savetxt('f',arr) np.fromfile('f') np.memmap('f')
    np.random.rand(3) np.random.seed(0) np.array([1]) np.zeros(10**12) np.frombuffer('a') np.fromfunction(abs,(2,))
    np.vectorize(abs) np.apply_along_axis(abs,0,arr) np.lib np.ctypeslib np.repeat(arr,10**9) np.tile(arr,10**9)
    np.linspace(0,1,10**9) np.arange(10**9) np.broadcast_to(arr,(10**9,2,3)) np.os np.sys np.testing np.f2py np.core
    np.einsum('ij->ij',arr,out=arr) np.nan_to_num(arr,False) np.frompyfunc(abs,1,1) torch.load('f') torch.save(x,'f')
    torch.set_grad_enabled(False) torch.manual_seed(0) torch.seed() torch.rand(3) torch.randn(3) torch.randperm(9)
    torch.bernoulli(x) torch.multinomial(x,1) torch.normal(x,x) torch.dropout(x,0.5,True) torch.zeros(10**12)
    torch.ones(10**12) torch.full((10**12,),1) torch.empty(10**12) torch.arange(10**12) torch.eye(10**6)
    torch.linspace(0,1,10**12) torch.tile(x,(10**9,)) torch.broadcast_to(x,(10**9,4,5))
    torch.repeat_interleave(x,10**9) torch.ops torch.ops.aten.add_(x,1) torch.ops.load_library('f') torch.classes
    torch.hub torch.hub.load('a','b') torch.os torch.sys torch.jit.script(x) torch.compile(x) torch.utils torch.cuda
    torch.cuda.init() torch.nn.Linear(3,3) torch.nn torch.from_file('f') torch.add(x,1,out=x) torch.abs(x,out=x)
    torch.max(x,0,out=(x,x)) torch.relu_(x) torch.abs_(x) torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64) torch.multiprocessing torch.distributed torch._C torch.autograd.backward(x)
    torch.tensor([1]) torch.as_tensor(arr) torch.from_numpy(arr) torch.diag(x) torch.bincount(i) torch.histc(x,10**12)
    torch.combinations(x) torch.cartesian_prod(x,x) torch.meshgrid(x,x) torch.vander(x) torch.Tensor
    torch.nn.functional.dropout(x) torch.nn.functional.pad(x,(10**9,)) torch.nn.functional.one_hot(i,10**12)
    torch.linalg.os torch.linalg.inv(x,out=x) torch.linalg.norm(x,out=x) torch.special torch.fft torch.sparse
    torch.testing torch.float32.x F.relu(x,True) F.relu(x,inplace=True) F.elu(x,1.0,True) F.leaky_relu(x,0.1,True)
    F.hardtanh(x,-1,1,True) F.silu(x,True) F.threshold(x,0,1,True) F.normalize(x,2,1,1e-9,x) F.normalize(x,out=x)
    F.dropout(x) F.rrelu(x) F.gumbel_softmax(x) F.os F.relu_(x) F.pad(x,(10**9,10**9)) F.interpolate(x,10**9)
    F.one_hot(i,10**12) F.torch F.torch.load('f') F.has_torch_function x.requires_grad_() x.set_() x.resize_(3)
    x.add_(1) x.zero_() x.copy_(y) x.normal_() x.uniform_() x.random_() x.bernoulli() x.multinomial(1) x.to('meta')
    x.to('cuda') x.to(y) x.to(device='cpu') x.cuda() x.repeat(10**9) x.expand(10**12,4,5) x.tile(10**9)
    x.repeat_interleave(10**9) x.new_zeros(10**12) x.new_full((9,),1) x.new_tensor([1]) x.unfold(0,1,1)
    x.register_hook(f) x.register_hook(abs) x.backward() x.retain_grad() x.detach_() x.share_memory_() x.pin_memory()
    x.apply_(abs) x.map_(y,abs) x.index_put_((i,),y) x.index_put((i,),y) x.scatter_(0,i,y) x.masked_fill_(x>0,0)
    x.clamp_(0) x.sort(out=x) x.module_load(y) x.as_strided((10**9,),(0,)) x.as_subclass(x) x.type('f') x.diag_embed()
    x.stft(4) x.where(x>0,y,out=x) x.sum(out=x) x.reshape(0,10**12) (x[:0]).reshape(0,10**12)
    (x[:0]).reshape(0,10**12).sum(0) (x[:0]).view(10**12,0) x.T.data x.real.data x[0].data x[:].fill_(0) x.H.data
    x['a'] x[abs] x[rf] x.shape.__class__ x.dtype.__class__ x.dtype.to_complex x.shape.numel() x.device.__class__
    x.device.type.format(x) getattr(x,'data') setattr(x,'a',1) delattr(x,'a') vars(x) dir(x) type(x) id(x) eval('1')
    exec('1') compile('1','','eval') open('f') input() print(x) globals() locals() object() iter(x) next(x) hash(x)
    repr(x) str(x) bytes(10**9) bytearray(10**9) list(x) tuple(x) set(x) dict(x) range(10**9) sorted(x) map(abs,x)
    zip(x) filter(abs,x) enumerate(x) isinstance(x,x) issubclass(x,x) callable(x) super() memoryview(x) breakpoint()
    help() exit() __import__('os') math.os math.factorial(10**6) math.comb(10**6,10**5) math.__loader__ math.perm(9)
    math.prod([9]) math.dist len(f) max(f) float(f) abs(f) sum(f) f() f.x f.__globals__ f.__code__ obj.method()
    obj._secret obj.__class__ obj.prop cls.x cls() mod.system('x') mod.os obj() obj.inner() text.format(x)
    text.upper() text.__class__ len(obj) obj+1 obj==1 obj[0] obj>obj text*10**9 tokens*10**9 tokens.append(1)
    tokens.pop() tokens.clear() tokens+tokens d.clear() d.update(d) d.pop('k') d.__class__ d.keys() d['x'] int('9'*10)
    x.size.real x.sum.x torch.sum.x np.abs.x torch.sum rf.sum torch F np math rf len abs entropy x.sum x.softmax(obj)
    torch.where(obj,x,y) torch.cat(obj) torch.cat([x,f]) x.sum(f) x.add(obj) rf.abs(f) x@obj x.sum(*tokens) x.sum(**d)
    hid.x hid.x.y hid['a'] hid() len(hid) hid.x() hid+hid hid.members x[hid] x[obj] x[f] x[{1}] x[lambda:1]
    x.unflatten(0,(10**9,0)) x.outer(x) w[None].mT.data x.sum(dtype='f') x.numpy(force=True) torch.sum(x,generator=1)
    torch.sum(x,device='cpu') torch.abs(input=x,out=x) torch.clip(x,0,1,out=x) torch.where(x>0,x,y,out=x)
""".split()


class Hidden:
    """Its attributes are code."""

    @property
    def __dict__(self):
        raise SystemExit

    def __getattr__(self, name):
        raise SystemExit


class Thing:
    """An object of the user, whose code must not run."""

    def __init__(self):
        self._secret, self.inner = 1, len

    @property
    def prop(self):
        raise SystemExit

    def method(self):
        raise SystemExit

    __call__ = __len__ = __getitem__ = __eq__ = __gt__ = __add__ = __iter__ = __bool__ = __hash__ = method
    __torch_function__ = __array__ = __index__ = __float__ = method


def hostage():
    torch.manual_seed(5)
    return {
        "x": torch.randn(4, 5), "y": torch.randn(4, 5), "w": torch.randn(5, 5), "i": torch.tensor([0, 1]),
        "arr": np.arange(6.0).reshape(2, 3), "row": np.zeros(3), "text": "{0}", "tokens": [1, 2], "d": {"k": 1},
        "obj": Thing(), "hid": Hidden(), "f": len, "cls": Thing, "mod": math,
    }  # fmt: skip


def state(values):
    """All that an expression could have changed."""
    numbers = [value.tolist() for value in values.values() if isinstance(value, torch.Tensor | np.ndarray)]
    versions = [value._version for value in values.values() if isinstance(value, torch.Tensor)]
    others = [values["tokens"][:], dict(values["d"]), vars(values["obj"]).copy(), values["x"].requires_grad]
    generators = [torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()]
    return numbers, versions, others, generators, torch.is_grad_enabled(), torch.get_default_dtype()


def test_hostile_expressions_are_refused_and_change_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = hostage()
    before, names, allowed = state(values), Names(values, functions_of_ops()), []
    for text in HOSTILE:
        try:
            found = Expression(text).value(names)
        except RfError:
            continue
        allowed.append((text, found))
    assert [text for text, _ in allowed] == []
    assert state(values) == before and not list(tmp_path.iterdir())


def names_that_write(owner):
    return [name for name in dir(owner) if name.endswith("_") and not name.endswith("__")]


def test_no_name_outside_of_the_tables_can_be_called(monkeypatch):
    monkeypatch.setattr("rfnb.core.expression.expression.did_you_mean", lambda *_: None)
    monkeypatch.setattr("rfnb.core.expression.torch_ops.did_you_mean", lambda *_: None)
    values = hostage()
    before, names = state(values), Names(values, functions_of_ops())
    known = torch_ops.methods().keys() | torch_ops.ATTRIBUTES
    texts = [f"x.{name}{call}" for name in dir(torch.Tensor) if name not in known for call in ("()", "")]
    texts += [f"arr.{name}{call}" for name in dir(np.ndarray) if name not in known for call in ("()", "")]
    owners = {"torch": torch, "F": F, "torch.linalg": torch.linalg, "np": np, "np.linalg": np.linalg, "math": math}
    for path, owner in owners.items():
        there = torch_ops.functions().keys() | torch_ops.constants().keys()
        texts += [f"{path}.{name}(x)" for name in dir(owner) if f"{path}.{name}" not in there]
    assert len(texts) > 3000
    for text in texts:
        with pytest.raises(ExpressionError):
            Expression(text).value(names)
    assert state(values) == before
    assert not {name for name in torch_ops.methods() if name.endswith("_")} & set(names_that_write(torch.Tensor))


@pytest.mark.parametrize("name", [*ARRAY_FUNCTIONS, *FUNCTIONS])
@pytest.mark.filterwarnings("ignore")
def test_no_argument_of_a_function_is_written_to(name):
    values = {"x": torch.rand(3, 3) + 0.1, "a": np.ones((3, 3)), "m": torch.ones(3, 3) > 0}
    before, names = copies(values), Names(values, {})
    arguments = "x,x,x x,0,x a,a,a a,0,None,a x,True x,1.0,True a,a x,0.0,1.0,True a,0,1,a a,a,a,a x,x,x,x"
    for each in arguments.split():
        try:
            Expression(f"{name}({each})").value(names)
        except RfError:
            continue
    assert all(same(value, before[key]) for key, value in values.items()) and values["x"]._version == 0


@pytest.mark.parametrize(
    "text",
    [
        "(v[:, None, None] * v[None, :, None]) * v[None, None]",
        "torch.outer(v, v).outer(v)",
        "v[:, None] @ v[None] @ v[None].T @ v[None]",
        "v[:0].reshape(0, 2**40).sum(0)",
        "v[None][:, :0].T @ v[None][:, :0].reshape(0, 1)",
        "torch.einsum('i,j,k->ijk', v, v, v)",
        "torch.cdist(v[:, None], v[:, None])[idx]",
        "v[idx][:, None][:, ids]",
        "v.tolist()",
        "v.split(1)",
        "np.add(a[:, None, None], a[None, :, None]) + a",
    ],
)
def test_results_that_are_far_too_large_are_refused(text):
    values = {"v": torch.zeros(200_000), "a": np.zeros(2000), "idx": torch.zeros(20000, dtype=torch.int64)}
    values["ids"] = torch.zeros(200_000, dtype=torch.int64)
    with pytest.raises(ExpressionError):
        Expression(text).value(Names(values, {}))


# -- Tensors: the same numbers, and dims where the axes are known

rows, columns = rf.Dim(4, name="rows"), rf.Dim(5, name="columns")
EACH_ALONE = sorted(name for name, kind in ((n, f.kind) for n, f in torch_ops.methods().items()) if kind == "each")


def tensors():
    values = {name: value for name, value in operands().items() if value.shape == (4, 5)}
    return {name: rf.convert_to_tensor(value, dims=[rows, columns]) for name, value in values.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EACH_ALONE)
def test_methods_of_entries_keep_the_dims(name):
    named, count = tensors(), 0
    raws = {key: value.raw_tensor for key, value in named.items()}
    for text in methods(name):
        try:
            expected = eval(text, {**MODULES, **raws})  # of the table above alone
        except (*CANNOT, NameError):
            continue
        try:
            found = Expression(text).value(Names(named, {}))
        except ExpressionError as error:
            assert any(words in str(error) for words in REFUSED), text
            continue
        assert same(found, expected), text
        if expected.shape == (4, 5):
            assert found.dims == (rows, columns), text
            count += 1
    assert count


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("x.sum(1)", "rows"),
        ("x.sum(-2)", "columns"),
        ("x.sum(dim=[0, 1])", ""),
        ("x.mean()", ""),
        ("x.amax(0)", "columns"),
        ("torch.norm(x, 2, 1)", "rows"),
        ("x.norm(dim=0)", "columns"),
        ("x.max(dim=1).values", "rows"),
        ("x.max(1)[1]", "rows"),
        ("torch.max(x, y)", "rows columns"),
        ("x.softmax(-1)", "rows columns"),
        ("x.sort(0).values", "rows columns"),
        ("x.cumsum(1)", "rows columns"),
        ("x[0]", "columns"),
        ("x[:, -1]", "rows"),
        ("x[..., 2]", "rows"),
        ("x[1, 2]", ""),
        ("x[:]", "rows columns"),
        ("abs(x)", "rows columns"),
        ("x * 2 - y / 3 > 0", "rows columns"),
        ("~(x > 0) & (y > 0)", "rows columns"),
        ("torch.where(x > 0, x, y)", "rows columns"),
        ("x - x.max(-1, keepdim=True).values", "rows columns"),
        ("np.abs(x)", "rows columns"),
        ("np.sum(x, 1)", "rows"),
        ("x.float().mean(0).abs()", "columns"),
    ],
)
def test_known_axes_keep_their_dims(text, dims):
    named = tensors()
    found = Expression(text).value(Names(named, {}))
    raws = {key: value.raw_tensor.numpy() if "np." in text else value.raw_tensor for key, value in named.items()}
    expected = eval(text, {**MODULES, **raws})  # of this table
    assert " ".join(dim.name for dim in found.dims) == dims
    assert torch.allclose(found.raw_tensor, torch.as_tensor(expected))


@pytest.mark.parametrize(
    "text",
    ["x.T", "x.view(-1)", "x[1:]", "x[None]", "x[x > 0]", "x[[0, 1]]", "x.topk(2).indices", "x.sum(1, keepdim=True)"],
)
def test_other_axes_have_positions_only(text):
    named = tensors()
    found = Expression(text).value(Names(named, {}))
    raws = {key: value.raw_tensor for key, value in named.items()}
    assert torch.equal(found, eval(text, {**MODULES, **raws}))  # of this table


def test_operands_of_other_dims_are_not_taken_by_position():
    square, other = rf.Dim(4, name="square"), rf.Dim(4, name="other")
    values = {
        "x": rf.convert_to_tensor(torch.rand(4, 4), dims=[square, other]),
        "turned": rf.convert_to_tensor(torch.rand(4, 4), dims=[other, square]),
        "z": rf.convert_to_tensor(torch.rand(4, 4), dims=[square, rows]),
        "row": rf.convert_to_tensor(torch.rand(4), dims=[square]),
    }
    names = Names(values, {})
    x, turned, row = (values[name].raw_tensor for name in ("x", "turned", "row"))
    assert torch.equal(Expression("torch.maximum(x, turned)").value(names).raw_tensor, torch.maximum(x, turned.T))
    assert torch.equal(Expression("x.fmin(row)").value(names).raw_tensor, torch.fmin(x, row[:, None]))
    with pytest.raises(ExpressionError, match="the dims of the operands differ"):
        Expression("torch.maximum(x, z)").value(names)


time = rf.Dim(None, name="time")
X = [[[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]], [[4.0, 0.0]]]


def padded():
    feat = rf.Dim(2, name="feat")
    return Names({"x": rf.convert_to_tensor(X, dims=[batch_dim, time, feat], name="x")}, functions_of_ops())


@pytest.mark.parametrize(
    "text", ["x.exp()", "abs(x - 1)", "x.softmax(-1)", "x.sum(2)", "x.max(dim=-1).values", "x[..., 0]"]
)
def test_padding_stays_padding(text):
    names = padded()
    found = Expression(text).value(names)
    assert found.dims[:2] == (batch_dim, time) and found.dims[1:] != (time, time)
    total = rf.reduce_sum(found, axis=list(found.dims)).item()
    raws = [torch.tensor(sequence) for sequence in X]
    alone = [eval(text.replace("2)", "-1)"), {"x": raw, "abs": abs}).sum().item() for raw in raws]  # of this table
    assert total == pytest.approx(sum(alone))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("x.sum()", "rf.reduce_sum"),
        ("x.sum(1)", "rf.reduce_sum"),
        ("x.mean(0)", "rf.reduce_mean"),
        ("x.norm()", "rf.reduce_sum"),
        ("x.softmax(1)", "rf.softmax"),
        ("x.view(-1)", "rf."),
        ("torch.max(x)", "rf.reduce_max"),
        ("x.topk(2)", "rf."),
        ("x[:, -1]", "rf.gather"),
        ("x[:, 1:]", "rf.slice"),
        ("x[x > 0]", "rf.gather"),
        ("np.linalg.norm(x)", "rf."),
        ("torch.logsumexp(x, 1)", "rf.reduce_logsumexp"),
    ],
)
def test_padding_does_not_count_without_a_word(text, hint):
    with pytest.raises(ExpressionError) as caught:
        Expression(text).value(padded())
    assert hint in caught.value.hint and "column" in str(caught.value)


def test_a_frame_of_a_padded_tensor():
    found = Expression("x[:, 1]").value(padded())
    assert [dim.name for dim in found.dims] == ["batch", "feat"]
    assert Expression("x[1, 0, 0]").value(padded()).item() == 4.0


PARTS = st.sampled_from(
    ["0", "-1", "2", ":", "1:", ":-1", "::2", "t", ":t", "...", "None", "m", "i", "[0, 2]", "3 > 2"]
)


@examples(150)
@given(st.sampled_from(["x", "a"]), st.lists(PARTS, min_size=1, max_size=4))
def test_indexing_is_that_of_torch_and_numpy(owner, parts):
    torch.manual_seed(1)
    x = torch.randn(3, 4, 5)
    values = {"x": x, "a": x.numpy(), "t": 1, "m": torch.tensor([True, False, True]), "i": torch.tensor([2, 0])}
    text = f"{owner}[{', '.join(parts)}]"
    if owner == "a":
        values |= {"m": values["m"].numpy(), "i": values["i"].numpy()}
    try:
        expected = eval(text, dict(values))  # of the parts above alone
    except (IndexError, RuntimeError, TypeError):
        with pytest.raises(ExpressionError):
            Expression(text).value(Names(values, {}))
        return
    assert same(Expression(text).value(Names(values, {})), expected)
    if owner == "x":
        named = rf.convert_to_tensor(x, dims=[rf.Dim(n, name="axis") for n in x.shape])
        found = Expression(text).value(Names({**values, "x": named}, {}))
        assert same(found, expected)


OPERANDS = st.sampled_from(["x", "y", "s", "2", "0.5", "k", "a", "(x > 0)", "f"])


def formulas():
    def more(inner):
        binary = st.tuples(inner, st.sampled_from(["+", "-", "*", "<", "<=", "==", "!=", "/", "&", "|", "@"]), inner)
        return st.one_of(
            binary.map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            inner.map(lambda t: f"(-{t})"),
            inner.map(lambda t: f"{t}.sum()"),
            inner.map(lambda t: f"abs({t})"),
            inner.map(lambda t: f"({t}).T"),
        )

    return st.recursive(OPERANDS, more, max_leaves=6)


@examples(150)
@given(formulas())
def test_formulas_of_tensors_arrays_and_numbers_are_those_of_python(text):
    torch.manual_seed(2)
    x, y = torch.randn(2, 3, 3)
    values = {"x": x, "y": y, "s": torch.tensor(1.5), "k": torch.arange(3), "a": torch.randn(3, 3).numpy(), "f": 1.5}
    as_tensors = {**values, "a": torch.from_numpy(values["a"])}
    before = copies({name: value for name, value in values.items() if name != "f"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = eval(text, dict(as_tensors))  # of the pieces above alone
        except Exception:
            return
        try:
            found = Expression(text).value(Names(values, {}))
        except ExpressionError:  # Python computes with truth values and lists as well
            return
    assert np.allclose(np.asarray(found), np.asarray(expected), equal_nan=True), text
    assert all(same(values[name], value) for name, value in before.items())
