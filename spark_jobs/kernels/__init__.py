"""The numba functions: arrays in, arrays out, nothing else. Importing a module of this room imports numba."""
