"""The HTTP API: models shared with the client, and the server's routes."""
