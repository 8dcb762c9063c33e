"""What changes when a load is applied, replaced or taken out: which rows come and go, and what is written down of it.

This room knows rows, their identities and the loads that brought and deleted them. What a change does to constraints is
found by ``detection``; what becomes of the state is for the jobs.
"""
