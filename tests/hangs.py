"""How long tests wait for what other threads and processes do."""

HANGS_SECONDS = 180.0  # nothing takes that long, on a busy machine either; whoever waits longer waits for ever
