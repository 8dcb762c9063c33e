"""Reading what a gate left, in people's own tasks."""
