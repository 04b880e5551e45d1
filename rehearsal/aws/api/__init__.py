"""The EC2 endpoint of AWS: the operations of the Query API that an instance's role may call."""
