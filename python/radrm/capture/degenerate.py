# SPDX-License-Identifier: MIT
"""What NumPy's linear algebra, and SciPy's rotations, are given of values that came from the GPU: all ones, from which a mean was taken,
or which were divided by nothing. They would raise an error that a GPU's values do not raise, so they are given the identity instead."""
import functools

NAMES = ("svd", "eig", "eigh", "eigvals", "eigvalsh", "inv", "pinv", "solve", "cholesky", "lstsq")


def trusting(recorder, real, error):
    """`real`, whose first argument is a matrix or several."""
    import numpy

    @functools.wraps(real)
    def run(a, *args, **kwargs):
        try:
            return real(a, *args, **kwargs)
        except error:
            if not recorder.values_read or numpy.ndim(a) < 2:
                raise
            return real(numpy.broadcast_to(numpy.eye(*numpy.shape(a)[-2:]), numpy.shape(a)).astype(numpy.asarray(a).dtype), *args, **kwargs)
    return run


def trust(recorder, linalg):
    for name in NAMES:
        setattr(linalg, name, trusting(recorder, getattr(linalg, name), linalg.LinAlgError))


def trust_rotations(recorder, transform):
    kind = transform.Rotation
    try:
        kind.from_matrix = staticmethod(trusting(recorder, kind.from_matrix, ValueError))
    except TypeError:  # older ones are written in C
        pass
