# SPDX-License-Identifier: MIT
"""The end of a capture, which holds whatever the script makes of the exception that brings it.

That is no Exception, so `except Exception` lets it through. A bare `except:` does not, and where it stands around a training step the
loop goes on. Who brings the end a second time insists.
"""
import os
import sys

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


class End(BaseException):
    """Enough was seen, or the time is over."""
    brought = False  # one was raised


def bring(end):
    """Raises it; the second time, wherever a line of the script is reached afterwards, too: in the `except:` that held it, in those
    around that, behind them. What is called there, as to close a file, runs."""
    if End.brought:
        insist(end)
    End.brought = True
    raise end


def insist(end):
    """Python gives up tracing lines once that raised an error, but not calls: so it is begun anew where something is called or
    left."""
    def again(frame, event, argument):
        if event == "line":
            raise end
        return again

    def begin(frame):
        while frame is not None:
            if not frame.f_code.co_filename.startswith((OWN, "<")):
                frame.f_trace = again
            frame = frame.f_back
        sys.settrace(lambda *_: None)

    def called(frame, event, argument):
        if sys.gettrace() is None:
            begin(frame)
    begin(sys._getframe(2))
    sys.setprofile(called)


def came():
    """It is out of the script."""
    sys.setprofile(None)
    sys.settrace(None)
    End.brought = False
