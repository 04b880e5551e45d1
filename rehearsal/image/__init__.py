"""Stand-ins for programs of the vendors' images; README.md lists every part that is not real."""
