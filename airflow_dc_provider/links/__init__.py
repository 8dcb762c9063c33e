"""Links from tasks to where their results are reviewed."""
