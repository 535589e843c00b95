"""Telling people what becomes of their jobs: an outbox made from the log, and its delivery by webhook and e-mail."""
