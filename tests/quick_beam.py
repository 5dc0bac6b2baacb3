"""Beam looks up the same things hundreds of times a pipeline, which is half of a small one's time:
a parser of all options for every step, and the source and the signatures of a DoFn's methods. Here
they are kept, and what is pickled is compressed with less effort.
"""

import bz2
import functools
import types
import weakref

from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.transforms import core, userstate

IN_PROCESS = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
"""The in-process runner by the name that all versions of Beam have."""


def run_in_process():
    """Makes the in-process runner the default: DirectRunner tries to download another first."""
    StandardOptions.DEFAULT_RUNNER = IN_PROCESS


def keep_what_beam_looks_up():
    """For this process; views of options share their values as before."""
    userstate.get_dofn_specs = _kept_specs(userstate.get_dofn_specs)
    core.get_function_args_defaults = _kept_arguments(core.get_function_args_defaults)
    core._check_fn_use_yield_and_return = _kept_by_code(core._check_fn_use_yield_and_return)
    PipelineOptions.view_as = _kept_view(PipelineOptions.view_as)
    cloudpickle_pickler.bz2 = types.SimpleNamespace(
        compress=lambda content, compresslevel: bz2.compress(content, 1),
        decompress=bz2.decompress,
    )


def _kept_specs(look_up):
    by_class = {}

    @functools.wraps(look_up)
    def specs(dofn):
        # Specs stand in signatures: of the methods of the class, and of those that an instance has.
        own = {
            name: value.__func__
            for name, value in vars(dofn).items()
            if isinstance(value, types.MethodType)
        }
        kind = type(dofn), *own.items()
        if kind not in by_class:
            by_class[kind] = look_up(dofn)
        states, timers = by_class[kind]
        return set(states), set(timers)

    return specs


def _kept_arguments(look_up):
    by_function = weakref.WeakKeyDictionary()

    @functools.wraps(look_up)
    def arguments(method):
        # A bound method has the arguments of its function but the first one.
        is_bound = isinstance(method, types.MethodType)
        function = method.__func__ if is_bound else method
        if not isinstance(function, types.FunctionType):
            return look_up(method)
        kept = by_function.setdefault(function, {})
        if is_bound not in kept:
            kept[is_bound] = look_up(method)
        names, defaults = kept[is_bound]
        return list(names), list(defaults)

    return arguments


def _kept_by_code(look_up):
    """What is looked up in the source of a function, whose line its code knows."""
    by_code = {}

    @functools.wraps(look_up)
    def kept(function):
        code = getattr(function, "__code__", None)
        if code is None:
            return look_up(function)
        place = code.co_filename, code.co_firstlineno, code.co_name
        if place not in by_code:
            by_code[place] = look_up(function)
        return by_code[place]

    return kept


def _kept_view(make):
    kept = weakref.WeakKeyDictionary()

    @functools.wraps(make)
    def view_as(self, cls):
        views = kept.setdefault(self, {})
        if cls not in views:
            views[cls] = make(self, cls)
        return views[cls]

    return view_as
