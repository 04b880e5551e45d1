"""A real Kubernetes cluster on rehearsed hosts: the programs are Kubernetes' own, and only GPUs, RDMA and the image are not."""
