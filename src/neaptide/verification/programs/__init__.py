"""Programs that `neaptide verify` starts on the device; each writes what it saw as one line of JSON."""
