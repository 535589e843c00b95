"""The command line. Every command is a thin layer over ``tenure.client``; heavy imports happen inside commands."""
