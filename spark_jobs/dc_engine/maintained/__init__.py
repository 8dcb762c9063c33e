"""What is derived from the rows of a state and maintained by every change of them, whoever makes it.

Each such thing is a ``Maintained`` (``base.py``); ``everything.py`` lists them. Jobs and histories go by that list and
name none of its members.
"""
