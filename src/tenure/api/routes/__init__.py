"""The routes under ``/v1``, by what they are about."""
