"""Common parts of both stand-in clouds: the provider protocol, a crash-safe store, resource types and faults."""
