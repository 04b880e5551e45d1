"""The stand-in for Oracle's cloud: a Pulumi provider plugin that keeps the vendor's rules, and knows no program."""
