"""What changes when a load is applied, replaced or taken out: which rows come and go, and what is recorded of it.

This room knows rows, their identities and the loads that brought and deleted them. ``detection`` finds
what a change does to constraints; the jobs decide what becomes of the state.
"""
