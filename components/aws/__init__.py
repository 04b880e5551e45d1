"""Amazon Web Services: network, login node, file systems and queues of machines with EFA."""
