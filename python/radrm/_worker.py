# SPDX-License-Identifier: MIT
"""What a task of radrm.futures runs:  python _worker.py FOLDER

Calls the function in FOLDER/call-N.pkl, N being RAD_ARRAY_TASK_ID or 0, and leaves what it returned in result-N.pkl, or what it raised in
error-N.pkl, with the exit code 1: radd may find that it ran out of memory and run it again, so an error counts only when the
task has ended for good.
"""
import os
import sys

if __name__ == "__main__":
    sys.path[:1] = []   # this file's folder: `submitit` is another package than radrm.submitit


loading_main = False    # meanwhile radrm.futures refuses calls


def dumps(value):
    try:
        import cloudpickle as pickler
    except ImportError:
        import pickle as pickler
    return pickler.dumps(value)


def load_main(main):
    """The caller's script or module as __main__, where pickle looks for what was there: as processes of multiprocessing have it, so
    what stands under `if __name__ == "__main__":` does not run."""
    from multiprocessing import spawn
    global loading_main
    loading_main = True
    spawn.prepare(main)
    loading_main = False


def _opener(path, flags):
    return os.open(path, flags, 0o644)


def write(path, data):
    """Writable for its owner alone, whatever the umask: it is read by pickle."""
    with open(path + ".part", "wb", opener=_opener) as f:
        f.write(data)
    os.replace(path + ".part", path)


def describe(error, trace):
    """What can be read again elsewhere: the exception where it can be pickled and unpickled, else its words."""
    import pickle
    try:
        data = dumps((error, trace))
        pickle.loads(data)
        return data
    except Exception:
        return dumps((RuntimeError("%s: %s" % (type(error).__name__, error)), trace))


def main():
    import json
    import pickle
    import traceback
    folder, index = sys.argv[1], os.environ.get("RAD_ARRAY_TASK_ID", "0")

    def path_of(kind):
        return os.path.join(folder, "%s-%s.pkl" % (kind, index))

    with open(os.path.join(folder, "setup.json")) as f:
        setup = json.load(f)
    for entry in setup["path"]:
        if entry not in sys.path:
            sys.path.append(entry)
    try:
        if setup.get("main"):
            load_main(setup["main"])
        with open(path_of("call"), "rb") as f:
            function, args, kwargs = pickle.load(f)
        data = dumps(function(*args, **kwargs))
    except BaseException as error:
        trace = traceback.format_exc()
        write(path_of("error"), describe(error, trace))
        if isinstance(error, SystemExit) and error.code not in (None, 0):
            raise
        print(trace, file=sys.stderr, flush=True)    # also for radd, which reads in it why a task ended
        return 1
    write(path_of("result"), data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
