"""Stand-ins for what the vendors' images have; README.md lists every part that is not real."""
