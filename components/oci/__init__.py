"""Oracle Cloud Infrastructure: network, login node and a cluster network of bare-metal GPU nodes."""
