"""The class Module: parameters and other modules as attributes, options, and a call."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims.dim import Dim
from rfnb.core.ground import backends
from rfnb.core.ground.show import Shown, view_of
from rfnb.core.ground.text import Missing, did_you_mean, nearest
from rfnb.core.tensor.arguments import explained
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import ParameterError
from rfnb.nn.module.hooks import ForwardHook, RemovableHandle, add_hook, run_post_hooks
from rfnb.printable import encodable, printable_name, terminal_text


class NotSpecified:
    """A default argument that says "not given". All modules of rfnb then use their own default.

    >>> def make(model: rf.Dim, ff_dim=rf.NotSpecified):
    ...     return rf.ConformerEncoderLayer(model, ff_dim=ff_dim, num_heads=2)
    >>> model = rf.Dim(8, name="model")
    >>> make(model).ffn1.linear_ff.out_dim.dimension, make(model, ff_dim=3).ffn1.linear_ff.out_dim.dimension
    (32, 3)
    """


def specified(init: Callable[..., None]) -> Callable[..., None]:
    """`init`, called without the named arguments that are `NotSpecified`; its errors name the class that is made."""

    @functools.wraps(init)
    def __init__(self: Any, *args: object, **kwargs: object) -> None:  # messages find a constructor by this name
        try:
            init(self, *args, **{name: value for name, value in kwargs.items() if value is not NotSpecified})
        except TypeError as error:  # of Python, for missing arguments: it names the class that defines `init`
            if type(self).__init__ is not __init__ or not str(error).startswith(f"{init.__qualname__}()"):
                raise
            name = f"{type(self).__name__}.__init__"
            raise TypeError(str(error).replace(init.__qualname__, name, 1)) from None

    return __init__


def _data_of(value: Any) -> object:
    """A copy of the arguments of a constructor, for `rf.save_pretrained`. Raises TypeError for anything but plain data,
    dims, and classes and functions of modules of Python."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes) or isinstance(value, Dim):
        return value
    if kind is list or kind is tuple:
        return kind([_data_of(part) for part in value])
    if kind is dict:
        return {key: _data_of(part) for key, part in value.items()}
    if (isinstance(value, type) or inspect.isfunction(value)) and "<" not in value.__qualname__:
        return value
    raise TypeError(kind.__name__)


def options_of(module: Module) -> dict[str, object] | None:
    """The arguments that the module was made with, by name; None if one of them is not data."""
    args, options = vars(module).get("_made_with", (None, None))
    if args is None:
        return None
    names = inspect.signature(type(module)).bind(*args, **options).arguments
    kinds = {name: parameter.kind for name, parameter in inspect.signature(type(module)).parameters.items()}
    by_name: dict[str, object] = {}
    for name, value in names.items():
        if kinds[name] in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            return None
        by_name.update(value if kinds[name] is inspect.Parameter.VAR_KEYWORD else {name: value})
    return by_name


def check_assigned(owner: object, name: str, value: object) -> None:
    """Raises ParameterError for a module or parameter of torch, which would be neither trained nor saved, and for a
    value in the place of a parameter, which then would not be either."""
    if value is None or isinstance(value, (Parameter, Module)):  # a tuple: it takes less time than a union
        return
    import torch

    taken = isinstance(vars(owner).get(name), Parameter) and not hasattr(type(owner), name)  # a descriptor assigns it
    if not taken and not isinstance(value, (torch.nn.Module, torch.Tensor)):
        return
    path = f"{type(owner).__name__}.{name}"
    if isinstance(value, torch.nn.Module):
        raise ParameterError(
            f"{path} is a module of torch: its parameters would be neither trained nor saved",
            got=f"{type(value).__module__}.{type(value).__qualname__}",
            expected="an rf.Module",
            hint=f"{name}.rf_module"
            if hasattr(value, "rf_module")
            else f"rf.from_torch({name}, in_dims=[…], out_dims=[…]), with the dims of its arguments and results",
        )
    if taken:
        raise ParameterError(
            f"{path} is a parameter: it would be neither trained nor saved any more",
            got=called(value),
            expected="an rf.Parameter or None",
            hint=f"{path}.assign(…) sets its values; rf.register_parametrization(…) computes it in each call",
        )
    if isinstance(value, torch.nn.Parameter):
        raise ParameterError(
            f"{path} is a parameter of torch: it would be neither trained nor saved",
            got=f"torch.nn.Parameter of shape {tuple(value.shape)}",
            expected="an rf.Parameter",
            hint=f"rf.Parameter([…], raw_tensor={name}), with Dims",
        )


