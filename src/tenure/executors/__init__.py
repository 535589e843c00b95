"""Executors run attempts: one protocol, one contract test suite, several implementations."""
