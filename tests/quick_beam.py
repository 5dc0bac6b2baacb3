"""Beam looks up the same things hundreds of times a pipeline, which is half of a small one's time:
a parser of all options for every step, and the signatures of a DoFn's methods. Here they are kept.
"""

import functools
import types
import weakref

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
    PipelineOptions.view_as = _kept_view(PipelineOptions.view_as)


def _kept_specs(look_up):
    by_class = {}

    @functools.wraps(look_up)
    def specs(dofn):
        # A method that an instance has of its own is looked at; all others are of its class.
        if any(isinstance(value, types.MethodType) for value in vars(dofn).values()):
            return look_up(dofn)
        kind = type(dofn)
        if kind not in by_class:
            by_class[kind] = look_up(dofn)
        states, timers = by_class[kind]
        return set(states), set(timers)

    return specs


def _kept_arguments(look_up):
    by_function = weakref.WeakKeyDictionary()

    @functools.wraps(look_up)
    def arguments(callable_):
        # A bound method has the arguments of its function but the first one.
        is_bound = isinstance(callable_, types.MethodType)
        function = callable_.__func__ if is_bound else callable_
        if not isinstance(function, types.FunctionType):
            return look_up(callable_)
        kept = by_function.setdefault(function, {})
        if is_bound not in kept:
            kept[is_bound] = look_up(callable_)
        names, defaults = kept[is_bound]
        return list(names), list(defaults)

    return arguments


def _kept_view(make):
    kept = weakref.WeakKeyDictionary()

    @functools.wraps(make)
    def view_as(self, cls):
        views = kept.setdefault(self, {})
        if cls not in views:
            views[cls] = make(self, cls)
        return views[cls]

    return view_as
