"""Amazon Web Services: network, head node, file systems and queues of machines with EFA."""
