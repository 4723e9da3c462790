"""Runs of many tenants that speak by one model, together on one pool and one after another."""
