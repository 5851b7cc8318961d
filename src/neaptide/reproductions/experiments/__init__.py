"""What the papers measured, as pure functions of traces; a file per paper, the published figures beside ours."""
