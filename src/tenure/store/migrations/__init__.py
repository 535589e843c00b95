"""Alembic's environment: the steps that bring a database from any earlier version to the declared tables.

A change of ``schema`` needs a new file in ``versions``; a test says so until the two agree.
"""
