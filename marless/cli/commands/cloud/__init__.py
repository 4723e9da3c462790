"""Commands about a deployment in the cloud."""
