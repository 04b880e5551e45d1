"""Ports of file systems on AWS, as the first and last port of each range."""

#: FSx for Lustre user guide, "File system access control with Amazon VPC": open in both directions between clients and servers.
LUSTRE_PORTS = ((988, 988), (1018, 1023))
#: aws-parallelcluster:cli/src/pcluster/constants.py, FSX_PORTS: open towards the servers, over TCP and UDP.
OPENZFS_PORTS = ((111, 111), (2049, 2049), (20001, 20003))
