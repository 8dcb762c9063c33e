"""Dependencies: which rules hold in a table, found in the data and kept exact.

When two rows are compared in two columns, the comparison has an outcome; the outcomes of all such *terms* are the
*pattern* of the two rows. A dependency forbids a *box* of patterns. Seen as the outcomes that it excludes, a dependency
that holds is a hitting set of the patterns that occur, and a minimal one is a minimal hitting set.
"""
