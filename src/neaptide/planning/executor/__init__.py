"""Runs a plan on a real eager model, through the hooks that autograd offers for what it saves."""
