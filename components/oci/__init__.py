"""Oracle Cloud Infrastructure: network, login nodes, file systems, and bare-metal GPU nodes with or without cluster network."""
