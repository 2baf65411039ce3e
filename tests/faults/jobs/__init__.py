"""Jobs that are killed: specifications, the process that runs one, and the recount that judges it."""
