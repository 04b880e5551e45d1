"""Oracle Cloud Infrastructure: network, bastion and a cluster network of bare-metal GPU nodes."""
