"""A stand-in cloud on one Linux machine: real hosts, real networks, real cloud-init."""
