"""The kinds of resources that the emulated account can make, each through the service's own API."""
