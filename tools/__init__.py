"""Set-up of the checkout: the pinned engine, plugins, checks."""
