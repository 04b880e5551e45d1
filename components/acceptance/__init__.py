"""The stages from existing machines to an accepted bus bandwidth: ready, build, measure, search, accept, records."""
