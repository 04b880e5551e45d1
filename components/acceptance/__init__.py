"""From machines that exist to a measured bus bandwidth: ready, build, measure, search, accept, and the records of it."""
