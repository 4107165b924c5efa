# SPDX-License-Identifier: MIT
"""What NumPy's linear algebra is given of values that came from the GPU: all ones, from which a mean was taken, or which were
divided by nothing. It would raise an error that a GPU's values do not raise, so it is given the identity instead."""
import functools

NAMES = ("svd", "eig", "eigh", "eigvals", "eigvalsh", "inv", "pinv", "solve", "cholesky", "lstsq")


def trust(recorder, linalg):
    import numpy

    def trusting(real):
        @functools.wraps(real)
        def run(a, *args, **kwargs):
            try:
                return real(a, *args, **kwargs)
            except linalg.LinAlgError:
                if not recorder.values_read or numpy.ndim(a) < 2:
                    raise
                return real(numpy.broadcast_to(numpy.eye(*numpy.shape(a)[-2:]), numpy.shape(a)).astype(numpy.asarray(a).dtype),
                            *args, **kwargs)
        return run
    for name in NAMES:
        setattr(linalg, name, trusting(getattr(linalg, name)))