def warn_of_plain(owner: object, name: str, value: object) -> None:
    """Warns of a plain list, tuple or dict of modules or parameters, which do not belong to the module."""
    warnings.warn(
        encodable(
            f"{type(owner).__name__}.{printable_name(name)} is a plain {type(value).__name__}: its parameters are "
            "neither trained nor saved with the module. Use rf.ModuleList."
        ),
        stacklevel=3,
    )


ROOT = __name__.partition(".")[0]


def check_options(cls: type, given: Mapping[str, object]) -> None:
    """Raises ParameterError for the first of the options that a class of rfnb does not have.

    The constructors of users are left to Python.
    """
    init = cls.__init__  # type: ignore[misc]
    if str(getattr(init, "__module__", None)).partition(".")[0] == ROOT:  # None: made by exec
        names = _known(cls)
        for name, value in given.items():
            if names is not None and name not in names:
                raise unknown_option(cls, name, value)


def unknown_option(cls: type, name: str, value: object) -> ParameterError:
    """The error for an option that the class does not have: it names the option that is probably meant."""
    names = _known(cls) or ()
    meant = {word: option for word, options in MEANT.items() for option in reversed(options) if option in names}
    hint = f"`{meant[name]}`" if name in meant else INSTEAD.get(name) or did_you_mean(name, names, "`{}`")
    return ParameterError(
        f"{cls.__name__}: there is no option `{name}`",
        got=f"{name}={called(value)}",
        expected=", ".join(names),
        hint=hint or next((f"did you mean `{meant[word]}`?" for word in nearest(name, meant)), None),
    )


def one_of(cls: str, **given: object) -> Any:
    """The value of an option that has several names; None if none is given. Raises ParameterError if several are."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        fault = f"{cls}: `{names[0]}` is given twice"
        raise ParameterError(fault, got=" and ".join(f"{name}=…" for name in names), expected="one of them")
    return given[names[0]] if names else None


def layer_numbers(cls: type, count: object, option: str = "num_layers") -> range:
    """0, …, count - 1. Raises ParameterError if the number of layers is negative, or not a number."""
    if not isinstance(count, int) or count < 0:
        raise ParameterError(f"{cls.__name__}: `{option}` must be 0 or more", got=repr(count), expected="an int")
    return range(count)


def _known(cls: type) -> tuple[str, ...] | None:
    """The options of a class. Those that a constructor passes on are options of the class above; None: any."""
    options: list[str] = []
    for base in cls.__mro__:
        if "__init__" in vars(base) and base is not object:
            names, passes_on = _options(vars(base)["__init__"])
            options += [name for name in names if name not in options]
            if not passes_on:
                return tuple(options)
    return None


@functools.cache
def _options(init: Callable[..., object]) -> tuple[tuple[str, ...], bool]:
    """The options that a constructor takes by name, and whether it takes any others."""
    parameters = list(inspect.signature(init).parameters.values())[1:]
    by_name = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return tuple(by_name), any(p.kind is p.VAR_KEYWORD for p in parameters)


def _for(names: str, *meant: str) -> Iterable[tuple[str, tuple[str, ...]]]:
    return ((name, meant) for name in names.split())


MEANT: Mapping[str, tuple[str, ...]] = {
    **dict(_for("bias use_bias", "with_bias")),
    **dict(_for("kernel_size", "filter_size", "filter_sizes")),
    **dict(_for("stride", "strides")),
    **dict(_for("dilation", "dilation_rate")),
    **dict(_for("in_features in_channels input_size input_dim num_embeddings normalized_shape num_features", "in_dim")),
    **dict(_for("out_features out_channels hidden_size output_dim embedding_dim", "out_dim")),
    **dict(_for("embed_dim d_model hidden_size", "model_dim", "out_dim", "in_dim")),
    **dict(_for("dim_feedforward intermediate_size", "ff_dim")),
    **dict(_for("kdim", "key_dim_total")),
    **dict(_for("vdim", "value_dim_total")),
    **dict(_for("nhead n_heads heads num_attention_heads", "num_heads")),
    **dict(_for("n_layers num_hidden_layers", "num_layers")),
    **dict(_for("activation", "ff_activation")),
    **dict(_for("epsilon variance_epsilon", "eps")),
    **dict(_for("eps", "epsilon")),
    **dict(_for("dropout p", "att_dropout", "drop_prob")),
    **dict(_for("vocab_size", "vocab_dim", "in_dim")),
}
"""Options of rfnb that are probably meant by names of other libraries; the first one that a class has is suggested."""

OF_TORCH = {
    "train": "rf.init_train_step_run_ctx() before each step: dropout is on",
    "eval": "rf.init_forward_step_run_ctx(): dropout is off",
    "training": "rf.get_run_ctx().is_train_flag_enabled(func=None), or rf.to_torch(model) for functions of torch",
    **dict.fromkeys(
        "buffers named_buffers register_full_backward_hook register_forward_pre_hook _parameters _modules".split(),
        "rf.to_torch(model), a torch.nn.Module with the same parameters",
    ),
    "state_dict": "rf.save(model, path), or rf.to_torch(model).state_dict()",
    "load_state_dict": "rf.load(path, model), also of a state dict",
    "forward": "a call of the module; a subclass defines __call__",
    "zero_grad": "optimizer.zero_grad(), or rf.to_torch(model).zero_grad()",
    "requires_grad_": "parameter.trainable = False, for those of model.parameters()",
    "device": "the `device` of a parameter",
    **{name: f'model.to(device="{name}")' for name in ("cpu", "cuda")},
    "half": 'model.to(dtype="float16")',
    "bfloat16": 'model.to(dtype="bfloat16")',
    "float": 'model.to(dtype="float32")',
    "double": 'model.to(dtype="float64")',
    **dict.fromkeys(["register_buffer", "register_parameter"], "model.name = rf.Parameter(dims, auxiliary=…)"),
}
"""What modules of rfnb have instead of attributes of torch's."""

