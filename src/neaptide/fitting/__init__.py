"""`neaptide.fit`: a byte budget for a model that runs here, kept by a plan. It joins capture and planning."""
