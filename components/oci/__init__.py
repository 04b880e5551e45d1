"""Oracle Cloud Infrastructure: network, login nodes, file systems, and bare-metal GPU nodes in cluster networks or without one."""
