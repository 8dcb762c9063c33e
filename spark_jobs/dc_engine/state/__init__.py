"""Snapshots of a table's state: read, commit. This room has no idea what an index is.

A state is a folder (any fsspec URI): immutable data files, and snapshots that are created exclusively, so that a commit
happens wholly or not at all.
"""
