"""Stand-ins for Pulumi plugins, used only where the genuine ones are not installed."""
