"""The numba functions: arrays in, arrays out, nothing else. Importing a module of this room imports numba.

Numba keeps what it compiled beside the source, which therefore needs a lasting path.
"""

from dc_engine.settling import settle_kernels

settle_kernels(__name__, __path__)
