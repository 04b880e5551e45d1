"""What both stand-in clouds share: the provider protocol, a store that survives a crash, resource types and faults."""
