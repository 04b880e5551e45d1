"""A stand-in cloud on one Linux machine: real hosts, real wires, real cloud-init; it never knows the program."""
