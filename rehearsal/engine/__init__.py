"""Stand-ins for Pulumi plugins, used only if the genuine ones are not installed."""
