# SPDX-License-Identifier: MIT
"""What captures put in the place of PyTorch's functions takes arguments by the names that PyTorch gives them."""
import inspect
import re
import types

import pytest

torch = pytest.importorskip("torch")

from radrm.capture import script  # noqa: E402
from radrm.capture.session import Session  # noqa: E402

FUNCTIONS = (types.FunctionType, types.MethodDescriptorType, types.BuiltinFunctionType)
BY_PLACE = {("torch._C", "_scatter")}  # called by PyTorch itself alone


def names(function):
    """Of arguments that may be given by name; None: nothing says. Functions of C++ have them in the first line of what they say
    of themselves."""
    try:
        given = inspect.signature(function).parameters.values()
        found = [p.name for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    except (TypeError, ValueError):
        said = re.match(r"\w+\(([^)]*)\) ->", (function.__doc__ or "").strip())
        found = [word for part in said[1].split(",") if (word := re.split("[=:]", part)[0].strip()).isidentifier()] if said else None
    return found and [name for name in found if name != "self"]


def missing(before, now, method):
    """Names that PyTorch has and a stand-in has not, and those that a stand-in insists on and PyTorch has not."""
    known, taken = names(before), list(inspect.signature(now, follow_wrapped=False).parameters.values())[method:]
    if not known:
        return []
    by_name = [p for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    insists = [p.name for p in by_name if p.default is p.empty and p.name not in known]
    return insists + [name for name in known if name not in {p.name for p in by_name} and all(p.kind is not p.VAR_KEYWORD for p in taken)]


def compared(owner, name, before, now):
    """What is there, and what was in its place: functions, and methods of classes."""
    if inspect.isclass(now) and inspect.isclass(before):
        for method, value in vars(now).items():
            if inspect.isfunction(value) and not method.startswith("__") and isinstance(getattr(before, method, None), FUNCTIONS):
                yield f"{name}.{method}", getattr(before, method), value, True
    elif isinstance(now, types.FunctionType) and isinstance(before, FUNCTIONS) and not name.startswith("__"):
        yield f"{owner.__name__}.{name}", before, now, isinstance(owner, type)


def test_names_of_arguments():
    session, found, seen = Session(iterations=3), {}, 0
    with session:
        script.install(session)
        for owner, name, had, before in session.gpu._undo:
            before = before if had else getattr(super(owner, owner), name, None) if isinstance(owner, type) else None
            if (owner, name) in found or (owner.__name__, name) in BY_PLACE:
                continue
            before, now = (getattr(f, "__func__", f) for f in (before, vars(owner).get(name)))
            found[owner, name] = [(what, gone) for what, *both in compared(owner, name, before, now) if (gone := missing(*both))
                                  or not (seen := seen + 1)]
    assert seen > 150 and [each for some in found.values() for each in some] == []


def test_by_name(capture):
    """As DeepXDE calls it."""
    code, said, f = capture("""
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).to("cuda")
        model[0].requires_grad_(requires_grad=False)
        optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
        for _ in range(20):
            model(torch.asarray(obj=[[1.0] * 64]).requires_grad_(requires_grad=False).to("cuda")).sum().backward()
            optimizer.step()
    """)
    assert code == 0 and f.header["optimizer"] == "sgd", said