INSTEAD = {
    "bidirectional": "use a second module for the other direction, on rf.reverse_sequence(x, axis=time)",
    "num_layers": "make one module for each layer, in an rf.ModuleList",
    "batch_first": "leave it out: axes are found by their dims, in any order",
    "dropout": "call rf.dropout(x, drop_prob) on the result",
    "device": "module.to(device=…), or rf.set_default_device",
    "dtype": "module.to(dtype=…), or rf.set_default_float_dtype",
    "padding_mode": "pad the source first: rf.pad(x, axes=[…], padding=[…], mode=…)",
}
"""What to write instead of options that have no counterpart."""


NEEDS = {
    "state": ": that of the last call, or default_initial_state(batch_dims=[…])",
    **dict.fromkeys(["spatial_dim", "in_spatial_dim"], ": the dim of the frames"),
}
"""What required arguments of modules are."""


M = TypeVar("M", bound="Module")


class Module(Shown):
    """Base of all modules. Parameters and modules that are attributes belong to it.

    >>> class Residual(rf.Module):
    ...     def __init__(self, dim):
    ...         self.linear = rf.Linear(dim, dim)
    ...
    ...     def __call__(self, x):
    ...         return x + rf.relu(self.linear(x))
    >>> [name for name, _ in Residual(rf.Dim(3, name="feat")).named_parameters()]
    ['linear.weight', 'linear.bias']

    `__init__` takes options; `__call__` takes inputs, and dims that differ between calls. All calls share parameters.
    """

    _forward_hooks: dict[int, ForwardHook] | None = None
    _stands_for: object = None  # a weak reference to the module that this one is a variant of, for names
    _mirror_ref: Any = None  # the torch module that mirrors it, if there is one; see `nn.bridge`
    has_layers: ClassVar[bool] = False  # whether a call runs layers of a net dict
    _shared_by: ClassVar[Mapping[str, str]] = {}  # parameters that are shared with another, and the option for that

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and (cls.__module__ or "").startswith(f"{ROOT}."):
            cls.__init__ = specified(guarded(vars(cls)["__init__"], cls.__name__))  # type: ignore[method-assign]
        if "__call__" in vars(cls):
            cls.__call__ = _observed(vars(cls)["__call__"])  # type: ignore[method-assign]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The forward computation, which a subclass defines."""
        hint = ": rename its `forward` to `__call__`" if hasattr(type(self), "forward") else ""
        raise NotImplementedError(f"{type(self).__name__} has no __call__{hint}")

    if not TYPE_CHECKING:

        def __new__(cls, *args: object, **options: object) -> Module:
            """Raises ParameterError for an option that a class of rfnb does not have."""
            if options:
                check_options(cls, options)
            if (args or options) and cls.__init__ is object.__init__:
                raise TypeError(f"{cls.__name__}() takes no arguments")
            module = super().__new__(cls)
            with suppress(TypeError):
                object.__setattr__(module, "_made_with", _data_of((args, options)))
            return module

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property raised AttributeError: show its own message
                return object.__getattribute__(self, name)
            way = f" → {OF_TORCH[name]}" if name in OF_TORCH else ""
            raise Missing(f"{type(self).__name__!r} object has no attribute {name!r}{way}", name, self)

    def __setattr__(self, name: str, value: object) -> None:
        check_assigned(self, name, value)
        object.__setattr__(self, name, value)
        if isinstance(value, Parameter):
            _name_after(value, name)
        elif isinstance(value, dict | list | tuple):
            parts = value.values() if isinstance(value, dict) else value
            if any(isinstance(part, Module | Parameter) for part in parts):
                warn_of_plain(self, name, value)

    # -- state

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State | None:
        """The initial states of the children, by name; None if no child has a state.

        >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(4, name="out")
        >>> model = rf.ModuleList(rf.LSTM(feat, out), rf.LSTM(out, out))
        >>> state = model.default_initial_state(batch_dims=[rf.batch_dim])
        >>> list(state), state["0"].h.dims == (rf.batch_dim, out)
        (['0', '1'], True)
        >>> rf.Linear(feat, out).default_initial_state(batch_dims=[]) is None
        True
        """
        states = {name: child.default_initial_state(batch_dims=batch_dims) for name, child in self.named_children()}
        initial = {name: state for name, state in states.items() if state is not None}
        return State(initial) if initial else None

    # -- parts

    def children(self) -> Iterator[Module]:
        """The direct submodules, a shared one once.

        >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(4, name="out")
        >>> model = rf.Sequential(rf.Sequential(rf.Linear(feat, out), rf.relu), rf.LayerNorm(out))
        >>> [type(child).__name__ for child in model.children()]
        ['Sequential', 'LayerNorm']
        """
        return (child for _, child in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names, a shared one once.

        >>> model = rf.Sequential(rf.Linear(rf.Dim(3, name="feat"), rf.Dim(4, name="out")), rf.relu)
        >>> [(name, type(child).__name__) for name, child in model.named_children()]
        [('0', 'Linear'), ('1', 'Functional')]
        """
        return self.named_modules(recurse=False, include_self=False)

    def modules(self, *, recurse: bool = True, include_self: bool = True) -> Iterator[Module]:
        """The module itself and all submodules, a shared one once.

        >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(4, name="out")
        >>> model = rf.Sequential(rf.Sequential(rf.Linear(feat, out), rf.relu), rf.LayerNorm(out))
        >>> [type(module).__name__ for module in model.modules()]
        ['Sequential', 'Sequential', 'Linear', 'Functional', 'LayerNorm']
        """
        return (module for _, module in self.named_modules(recurse=recurse, include_self=include_self))

    def named_modules(
        self, *, recurse: bool = True, include_self: bool = True, memo: set[int] | None = None, prefix: str = ""
    ) -> Iterator[tuple[str, Module]]:
        """The module itself and all submodules with names such as "encoder.layers.0", a shared one once.

        >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(4, name="out")
        >>> model = rf.Sequential(rf.Sequential(rf.Linear(feat, out), rf.relu), rf.LayerNorm(out))
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '0.0', '0.1', '1']

        Args:
            recurse: if False, only direct submodules.
            include_self: whether to begin with the module itself, under the name `prefix`.
            memo: the ids of modules to leave out; those that are returned are added.
            prefix: the prefix of all names.
        """
        memo = set() if memo is None else memo
        if include_self and id(self) not in memo:
            yield prefix, self
        memo.add(id(self))
        for name, child in list(vars(self).items()):
            if not isinstance(child, Module) or id(child) in memo:
                continue
            path = f"{prefix}.{name}" if prefix else name
            if recurse:
                yield from child.named_modules(memo=memo, prefix=path)
            else:
                memo.add(id(child))
                yield path, child

    def parameters(self, *, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and its submodules, a shared one once.

        >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(4, name="out")
        >>> sum(parameter.num_elements() for parameter in rf.Linear(feat, out).parameters())  # 3 · 4 + 4
        16
        """
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_parameters(self, *, recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters with names such as "encoder.lstm.ff_weight", which they keep as their `name`.

        >>> model = rf.Sequential(rf.Linear(rf.Dim(3, name="feat"), rf.Dim(4, name="out")), rf.relu)
        >>> [(name, parameter.describe_dims()) for name, parameter in model.named_parameters()]
        [('0.weight', '{feat:3, out:4}'), ('0.bias', '{out:4}')]
        """
        ids: set[int] = set()
        for path, module in self.named_modules() if recurse else [("", self)]:
            for name, parameter in list(vars(module).items()):
                if isinstance(parameter, Parameter) and id(parameter) not in ids:
                    ids.add(id(parameter))
                    full_name = f"{path}.{name}" if path else name
                    _name_after(parameter, full_name)
                    yield full_name, parameter

    @property
    def has_parameters(self) -> bool:
        """Whether this module or a submodule has parameters."""
        return any(True for _ in self.parameters())

    @guarded
    def get_deep(self, target: str) -> Any:
        """The attribute with this dotted name: "encoder.layers.0". Raises ParameterError if there is none.

        >>> model = rf.Sequential(rf.Linear(rf.Dim(3, name="feat"), rf.Dim(4, name="out")), rf.relu)
        >>> model.get_deep("0.bias") is model[0].bias
        True
        """
        value = self
        for name in filter(None, target.split(".")):
            if not hasattr(value, name):
                raise ParameterError(
                    f"{type(self).__name__} has no attribute {target!r}",
                    got=f"{type(value).__name__} without {name!r}",
                    expected=", ".join(_public_names(value)) or None,
                    hint=did_you_mean(name, _public_names(value)),
                )
            value = getattr(value, name)
        return value

    def set_deep(self, target: str, value: object) -> None:
        """Sets the attribute with this dotted name.

        >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(4, name="out")
        >>> first, second = rf.Linear(feat, out), rf.Linear(feat, out)
        >>> model = rf.Sequential(first, second)
        >>> model.set_deep("1.weight", first.weight)  # now both share it
        >>> [name for name, _ in model.named_parameters()]
        ['0.weight', '0.bias', '1.bias']
        """
        path, _, name = target.rpartition(".")
        setattr(self.get_deep(path), name, value)

    # -- all at once

    @guarded
    def apply(self: M, fn: Callable[[Module], object]) -> M:
        """Calls `fn` with each submodule, innermost first, and then with the module itself; with a shared one once.

        >>> model = rf.Sequential(rf.Linear(rf.Dim(3), rf.Dim(2)), rf.relu)
        >>> _ = model.apply(lambda module: print(module.get_default_name()))
        linear
        relu
        sequential
        """
        _apply(self, fn, {id(self)})
        return self

    @guarded
    def to(self: M, *, device: str | None = None, dtype: str | None = None) -> M:
        """Moves all parameters, in place, so that optimizers keep them. `dtype` applies to float parameters only.

        >>> linear = rf.Linear(rf.Dim(3, name="feat"), rf.Dim(4, name="out"))
        >>> weight = linear.weight
        >>> _ = linear.to(dtype="bfloat16")
        >>> linear.weight is weight, weight.dtype
        (True, 'bfloat16')
        """
        for parameter in self.parameters():
            raw, is_float = parameter.raw_tensor, parameter.dtype.startswith(("float", "bfloat"))
            backends.backend_of_raw(raw).parameter_move_raw(raw, device, dtype if is_float else None)
        return self

    def register_forward_hook(self, hook: ForwardHook, *, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, args, kwargs, result)` after each call; the hook may return another result.

        >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(4, name="out")
        >>> linear = rf.Linear(feat, out)
        >>> handle = linear.register_forward_hook(lambda module, args, kwargs, result: rf.zeros_like(result))
        >>> linear(rf.ones([feat])).raw_tensor.tolist()
        [0.0, 0.0, 0.0, 0.0]
        >>> handle.remove()
        """
        if self._forward_hooks is None:
            self._forward_hooks = {}
        return add_hook(self._forward_hooks, hook, first=prepend)

    # -- how it is called

    def get_default_name(self) -> str:
        """The name of the module where no attribute names it: "layer_norm" for LayerNorm.

        >>> rf.LayerNorm(rf.Dim(3, name="feat")).get_default_name()
        'layer_norm'
        """
        cls = type(self).__name__
        words = [("_" if i and c.isupper() and not cls[i - 1].isupper() else "") + c.lower() for i, c in enumerate(cls)]
        return "".join(words)

    def name_of(self, module: Module) -> str | None:
        """The dotted name of a submodule, relative to this module; None if it is not a submodule.

        >>> linear = rf.Linear(rf.Dim(3, name="feat"), rf.Dim(4, name="out"))
        >>> model = rf.Sequential(rf.Sequential(linear, rf.relu), rf.tanh)
        >>> model.name_of(linear), linear.name_of(model)
        ('0.0', None)
        """
        return next((name for name, part in self.named_modules(include_self=False) if part is module), None)

    def extra_repr(self) -> str:
        """What views show beside the class: "in:26 → out:128". Subclasses may override it, as in torch.

        >>> rf.Linear(rf.Dim(26, name="in"), rf.Dim(128, name="out")).extra_repr()
        'in:26 → out:128'
        """
        dims = [getattr(self, name, None) for name in ("in_dim", "out_dim")]
        sizes = [f"{dim.name}:{'?' if dim.dimension is None else dim.dimension}" for dim in dims if type(dim) is Dim]
        return " → ".join(sizes)

    def __repr__(self) -> str:
        view = view_of(self)
        if view is not None:
            return repr(view)
        parts = [
            *(name for name, _ in self.named_children()),
            *(name for name, _ in self.named_parameters(recurse=False)),
        ]
        return terminal_text(f"{type(self).__name__}({', '.join(parts)})")


def check_module(module: object, what: str) -> None:
    """Raises ParameterError if `module` is not an rf.Module. what: the function, for the message."""
    if not isinstance(module, Module):
        raise ParameterError(
            f"{what}: this is not an rf.Module",
            got=f"{type(module).__module__}.{type(module).__qualname__}".removeprefix("builtins."),
            expected="an rf.Module",
        )


def _observed(forward: Callable[..., object]) -> Callable[..., object]:
    """`forward`, reported to the active listener and followed by the hooks."""
    explain = (forward.__module__ or "").startswith(f"{ROOT}.")  # modules of users raise what they raise

    @functools.wraps(forward)
    def call(self: Module, *args: object, **kwargs: object) -> Any:
        if type(self).__call__ is not call:  # super().__call__(…): listeners see the call of the subclass
            return forward(self, *args, **kwargs)
        if self._mirror_ref is not None and (mirror := self._mirror_ref.calling(self)) is not None:
            return mirror.call_inside(args, kwargs)
        listener = active_listener()
        try:
            if listener is None:
                result = forward(self, *args, **kwargs)
            else:
                result = listener.call_module(self, forward, args, kwargs)
        except Exception as failure:
            if explain:
                _explain(self, forward, args, kwargs, failure)
            raise
        if self._forward_hooks:
            result = run_post_hooks(self._forward_hooks, self, args, kwargs, result)
        return result

    return call


def _explain(module: Module, forward: Callable[..., Any], args: Any, kwargs: Any, failure: Exception) -> None:
    """Raises the error that says which argument of a call is wrong, if there is one."""
    signature = inspect.signature(forward)
    try:
        arguments = signature.bind(module, *args, **kwargs).arguments
    except TypeError:  # an argument is missing, or unknown: Python's message names it
        options = {name: p for name, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY}
        lacking = [name for name, p in options.items() if p.default is p.empty and name not in kwargs]
        if lacking and kwargs.keys() <= signature.parameters.keys():
            needs = "; ".join(f"`{name}`{NEEDS.get(name, '')}" for name in lacking)
            raise TypeError(f"{type(module).__name__}() needs {needs}") from None
        return
    error = explained(type(module).__name__, forward, dict(list(arguments.items())[1:]), failure)
    if error is not None:
        raise error


def _apply(module: Module, fn: Callable[[Module], object], seen: set[int]) -> None:
    for child in module.children():
        if id(child) not in seen:
            seen.add(id(child))
            _apply(child, fn, seen)
    fn(module)


def _name_after(parameter: Parameter, path: str) -> None:
    """Sets the name of a parameter to its longest path so far: first "weight", later "encoder.linear.weight"."""
    if parameter.name == "parameter" or path.endswith(f".{parameter.name}"):
        parameter.name = path


def _public_names(owner: object) -> list[str]:
    return [name for name in getattr(owner, "__dict__", {}) if not name.startswith("_")]
