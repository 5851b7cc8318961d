"""One job in less memory: plans, what they cost, the planners that make them, and the executor that runs them."""
