"""The stand-in for the command plugin 1.2.1."""
