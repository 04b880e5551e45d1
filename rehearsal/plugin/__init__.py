"""What every stand-in cloud needs alike: the provider protocol, a store that survives a crash, types, faults."""
